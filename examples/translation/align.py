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
    parse_alignment,
    project_weights,
)
from keras_bahdanau.tf import normalize  # noqa: E402

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
    for name, (sources, targets, gold) in texts.items():
        found = align(translator, sources, targets, args.allow_end)
        rows = [
            (len(words), links, *both)
            for words, links, both in zip(sources, found, gold)
        ]
        report(name, rows)
        everything += rows
    for length in SHORT:
        short = [row for row in everything if row[0] <= length]
        report(f"all up to {length} source words", short)
    report("all", everything)
    if args.output:
        lines = (format_alignment(links) for _, links, _, _ in everything)
        args.output.write_text("".join(f"{line}\n" for line in lines))


def read_gold(folder, source, target):
    """The texts by name: lists of source words, of target words, and of gold links."""
    texts = {}
    for one, other in ((source, target), (target, source)):
        for path in sorted(folder.glob(f"*.{one}-{other}.talp")):
            name = path.name.removesuffix(f".{one}-{other}.talp")
            sides = [read_words(folder / f"{name}.{x}") for x in (source, target)]
            gold = [
                parse_alignment(line, reverse=one == target)
                for line in path.read_text(encoding="utf-8").splitlines()
            ]
            if len({len(part) for part in (*sides, gold)}) > 1:
                raise ValueError(
                    f"The files of {name} in {folder} must have one line for each "
                    f"sentence. They have {len(sides[0])}, {len(sides[1])} and "
                    f"{len(gold)}."
                )
            texts[name] = (*sides, gold)
    if not texts:
        raise ValueError(f"{folder} has no links of {source} and {target}.")
    return texts


def read_words(path):
    """The words of each line, in the form in which a codec sees them."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    words = [line.split(" ") for line in lines]
    return [[word.decode() for word in normalize(line).numpy()] for line in words]


def align(translator, sources, targets, allow_end):
    """The links between the words of each pair."""
    texts = [[" ".join(words) for words in side] for side in (sources, targets)]
    codecs = translator.source_codec, translator.target_codec
    tokens = [
        [[token.decode() for token in row] for row in codec.surfaces(side).to_list()]
        for codec, side in zip(codecs, texts)
    ]
    found = []
    for index, weights in enumerate(translator.align(*texts)):
        # The end tokens are no words; what they get of a word's attention is a
        # column behind the words.
        weights, at_end = weights[:-1, :-1], weights[:-1, -1:]
        parts = [side[index] for side in (tokens[0], sources, tokens[1], targets)]
        words = project_weights(weights, *parts)
        end = project_weights(at_end, ["."], ["."], *parts[2:])
        matrix = [[*row, *last] for row, last in zip(words, end)]
        found.append(hard_alignment(matrix, len(sources[index]), allow_end=allow_end))
    return found


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
