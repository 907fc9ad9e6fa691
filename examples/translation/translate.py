"""Translates lines with a translator that train.py saved or exported.

python examples/translation/translate.py runs/translation/translator "A dog."
python examples/translation/translate.py runs/translation/saved_model < text.txt
"""

import argparse
import io
import itertools
import os
import pathlib
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from arguments import (  # noqa: E402
    add_search,
    positive,
    rate,
    refuse,
    search_settings,
    seed,
    text,
)
from links import links, words  # noqa: E402
from loading import load  # noqa: E402
from progress import count_lines, is_watched, watched  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("translator", type=pathlib.Path, help="folder")
    parser.add_argument(
        "text", type=text, nargs="*", help="sentences; without any: stdin"
    )
    parser.add_argument(
        "--alignments",
        action="store_true",
        help="print a tab and the source-target links (0-0 1-2) behind each "
        "translation; they count the words that --tokens prints, from 0",
    )
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="print, behind tabs, the source words and the target words, with blanks "
        "between: of a model of words its tokens, where punctuation stands apart; of a "
        "model of subwords what stands between blanks",
    )
    parser.add_argument(
        "--ensemble",
        type=pathlib.Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="another translator of the same codecs, to translate together; may be "
        "given several times",
    )
    parser.add_argument("--batch-size", type=positive, default=64)
    parser.add_argument(
        "--prefix", type=text, metavar="TEXT", help="how the translations must begin"
    )
    several = parser.add_mutually_exclusive_group()
    several.add_argument(
        "--nbest",
        type=positive,
        metavar="N",
        help="print the N best translations of each line, or as many as there are, "
        "each behind a score and a tab; of several lines, the number of the line from "
        "0 and a tab go before",
    )
    several.add_argument(
        "--sample",
        type=positive,
        metavar="N",
        help="print N translations of each line drawn at random, as --nbest does",
    )
    add_sampling(parser)
    add_search(parser)
    # Sentences may follow options.
    args = parser.parse_intermixed_args()
    check(parser, args)
    return parser, args


def main():
    parser, args = parse_arguments()
    settings = search_settings(args)
    path = [args.translator, *args.ensemble] if args.ensemble else args.translator
    try:
        translator = load(path, **settings)
    except ValueError as error:
        refuse(parser, error)
    texts, are_several, total = given(args)
    # Small parts, so that the bar moves; else large ones, of many a similar length.
    parts = 16 * args.batch_size if total else 4096
    found = translate(translator, texts, args, parts)
    for number, results in enumerate(watched(found, total) if total else found):
        for result in results:
            fields = [f"{result.score:.4f}"] if args.nbest or args.sample else []
            if fields and are_several:
                fields.insert(0, str(number))
            print("\t".join([*fields, *described(result, args)]), flush=True)


def add_sampling(parser):
    group = parser.add_argument_group("with --sample")
    group.add_argument("--temperature", type=rate, default=1.0)
    group.add_argument("--top-k", type=positive, metavar="N")
    group.add_argument("--top-p", type=rate, metavar="P")
    group.add_argument("--seed", type=seed)


def check(parser, args):
    """No argument is put aside without a word."""
    of_samples = "top_k", "top_p", "seed"
    of_searches = ("prefix", "beams", "length_penalty", "alpha", "coverage_penalty")
    of_searches += ("min_length", "no_repeat_ngram")
    for name in of_searches if args.sample else of_samples:
        if getattr(args, name) is not None:
            rule = "not with" if args.sample else "goes with"
            parser.error(f"argument --{name.replace('_', '-')}: {rule} --sample")
    if not args.sample and args.temperature != 1:
        parser.error("argument --temperature: goes with --sample")


def lines():
    """Those of standard input; bytes that are no UTF-8 are replaced, as in `text`."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return (line.rstrip("\r\n") for line in sys.stdin)


def given(args):
    """The sentences, whether they are several, and how many a bar is to count.

    At the keyboard they may be several. No bar is for a pipe, of which that is not
    known, nor for samples, which are drawn together.
    """
    total, has_bar = len(args.text), is_watched() and not args.sample
    if not args.text:
        texts = lines()
        if sys.stdin.isatty():
            return texts, True, None
        total = count_lines(sys.stdin) if has_bar else None
        begin = list(itertools.islice(texts, 2))
        texts, are_several = itertools.chain(begin, texts), len(begin) > 1
    else:
        texts, are_several = args.text, total > 1
    has_bar = has_bar and total is not None and total > args.batch_size
    return texts, are_several, total if has_bar else None


def translate(translator, texts, args, parts):
    """Lists of translations for each text, as they are found, so many at a time."""
    if args.sample and not hasattr(translator, "sample"):
        raise SystemExit(
            "--sample: what was exported draws nothing; take `translator`."
        )
    try:
        if args.sample:
            options = args.sample, args.temperature, args.top_k, args.top_p, args.seed
            yield from translator.sample(
                list(texts), *options, batch_size=args.batch_size
            )
            return
        find = translator.translate_nbest if args.nbest else translator.translate
        # A person at the keyboard waits for each line.
        chunk = 1 if not args.text and sys.stdin.isatty() else parts
        texts = iter(texts)
        while part := list(itertools.islice(texts, chunk)):
            prefixes = [args.prefix] * len(part) if args.prefix else None
            found = find(part, args.batch_size, prefixes=prefixes)
            yield from found if args.nbest else ([one] for one in found)
    except ValueError as error:
        raise SystemExit(str(error)) from error


def described(result, args):
    """The translation and what else is asked for of it."""
    fields = [result.text]
    if args.alignments:
        fields.append(links(result))
    if args.tokens:
        fields += [" ".join(side) for side in words(result)]
    return fields


if __name__ == "__main__":
    main()
