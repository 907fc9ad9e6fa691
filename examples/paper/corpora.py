"""The corpora of the study by scale, and which of their sentences are fully known."""

import math
from typing import NamedTuple

from keras_bahdanau.grammar import sample_splits
from keras_bahdanau.tf import PairCorpus, WordCodec, parallel_folder

LONGEST = 60
SIZES = {"train": 24_000, "validation": 200, "test": 1_000}
SEED = 0


class Corpus(NamedTuple):
    """Three `PairCorpus`, and what their sentences have to do with each other."""

    name: str
    languages: tuple
    train: PairCorpus
    validation: PairCorpus
    test: PairCorpus
    bucket_width: int
    """Words of the source between two points of BLEU against length."""


def grammar(args):
    """Sentences of up to 60 words, drawn from the library's own grammar.

    The seed of the corpus is one and the same for all systems and all seeds of them.
    """
    sizes = dict(SIZES)
    if args.limit:
        held_out = max(1, args.limit // 10)
        sizes = {"train": args.limit, "validation": held_out, "test": held_out}
    parts = [
        PairCorpus([pair.source for pair in pairs], [pair.target for pair in pairs])
        for pairs in sample_splits(**sizes, seed=SEED, max_length=LONGEST).values()
    ]
    return Corpus("grammar", ("en", "fr"), *parts, bucket_width=10)


def _folder(args, test):
    languages = args.source, args.target
    parts = [
        parallel_folder(args.data, *languages, split)
        for split in ("train", "val", test)
    ]
    parts[1] = parts[1].take(SIZES["validation"])
    if args.limit:
        parts = [part.take(args.limit) for part in parts]
    return Corpus(args.scale, languages, *parts, bucket_width=5)


def tatoeba(args):
    """Short everyday sentences, from a folder."""
    return _folder(args, "test")


def multi30k(args):
    """Captions of pictures, from a folder."""
    return _folder(args, "test_2016_flickr")


# Each has a folder of its name in configs/.
SCALES = {"grammar": grammar, "tatoeba": tatoeba, "multi30k": multi30k}
WITHOUT_DATA = ("grammar",)


def make_codecs(corpus, vocabulary):
    """The codecs of both sides, the shortlists of the whole training text.

    As in the paper, the shortlist is the same whatever length a system trains on.
    """
    return [
        WordCodec.train(texts, vocabulary)
        for texts in (corpus.train.sources, corpus.train.targets)
    ]


def lengths(texts, codec):
    """Number of words and marks of each text."""
    return [len(row) for row in codec.tokenize(texts).to_list()]


def known_rows(pairs, codecs):
    """Numbers of the pairs without an unknown word on either side.

    Args:
        pairs: A `PairCorpus`.
        codecs: Codec of the source and of the target.
    """
    sides = [
        codec.encode(texts).to_list()
        for codec, texts in zip(codecs, (pairs.sources, pairs.targets))
    ]
    unknown = [codec.unk_id for codec in codecs]
    return [
        row
        for row, both in enumerate(zip(*sides))
        if not any(one in ids for one, ids in zip(unknown, both))
    ]


def joined(pairs, rows, codec, counts, longest=10, most=240):
    """Short sentences put together to long ones, the same text in each cut.

    Args:
        pairs: A `PairCorpus`.
        rows: Numbers of those that may be taken.
        codec: Codec of the source, which counts words.
        counts: How many sentences become one; so many a number for each cut.
        longest: Words and marks of the sentences that are taken.
        most: Largest number of them.

    Returns:
        Dictionary from each of `counts` to a `PairCorpus`; empty if there are too few
        short sentences for all cuts.
    """
    words = lengths(pairs.sources, codec)
    short = [row for row in rows if words[row] <= longest]
    step = math.lcm(*counts)
    short = short[: min(len(short), most) // step * step]
    if not short:
        return {}
    return {count: _put_together(pairs, short, count) for count in counts}


def _put_together(pairs, rows, count):
    groups = [rows[first : first + count] for first in range(0, len(rows), count)]
    return PairCorpus(
        *(
            [" ".join(side[row] for row in group) for group in groups]
            for side in (pairs.sources, pairs.targets)
        )
    )
