"""Aligns given translations (forced decoding) and compares them with gold links.

python examples/translation/align.py runs/translation/translator --gold FOLDER
"""

import argparse
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from arguments import refuse  # noqa: E402
from loading import load_saved  # noqa: E402

from keras_bahdanau.alignment import (  # noqa: E402
    alignment_error_rate,
    alignment_precision,
    alignment_recall,
    format_alignment,
    hard_alignment,
)
from keras_bahdanau.tf.word_alignment import read_gold, word_weights  # noqa: E402

# What long sentences cost shows beside the short ones.
SHORT = 10, 20


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("translator", type=pathlib.Path, help="folder")
    parser.add_argument(
        "--gold",
        type=pathlib.Path,
        metavar="FOLDER",
        required=True,
        help="folder of NAME.LANG texts, words with blanks between, and of their links "
        "in NAME.LANG-LANG.talp files",
    )
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="fr")
    parser.add_argument(
        "--allow-end",
        action="store_true",
        help="no link for a word that looks at the end of the source most",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="FILE",
        help="write the links that were found, in the Pharaoh format",
    )
    args = parser.parse_args()
    try:
        texts = read_gold(args.gold, args.source, args.target)
        translator = load_saved(args.translator)
    except (OSError, ValueError) as error:
        refuse(parser, error)
    print("AER, precision, recall, sentence pairs, the text")
    everything = []
    for name, text in texts.items():
        rows = []
        weights = word_weights(translator, text.sources, text.targets)
        for matrix, words, *gold in zip(
            weights, text.sources, text.sure, text.possible
        ):
            links = hard_alignment(matrix, len(words), allow_end=args.allow_end)
            rows.append((len(words), links, *gold))
        report(name, rows)
        everything += rows
    for length in SHORT:
        short = [row for row in everything if row[0] <= length]
        report(f"all up to {length} source words", short)
    report("all", everything)
    if args.output:
        lines = (format_alignment(links) for _, links, _, _ in everything)
        args.output.write_text("".join(f"{line}\n" for line in lines))


def report(name, rows):
    """Prints a line about rows of (source length, links, sure links, possible)."""
    if not rows:
        return
    _, found, sure, possible = zip(*rows)
    rate = alignment_error_rate(found, sure, possible)
    precision = alignment_precision(found, sure, possible)
    recall = alignment_recall(found, sure)
    print(f"{rate:.4f} {precision:9.4f} {recall:6.4f} {len(found):5}  {name}")


if __name__ == "__main__":
    main()
