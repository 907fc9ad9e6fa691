"""The corpora that train.py can learn from."""

from typing import NamedTuple

from keras_bahdanau.tf import (
    GrammarConfig,
    PairCorpus,
    parallel_folder,
    prepare_grammar,
    tfds_pairs,
)


class Corpus(NamedTuple):
    """Three `PairCorpus`, and the gold links of the test pairs or `None`."""

    name: str
    train: PairCorpus
    validation: PairCorpus
    test: PairCorpus
    links: list | None = None


def load_corpus(args):
    """The corpus that the command line asks for."""
    if not (args.data or args.tfds):
        return _grammar(args.seed, args.limit)
    if args.data:
        splits = args.splits or _splits_of(args.data, args.source, args.target)
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


def _splits_of(folder, source, target):
    """The first that there is of the usual names, for each part; none is taken twice.

    What the model is chosen on must not be what it is tested on.
    """
    usual = {
        "training": ["train"],
        "validation": ["val", "validation", "dev"],
        "the test": ["test_2016_flickr", "test"],
    }
    splits = []
    for part, names in usual.items():
        found = [
            name
            for name in names
            if all((folder / f"{x}.{name}.txt").is_file() for x in (source, target))
        ]
        if not found:
            raise SystemExit(
                f"{folder} has no split for {part} in {source} and {target}: none of "
                f"{', '.join(names)}. Name three with --splits TRAIN VALIDATION TEST."
            )
        splits.append(found[0])
    return splits


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
