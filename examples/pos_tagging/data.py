"""The corpora that train.py can learn from."""

import pathlib
from typing import NamedTuple

from keras_bahdanau.grammar import sample_corpus
from keras_bahdanau.tagged_text import (
    TaggedCorpus,
    TaggedSentence,
    read_columns,
    read_conllu,
)
from keras_bahdanau.tf import tfds_tagged

SPLITS = ("train", "dev", "test")
# Of each kind of file, the endings of its names.
CONLLU, COLUMNS = (".conllu",), (".conll", ".bio", ".iob", ".tsv", ".txt")
GRAMMAR_SIZE = {"train": 3000, "dev": 500, "test": 1000}


class Corpora(NamedTuple):
    """Three `TaggedCorpus`."""

    name: str
    train: TaggedCorpus
    dev: TaggedCorpus
    test: TaggedCorpus


def load_corpora(args):
    """The corpora that the command line asks for."""
    if args.tfds:
        splits = {"train": "train", "dev": "dev", "test": "test"}
        if args.dev_split:
            splits["dev"] = args.dev_split
        parts = [
            tfds_tagged(args.tfds, split, tags=args.tags, download=args.download)
            for split in splits.values()
        ]
    elif args.data:
        files = [_file_of(args.data, split) for split in SPLITS]
        parts = [read_file(path, args.column) for path in files]
    else:
        parts = _grammar(args.seed)
    if args.limit:
        parts = _limited(parts, args.limit)
    return Corpora(str(args.tfds or args.data or "grammar"), *parts)


def _limited(parts, count):
    """The first sentences of each part, of dev and test those with tags of training."""
    train = parts[0].take(count)
    known = set(train.tag_names())
    rest = [
        TaggedCorpus((one for one in part if known.issuperset(one.tags)), part.name)
        for part in parts[1:]
    ]
    return [train, *(part.take(count) for part in rest)]


def _file_of(folder, split):
    """The one file of a folder that is named for the split."""
    endings = (*CONLLU, *COLUMNS)
    files = sorted(
        path
        for path in pathlib.Path(folder).iterdir()
        if path.suffix in endings and split in path.stem.lower().split("-")[-1]
    )
    if len(files) != 1:
        raise ValueError(
            f"The folder must hold one file for {split}: a name that ends with {split} "
            f"and one of {endings}. Received {folder} with: "
            f"{[path.name for path in files]}."
        )
    return files[0]


def read_file(path, column="upos"):
    """The corpus in a file, which is CoNLL-U if its name says so, else columns."""
    if path.suffix in CONLLU:
        return read_conllu(path, column)
    return read_columns(path)


def _grammar(seed):
    """Sentences of the library's grammar; some words are in the test alone.

    One word in twenty is kept out of the training sentences, so that there are unknown
    words to tag by their letters and by what stands around them.
    """
    wanted = sum(GRAMMAR_SIZE.values())
    pairs = sample_corpus(2 * wanted, seed)
    sentences = [TaggedSentence(pair.source_tokens, pair.source_tags) for pair in pairs]
    closed = {"DET", "PRON", "ADP", "AUX", "PUNCT", "CCONJ", "SCONJ", "PART", "NUM"}
    words = sorted(
        {
            word
            for sentence in sentences
            for word, tag in zip(sentence.words, sentence.tags)
            if tag not in closed and word.islower()
        }
    )
    kept_out = set(words[seed % 20 :: 20])
    known = [one for one in sentences if not kept_out & set(one.words)]
    other = [one for one in sentences if kept_out & set(one.words)]
    train, rest = known[: GRAMMAR_SIZE["train"]], known[GRAMMAR_SIZE["train"] :]
    # Every other sentence has a word that was kept out.
    rest = [sentence for pair in zip(rest, other) for sentence in pair]
    dev, test = rest[: GRAMMAR_SIZE["dev"]], rest[GRAMMAR_SIZE["dev"] :]
    return [
        TaggedCorpus(train, "grammar train"),
        TaggedCorpus(dev, "grammar dev"),
        TaggedCorpus(test[: GRAMMAR_SIZE["test"]], "grammar test"),
    ]
