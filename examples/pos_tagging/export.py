"""Exports a tagger as a SavedModel, and checks it where this library is not there.

python examples/pos_tagging/export.py runs/pos_tagging/two-way/tagger runs/served \\
    --check FILE
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from data import read_file  # noqa: E402

from keras_bahdanau.tf import Tagger, export_tagger, load_tagger  # noqa: E402

# What another program would do, where neither this library nor Keras is there.
PROGRAM = """
import json, sys
for name in ("keras_bahdanau", "keras"):
    sys.modules[name] = None
import tensorflow as tf
tagger = tf.saved_model.load(sys.argv[1])
with open(sys.argv[2], encoding="utf-8") as file:
    sentences = json.load(file)
found = []
for start in range(0, len(sentences), 64):
    words = tf.ragged.constant(sentences[start : start + 64], tf.string, ragged_rank=1)
    outputs = tagger.serve_tokens(words.to_tensor(""))
    for tags, length in zip(outputs["tags"].numpy(), outputs["lengths"].numpy()):
        found.append([tag.decode() for tag in tags[:length]])
with open(sys.argv[3], "w", encoding="utf-8") as file:
    json.dump(found, file)
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tagger", type=pathlib.Path, help="folder")
    parser.add_argument("output", type=pathlib.Path, help="folder to write")
    parser.add_argument(
        "--check",
        type=pathlib.Path,
        metavar="FILE",
        help="tag its words here and with the export in another process; .conllu, or "
        "columns in .conll",
    )
    args = parser.parse_args(arguments)
    try:
        # First, so that a wrong name is known before anything is written.
        corpus = read_file(args.check) if args.check else None
        tagger = load_tagger(args.tagger)
        if not isinstance(tagger, Tagger):
            raise ValueError(f"{args.tagger} is exported already")
        export_tagger(tagger, args.output)
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"export.py: {error}")
    print(f"Exported to {args.output}")
    if corpus is not None:
        words = [list(sentence.words) for sentence in corpus]
        check(args.output, words, [one.tags for one in tagger(words)])


def check(path, sentences, expected):
    """Compares the tags with those that a process without this library finds."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = (pathlib.Path(folder, name) for name in ("given", "found"))
        given.write_text(json.dumps(sentences), encoding="utf-8")
        command = [sys.executable, "-c", PROGRAM, path.resolve(), given, found]
        subprocess.run(list(map(str, command)), check=True, cwd=folder)
        others = json.loads(found.read_text(encoding="utf-8"))
    same = sum(list(one) == tags for one, tags in zip(expected, others, strict=True))
    print(
        f"SavedModel in {path}: {same} of {len(sentences)} sentences have the same "
        "tags in a process without keras_bahdanau and keras"
    )
    if same < len(sentences):
        raise SystemExit("The exported tagger differs from the one in Python.")


if __name__ == "__main__":
    main()
