"""Compares ways of searching with a translator that train.py saved.

python examples/translation/evaluate.py runs/translation/translator \\
    --data FOLDER --source en --target fr --split test --page test.html
"""

import argparse
import contextlib
import os
import pathlib
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402
from arguments import positive, refuse  # noqa: E402
from loading import load_saved, searching  # noqa: E402

from keras_bahdanau.pages import AlignmentExample, write_alignment_page  # noqa: E402
from keras_bahdanau.tf import (  # noqa: E402
    corpus_bleu,
    parallel_folder,
    surface,
)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("translator", type=pathlib.Path, help="folder")
    parser.add_argument("--data", type=pathlib.Path, metavar="FOLDER", required=True)
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="fr")
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=positive, metavar="N")
    parser.add_argument("--beams", type=positive, default=5, metavar="K")
    parser.add_argument(
        "--length-penalty", default="gnmt", choices=["none", "gnmt", "average"]
    )
    parser.add_argument("--alpha", type=float, help="exponent of the length penalty")
    parser.add_argument(
        "--int8",
        action="store_true",
        help="greedy search and beams also with the largest weights as 8-bit integers",
    )
    parser.add_argument(
        "--page",
        type=pathlib.Path,
        metavar="FILE",
        help="write what the last search found, with its links, as an HTML page",
    )
    args = parser.parse_args()
    if args.beams == 1:
        parser.error("argument --beams: one beam is greedy search, the first row")
    if args.page and not args.page.parent.is_dir():
        parser.error(f"argument --page: no such folder: {args.page.parent}")
    try:
        corpus = parallel_folder(args.data, args.source, args.target, args.split)
        translators = searches(args)
    except (OSError, ValueError) as error:
        refuse(parser, error)
    corpus = corpus.take(args.limit) if args.limit else corpus
    print(f"{len(corpus)} sentences of {corpus.name}")
    print("BLEU of the text, BLEU of tokens in lower case, seconds, the search")
    for name, translator in translators.items():
        results, bleu = evaluate(translator, corpus, name)
    if args.page:
        write_alignment_page(
            args.page,
            map(example, results, corpus.targets),
            title=f"{args.source} to {args.target}, {args.split}",
            summary=f"{name[0].upper()}{name[1:]}: BLEU {bleu:.2f}",
        )
        print(f"{args.page}: the sentence pairs of the last search")


def searches(args):
    """A translator for each search, by what to call it."""
    saved = load_saved(args.translator)
    beams = {
        "num_beams": args.beams,
        "length_penalty": args.length_penalty,
        "alpha": args.alpha,
    }
    several = f"{args.beams} beams"
    found = [("greedy", saved, {}), (several, saved, beams)]
    if args.int8:
        small = load_saved(args.translator, int8=True)
        found += [("greedy, int8", small, {}), (f"{several}, int8", small, beams)]
    known = {**beams, "allow_unknown": False}
    found.append((f"{several}, no unknown word", saved, known))
    if getattr(saved.model, "has_attention", True):
        replaced = {**beams, "replace_unknown": True}
        found.append((f"{several}, unknown replaced", saved, replaced))
    return {name: searching(model, **settings) for name, model, settings in found}


def evaluate(translator, corpus, name):
    started = time.time()
    with contextlib.redirect_stdout(sys.stderr):
        results = translator.translate(corpus.sources, verbose=sys.stderr.isatty())
    seconds = time.time() - started
    texts = [result.text for result in results]
    lowercase = translator.target_codec.lowercase
    plain = corpus_bleu(texts, corpus.targets, lowercase)
    words = corpus_bleu(texts, corpus.targets, lowercase=True, tokenized=True)
    print(f"{plain.score:6.2f} {words.score:6.2f} {seconds:5.0f}  {name}", flush=True)
    return results, plain.score


def example(result, reference):
    """What the page shows of a translation: its tokens without their spacing marks."""
    source, target = (
        surface(tf.constant(tokens, tf.string)).numpy()
        for tokens in (result.source_tokens, result.target_tokens)
    )
    return AlignmentExample(
        source, target, result.attention_weights, result.score, reference
    )


if __name__ == "__main__":
    main()
