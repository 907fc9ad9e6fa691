"""Exports a translator with the search that it is to make, and checks the export.

python examples/translation/export.py runs/translation/translator runs/served \\
    --beams 5 --length-penalty average --replace-unknown --check FILE
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from arguments import add_search, positive, refuse, search_settings  # noqa: E402
from loading import load_saved, searching  # noqa: E402

from keras_bahdanau.tf import SubwordCodec  # noqa: E402

# What another program would do, where neither this library nor Keras is there.
PROGRAM = """
import json, sys
for name in {missing}:
    sys.modules[name] = None
{first}
import tensorflow as tf
translator = tf.saved_model.load(sys.argv[1])
with open(sys.argv[2], encoding="utf-8") as file:
    texts = json.load(file)
found = []
for start in range(0, len(texts), 64):
    outputs = translator.serve(tf.constant(texts[start : start + 64]))
    found += [text.decode() for text in outputs["translations"].numpy()]
with open(sys.argv[3], "w", encoding="utf-8") as file:
    json.dump(found, file)
"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("translator", type=pathlib.Path, help="folder")
    parser.add_argument("output", type=pathlib.Path, help="folder to write")
    add_search(parser)
    parser.add_argument("--nbest", type=positive, metavar="N", help="of `serve_nbest`")
    parser.add_argument(
        "--int8", action="store_true", help="the largest weights as 8-bit integers"
    )
    parser.add_argument(
        "--check",
        type=pathlib.Path,
        metavar="FILE",
        help="translate its lines here and with the export in another process",
    )
    parser.add_argument("--limit", type=positive, default=1000, metavar="N")
    args = parser.parse_args()
    try:
        # First, so that a wrong name is known before anything is written.
        texts = read(args.check, args.limit) if args.check else None
        translator = load_saved(args.translator, args.int8)
        translator = searching(translator, **search_settings(args))
        translator.export(args.output)
    except (OSError, ValueError) as error:
        refuse(parser, error)
    print(f"Exported to {args.output}")
    if texts is not None:
        check(translator, args.output, texts)


def read(path, limit):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\r\n") for line in itertools.islice(file, limit)]


def check(translator, path, texts):
    """Compares with what a process without this library makes of the export."""
    expected = translator(texts)
    subwords = isinstance(translator.source_codec, SubwordCodec)
    # `tensorflow_text` imports Keras by itself.
    missing = ["keras_bahdanau"] + ([] if subwords else ["keras"])
    first = "import tensorflow_text" if subwords else ""
    with tempfile.TemporaryDirectory() as folder:
        given, found = (pathlib.Path(folder, name) for name in ("given", "found"))
        given.write_text(json.dumps(texts), encoding="utf-8")
        program = PROGRAM.format(missing=missing, first=first)
        command = [sys.executable, "-c", program, path.resolve(), given, found]
        subprocess.run(list(map(str, command)), check=True, cwd=folder)
        others = json.loads(found.read_text(encoding="utf-8"))
    same = sum(one == other for one, other in zip(expected, others, strict=True))
    print(
        f"{same} of {len(texts)} translations are the same in a process without "
        f"{' and '.join(missing)}"
    )
    if same < len(texts):
        raise SystemExit("The exported translator differs from the one in Python.")


if __name__ == "__main__":
    main()
