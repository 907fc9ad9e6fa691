"""The English-French grammar as a set of TensorFlow Datasets, prepared offline.

Importing this module registers `bahdanau_grammar`, so that the corpus runs through the
same path as any public translation set: `tfds.load("bahdanau_grammar/base")`.
"""

import contextlib
import dataclasses
import hashlib
import io
import logging
import os
import pathlib

import numpy as np

from keras_bahdanau import grammar

try:
    import tensorflow_datasets as tfds
except ImportError as error:
    raise ImportError(
        "This needs the package `tensorflow-datasets`, which does not import here: "
        'install it with `pip install "keras-bahdanau[tfds]"`.'
    ) from error

UPOS = (
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "SYM",
    "VERB",
    "X",
)


@dataclasses.dataclass(eq=False)
class GrammarConfig(tfds.core.BuilderConfig):
    """What is drawn, and how it is split.

    Args:
        name: Name of the configuration; by default it spells out the other arguments.
        seed: Seed of the sentences and of the split.
        train, validation, test: Number of sentence pairs in each split.
        max_length: Words and marks in a sentence, at most.
    """

    name: str = ""
    seed: int = 0
    train: int = 24_000
    validation: int = 1_000
    test: int = 1_000
    max_length: int = 16

    def __post_init__(self):
        if not self.name:
            sizes = f"{self.train}-{self.validation}-{self.test}"
            self.name = f"seed{self.seed}-{sizes}-max{self.max_length}"


class BahdanauGrammar(tfds.core.GeneratorBasedBuilder):
    """Sentence pairs of the English-French grammar, with links and tags.

    Preparing it draws the sentences: it needs no network and takes seconds.

    Configurations: `base` (24,000 training pairs of up to 16 words), `long` (the same
    number, up to 60 words), `tiny` (600 pairs, for tests), and any `GrammarConfig`.

    Features of an example:
        en, fr: the sentences.
        en_tokens, fr_tokens: their words and punctuation marks.
        en_tags, fr_tags: the universal part of speech of each word, a class label.
        links: pairs (English position, French position), shape `(links, 2)`.
        possible_links: further links that an aligner is free to make.

    Example:

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> config = GrammarConfig(seed=3, train=30, validation=2, test=2)
    >>> builder = prepare_grammar(config, data_dir=folder)
    >>> builder.info.splits["train"].num_examples
    30
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [
        GrammarConfig(name="base", description="Sentences of up to 16 words."),
        GrammarConfig(
            name="long", max_length=60, description="Sentences of up to 60 words."
        ),
        GrammarConfig(
            name="tiny",
            train=500,
            validation=50,
            test=50,
            description="A few sentences, for tests.",
        ),
    ]

    def _info(self):
        # Plain tensors of unknown length are written several times faster than
        # sequences of scalars, and read as the same.
        words = tfds.features.Tensor(shape=(None,), dtype=np.object_)
        tags = tfds.features.Sequence(tfds.features.ClassLabel(names=UPOS))
        link = tfds.features.Tensor(shape=(None, 2), dtype=np.int32)
        return tfds.core.DatasetInfo(
            builder=self,
            description="English-French sentence pairs drawn from a synchronous "
            "grammar, with gold word alignments and parts of speech.",
            features=tfds.features.FeaturesDict(
                {
                    "en": tfds.features.Text(),
                    "fr": tfds.features.Text(),
                    "en_tokens": words,
                    "fr_tokens": words,
                    "en_tags": tags,
                    "fr_tags": tags,
                    "links": link,
                    "possible_links": link,
                }
            ),
            supervised_keys=("en", "fr"),
            # The order of the training pairs is random as drawn.
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        config = self.builder_config
        parts = grammar.sample_splits(
            config.train,
            config.validation,
            config.test,
            config.seed,
            max_length=config.max_length,
        )
        return {
            name: self._generate_examples(part) for name, part in parts.items() if part
        }

    def _generate_examples(self, pairs):
        for index, pair in enumerate(pairs):
            yield index, example(pair)


def example(pair):
    """Turns a `SentencePair` into the features of `BahdanauGrammar`.

    Args:
        pair: A `keras_bahdanau.grammar.SentencePair`.

    Returns:
        Dictionary of feature names.
    """
    return {
        "en": pair.source,
        "fr": pair.target,
        "en_tokens": np.array(pair.source_tokens, np.object_),
        "fr_tokens": np.array(pair.target_tokens, np.object_),
        "en_tags": [_TAG_INDEX[tag] for tag in pair.source_tags],
        "fr_tags": [_TAG_INDEX[tag] for tag in pair.target_tags],
        "links": _links(pair.links),
        "possible_links": _links(pair.possible_links),
    }


_TAG_INDEX = {tag: index for index, tag in enumerate(UPOS)}


def _links(links):
    return np.array(links, np.int32).reshape((-1, 2))


def prepare_grammar(config="base", data_dir=None):
    """Prepares the corpus where it is not yet, without a network.

    Args:
        config: Name of a configuration of `BahdanauGrammar`, or a `GrammarConfig`.
        data_dir: Folder of prepared sets; by default `cache_folder()`.

    Returns:
        The `BahdanauGrammar`, which `keras_bahdanau.tf.tfds_pairs` also takes.
    """
    folder = cache_folder() if data_dir is None else pathlib.Path(data_dir)
    with _quietly():
        builder = BahdanauGrammar(config=config, data_dir=folder)
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(
                try_download_gcs=False,
                compute_stats=tfds.download.ComputeStatsMode.SKIP,
            )
        )
    return builder


@contextlib.contextmanager
def _quietly():
    """Without the announcements and bars of TFDS: nothing is downloaded."""
    silence, logger = io.StringIO(), logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            yield
    finally:
        logger.setLevel(level)


def load_grammar(split, seed=0, data_dir=None, **options):
    """Loads a split of the grammar corpus, prepared first where it is not yet.

    Args:
        split: "train", "validation", "test" or a slice such as "train[:1000]".
        seed: Seed of the sentences and of the split.
        data_dir: Folder of prepared sets, see `prepare_grammar`.
        **options: More arguments of `GrammarConfig`: `train`, `validation`, `test`,
            `max_length`.

    Returns:
        A `tf.data.Dataset` of the features of `BahdanauGrammar`, in a fixed order.
    """
    config = GrammarConfig(seed=seed, **options)
    return prepare_grammar(config, data_dir).as_dataset(split=split)


def cache_folder():
    """The folder for prepared corpora when none is named.

    Another version of the grammar has another one, so that none reads the other's
    sentences.

    Returns:
        A `pathlib.Path` inside `XDG_CACHE_HOME`, or `~/.cache` without it.
    """
    sentences = repr(grammar.sample_corpus(150, max_length=30)).encode("utf-8")
    fingerprint = hashlib.sha256(sentences).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "keras_bahdanau" / f"grammar-{fingerprint}"
