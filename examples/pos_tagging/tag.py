"""Tags sentences with a tagger that train.py has made.

python examples/pos_tagging/tag.py runs/pos_tagging/two-way/tagger "The dog sleeps."
"""

import argparse
import itertools
import os
import pathlib
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from keras_bahdanau.tf import load_tagger  # noqa: E402

CHUNK = 1024


def text(argument):
    """Text; bytes that are no UTF-8 are replaced, as those of lines are."""
    return os.fsencode(argument).decode("utf-8", errors="replace")


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=pathlib.Path, help="a folder `tagger`, or the SavedModel"
    )
    parser.add_argument(
        "sentences", nargs="*", type=text, help="by default the lines of standard input"
    )
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="sentences are words with blanks between them; do not split further",
    )
    parser.add_argument(
        "--inline", action="store_true", help="one line a sentence: word/TAG word/TAG"
    )
    # Options may stand before the sentences.
    return parser.parse_intermixed_args(arguments)


def lines_of(args):
    """The sentences, one by one, whatever bytes are among them."""
    if args.sentences:
        yield from args.sentences
        return
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", errors="replace").rstrip("\r\n")


def write(tagged, inline):
    pairs = zip(tagged.words, tagged.tags, tagged.probabilities)
    if inline:
        print(" ".join(f"{word}/{tag}" for word, tag, _ in pairs))
        return
    for word, tag, probability in pairs:
        print(f"{word}\t{tag}\t{probability:.4f}")
    print()


def main(arguments=None):
    args = parse_arguments(arguments)
    try:
        tagger = load_tagger(args.folder)
    except ValueError as error:
        sys.exit(f"tag.py: {error}")
    lines = lines_of(args)
    while chunk := list(itertools.islice(lines, CHUNK)):
        for tagged in tagger(
            [line.split() for line in chunk] if args.tokens else chunk
        ):
            write(tagged, args.inline)


if __name__ == "__main__":
    main()
