"""Translates lines with a translator that train.py saved or exported.

python examples/translation/translate.py runs/translation/translator "A dog."
python examples/translation/translate.py runs/translation/saved_model < text.txt
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from arguments import positive  # noqa: E402

from keras_bahdanau.alignment import format_alignment, hard_alignment  # noqa: E402
from keras_bahdanau.tf import load_translator  # noqa: E402


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("translator", type=pathlib.Path, help="folder")
    parser.add_argument("text", nargs="*", help="sentences; without any: stdin")
    parser.add_argument(
        "--alignments",
        action="store_true",
        help="print a tab and source-target links of tokens behind each translation",
    )
    parser.add_argument(
        "--beams",
        type=positive,
        metavar="K",
        help="beam search with K beams; what train.py exported has its own number",
    )
    parser.add_argument(
        "--nbest",
        type=positive,
        metavar="N",
        help="print the N best translations of each line, each behind its score",
    )
    parser.add_argument("--batch-size", type=positive, default=64)
    # Sentences may follow options.
    args = parser.parse_intermixed_args()
    texts = args.text or (line.rstrip("\r\n") for line in sys.stdin)
    beams = args.beams or args.nbest
    settings = {"num_beams": beams, "num_results": args.nbest}
    settings = {name: value for name, value in settings.items() if value}
    try:
        translator = load_translator(args.translator, **settings)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    # A person at the keyboard waits for each line.
    chunk = 1 if sys.stdin.isatty() else 4096
    found = translator.stream(texts, args.batch_size, chunk, nbest=bool(args.nbest))
    for results in found:
        for result in results if args.nbest else [results]:
            score = f"{result.score:.4f}\t" if args.nbest else ""
            print(score + line(result, args.alignments), flush=True)


def line(result, alignments):
    return result.text + ("\t" + links(result) if alignments else "")


def links(result):
    """The links of the translation in the Pharaoh format."""
    if result.attention_weights is None:
        raise SystemExit("--alignments: this model has no attention.")
    lengths = len(result.source_tokens), len(result.target_tokens)
    return format_alignment(hard_alignment(result.attention_weights, *lengths))


if __name__ == "__main__":
    main()
