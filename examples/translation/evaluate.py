"""Compares ways of searching with a translator that train.py saved.

python examples/translation/evaluate.py runs/translation/translator \\
    --data FOLDER --source en --target fr --split test
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from arguments import positive  # noqa: E402

from keras_bahdanau.tf import (  # noqa: E402
    corpus_bleu,
    load_translator,
    parallel_folder,
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
    args = parser.parse_args()
    if args.beams == 1:
        parser.error("argument --beams: one beam is greedy search, the first row")
    corpus = parallel_folder(args.data, args.source, args.target, args.split)
    corpus = corpus.take(args.limit) if args.limit else corpus
    beams = {
        "num_beams": args.beams,
        "length_penalty": args.length_penalty,
        "alpha": args.alpha,
    }
    print(f"{len(corpus)} sentences of {corpus.name}")
    print("BLEU of the text, BLEU of tokens in lower case, seconds, the search")
    for name, settings in (
        ("greedy", {}),
        (f"{args.beams} beams", beams),
        (f"{args.beams} beams, no unknown word", {**beams, "allow_unknown": False}),
        (f"{args.beams} beams, unknown replaced", {**beams, "replace_unknown": True}),
    ):
        evaluate(load_translator(args.translator, **settings), corpus, name)


def evaluate(translator, corpus, name):
    started = time.time()
    texts = translator(corpus.sources)
    seconds = time.time() - started
    lowercase = translator.target_codec.lowercase
    plain = corpus_bleu(texts, corpus.targets, lowercase)
    words = corpus_bleu(texts, corpus.targets, lowercase=True, tokenized=True)
    print(f"{plain.score:6.2f} {words.score:6.2f} {seconds:5.0f}  {name}", flush=True)


if __name__ == "__main__":
    main()
