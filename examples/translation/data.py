"""The corpora that train.py can learn from."""

import pathlib
from typing import NamedTuple

from keras_bahdanau.tf import PairCorpus, parallel_folder, tfds_pairs
from keras_bahdanau.tf.grammar_builder import GrammarConfig, prepare_grammar


class Corpus(NamedTuple):
    """Three `PairCorpus`, and the gold links of the test pairs or `None`."""

    name: str
    train: PairCorpus
    validation: PairCorpus
    test: PairCorpus
    links: list | None = None


def add_arguments(parser):
    group = parser.add_argument_group(
        "data", "without --data and --tfds: sentences of the library's own grammar"
    )
    group.add_argument(
        "--data",
        type=pathlib.Path,
        metavar="FOLDER",
        help="folder of LANG.SPLIT.txt files, line by line translations",
    )
    group.add_argument(
        "--tfds",
        metavar="NAME",
        help="set of TensorFlow Datasets, such as ted_hrlr_translate/pt_to_en",
    )
    group.add_argument(
        "--download", action="store_true", help="let --tfds download the set"
    )
    group.add_argument("--source", default="en", help="language to translate from")
    group.add_argument("--target", default="fr", help="language to translate into")
    group.add_argument(
        "--splits",
        nargs=3,
        metavar=("TRAIN", "VALIDATION", "TEST"),
        help="names of the splits, for --tfds also slices such as train[:1%%]",
    )
    group.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="use N pairs at most for training, for validation and for the test",
    )


def load_corpus(args):
    """The corpus that the command line asks for."""
    if args.data and args.tfds:
        raise SystemExit("--data and --tfds exclude each other.")
    if not (args.data or args.tfds):
        return _grammar(args.seed, args.limit)
    if args.data:
        splits = args.splits or _splits_of(args.data, args.source)
        parts = [
            parallel_folder(args.data, args.source, args.target, split)
            for split in splits
        ]
    else:
        splits = args.splits or ("train", "validation", "test")
        parts = [
            tfds_pairs(
                args.tfds, split, args.source, args.target, download=args.download
            )
            for split in splits
        ]
    if args.limit:
        parts = [part.take(args.limit) for part in parts]
    return Corpus(str(args.data or args.tfds), *parts)


def _splits_of(folder, source):
    """The first that there is of the usual names, for each part."""
    usual = (
        ["train"],
        ["val", "validation", "dev", "test"],
        ["test_2016_flickr", "test", "val", "validation", "dev"],
    )
    return [
        next(
            (name for name in names if (folder / f"{source}.{name}.txt").is_file()),
            names[0],
        )
        for names in usual
    ]


def _grammar(seed, limit):
    sizes = {"train": 24_000, "validation": 1_000, "test": 1_000}
    if limit:
        held_out = min(sizes["test"], max(1, limit // 20))
        sizes = {"train": limit, "validation": held_out, "test": held_out}
    builder = prepare_grammar(GrammarConfig(seed=seed, **sizes))
    parts = [tfds_pairs(builder, split, "en", "fr") for split in sizes]
    links = [
        tuple(example[name].tolist() for name in ("links", "possible_links"))
        for example in builder.as_dataset(split="test").as_numpy_iterator()
    ]
    return Corpus("grammar", *parts, links)
