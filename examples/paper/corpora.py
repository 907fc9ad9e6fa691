"""The corpora of the study by scale, and which of their sentences are fully known."""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from selection import Selection

from keras_bahdanau.batching import EncodedPairs
from keras_bahdanau.grammar import sample_splits
from keras_bahdanau.tf import (
    PairCorpus,
    WordCodec,
    encode_pairs,
    parallel_folder,
    tfds_dataset,
    tfds_pairs,
)

LONGEST = 60
WMT14 = "wmt14_translate/fr-en"
# Pairs to estimate from which of all are to be taken.
SAMPLE = 200_000
SIZES = {"train": 24_000, "validation": 200, "test": 1_000}
SEED = 0


class Corpus(NamedTuple):
    """Text to train on, to validate and to test, and what there is to say of it."""

    name: str
    languages: tuple
    train: PairCorpus | EncodedPairs | tf.data.Dataset
    """Strings, by option streamed; what was streamed ends as ids."""
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


def wmt14(args):
    """The paper's text, from TensorFlow Datasets: that to train on is streamed."""
    languages = args.source, args.target
    options = {"data_dir": args.data_dir, "download": args.download}
    train = tfds_dataset(WMT14, "train", *languages, **options)
    parts = [
        tfds_pairs(WMT14, split, *languages, **options)
        for split in ("validation", "test")
    ]
    if args.limit:
        train = train.take(args.limit)
        parts = [part.take(args.limit) for part in parts]
    return Corpus("wmt14", languages, train, *parts, bucket_width=10)


# Each has a folder of its name in configs/.
SCALES = {
    "grammar": grammar,
    "tatoeba": tatoeba,
    "multi30k": multi30k,
    "wmt14": wmt14,
}
FROM_FOLDER = ("tatoeba", "multi30k")


def make_codecs(corpus, vocabulary):
    """The codecs of both sides, the shortlists of the whole training text.

    As in the paper, the shortlist is the same whatever length a system trains on.
    """
    return [WordCodec.train(texts, vocabulary) for texts in _texts(corpus.train)]


def _texts(pairs):
    """Sources and targets, each to be read by itself."""
    if isinstance(pairs, tf.data.Dataset):
        return pairs.map(lambda one, _: one), pairs.map(lambda _, one: one)
    return pairs.sources, pairs.targets


def read_stream(corpus, codecs, limit, words=None):
    """Encodes the training text that is streamed, and chooses of it.

    Of the pairs within the limit those are taken that are most like the validation
    text, as many as have so many words in their sources.

    Args:
        corpus: `Corpus`.
        codecs: Codec of the source and of the target.
        limit: Words and marks of the longest sentence, on either side.
        words: Number of words and marks; `None` for all pairs.

    Returns:
        `Corpus` with an `EncodedPairs` to train on.
    """
    choose = None
    if words:
        step = -(-corpus.train.cardinality().numpy() // SAMPLE)
        sample = corpus.train.shard(step, 0)
        sample = encode_pairs(sample, *codecs, limit, limit)
        # The end token is no word.
        found = (len(sample.sources) - len(sample)) * step
        odd = np.arange(len(sample)) % 2 == 1
        choose = Selection(
            encode_pairs(corpus.validation, *codecs),
            sample.select(~odd),
            sample.select(odd),
            [codec.vocabulary_size for codec in codecs],
            share=words / found,
        )
    pairs = encode_pairs(corpus.train, *codecs, limit, limit, choose)
    return corpus._replace(train=pairs)


def training_pairs(corpus, codecs, limit):
    """The pairs within a limit, as `EncodedPairs`."""
    pairs = corpus.train
    if not isinstance(pairs, EncodedPairs):
        return encode_pairs(pairs, *codecs, limit, limit)
    # The end token is no word.
    longer = np.maximum(pairs.source_lengths, pairs.target_lengths)
    return pairs.select(longer <= limit + 1)


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
