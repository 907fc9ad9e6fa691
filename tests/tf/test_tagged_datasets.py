"""Tagged sentences from TensorFlow Datasets, without a network."""

import collections
import pathlib
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core.dataset_builders.conll import (
    conllu_dataset_builder_utils as conll,
)

from keras_bahdanau.tagged_text import read_conllu
from keras_bahdanau.tf.grammar_builder import GrammarConfig, prepare_grammar
from keras_bahdanau.tf.tagged_datasets import tfds_tagged

CONLLU = """\
# sent_id = first
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tVMI\t_\t0\troot\t_\t_
2\tnos\tyo\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tpues\tpues\tADV\tRG\t_\t_\t_\t1:advmod\t_
3\t20 000\tya\tNUM\tZ\t_\t1\tadvmod\t_\t_

# sent_id = second
1-1\tXx\t_\t_\t_\t_\t_\t_\t_\t_

# sent_id = third
1\tSí\tsí\tINTJ\t_\t_\t0\troot\t_\t_

"""
WORDS = [["a", "dog", "of", "Rex"], ["b", "été"]]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError(f"no network here: {args} {kwargs}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


class LocalTreebank(tfds.dataset_builders.ConllUDatasetBuilder, skip_registration=True):
    """What TFDS makes of a file of a treebank, which need not be downloaded."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        conll.get_universal_morphology_config(
            language=language, features=conll.UNIVERSAL_DEPENDENCIES_FEATURES
        )
        for language in ["here"]
    ]
    # TFDS looks for the description of a set here; there is none.
    pkg_dir_path = pathlib.Path(__file__).parent
    path = None

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self, features=self.builder_config.features_dict
        )

    def _split_generators(self, dl_manager):
        return {"test": self._generate_examples(self.path)}


def treebank(path, folder):
    builder = LocalTreebank(config="here", data_dir=folder)
    builder.path = path
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(
            try_download_gcs=False, compute_stats=tfds.download.ComputeStatsMode.SKIP
        )
    )
    return builder


def mock(columns):
    """Stands in for the data of any set: columns of ragged rows."""

    def examples(self, *args, **kwargs):
        rows = {key: tf.ragged.constant(value) for key, value in columns.items()}
        return tf.data.Dataset.from_tensor_slices(rows)

    return tfds.testing.mock_data(num_examples=2, as_dataset_fn=examples)


def indices(names, tags):
    return [[names.index(tag) for tag in row] for row in tags]


# ------------------------------------------------------------------ real features


@pytest.mark.parametrize(
    ("name", "feature", "tags"),
    [
        ("universal_dependencies/en_ewt", "upos", ["DET NOUN ADP PROPN", "X X"]),
        ("xtreme_pos/xtreme_pos_en", "upos", ["DET NOUN ADP PROPN", "X X"]),
        ("conll2003", "ner", ["O O O B-PER", "O I-MISC"]),
        ("conll2003", "pos", ["DT NN IN NNP", "SYM ''"]),
        ("conll2003", "chunks", ["B-NP I-NP B-PP B-NP", "O B-VP"]),
        ("wikiann/en", "tags", ["O B-ORG I-ORG I-ORG", "B-LOC O"]),
    ],
)
def test_tags_are_the_names_of_the_class_labels(name, feature, tags):
    tags = [row.split() for row in tags]
    builder = tfds.builder(name)
    columns = {
        "tokens": WORDS,
        feature: indices(builder.info.features[feature].feature.names, tags),
        "head": [["1"] * 4, ["0"] * 2],
    }
    with mock(columns):
        # conll2003 has three features of tags, the others one.
        corpus = tfds_tagged(name, "train", feature if name == "conll2003" else None)
        same = tfds_tagged(builder, "train", tags=feature)
    assert corpus.name == f"{name}[train]" and list(same) == list(corpus)
    assert [list(sentence.words) for sentence in corpus] == WORDS
    assert [list(sentence.tags) for sentence in corpus] == tags


def test_a_set_with_several_label_features_asks_which():
    with mock({}), pytest.raises(ValueError, match="has: chunks, ner, pos"):
        tfds_tagged("conll2003", "train")


def test_words_without_a_tag_and_sentences_without_a_word_are_dropped():
    names = tfds.builder("xtreme_pos/xtreme_pos_en").info.features["upos"].feature.names
    upos = indices(names, [["DET", "_", "ADP", "_"], ["_", "_"]])
    with mock({"tokens": WORDS, "upos": upos}):
        [sentence] = tfds_tagged("xtreme_pos/xtreme_pos_en", "train")
    assert sentence.words == ("a", "of") and sentence.tags == ("DET", "ADP")
    with mock({"tokens": WORDS, "upos": indices(names, [["_"] * 4, ["_"] * 2])}):
        with pytest.raises(ValueError, match=r"\[train\] without any .*'upos'"):
            tfds_tagged("xtreme_pos/xtreme_pos_en", "train")


# ------------------------------------------------------------------ real builders


def test_a_treebank_of_tfds_holds_the_words_of_its_file(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU, "utf-8")
    builder = treebank(path, tmp_path / "tfds")
    # Multi-word tokens and the empty node are there, and are not words.
    rows = builder.as_dataset(split="test").as_numpy_iterator()
    assert sorted(len(row["tokens"]) for row in rows) == [1, 1, 5]
    corpus = tfds_tagged(builder, "test")
    assert set(corpus) == set(read_conllu(path))
    by_words = {sentence.words: sentence.tags for sentence in corpus}
    assert by_words == {
        ("Vamos", "nos", "20 000"): ("VERB", "PRON", "NUM"),
        ("Sí",): ("INTJ",),
    }
    [sentence] = tfds_tagged(builder, "test", tags="xpos")
    assert sentence.words == ("Vamos", "20 000") and sentence.tags == ("VMI", "Z")
    corpus = tfds_tagged(builder, "test", tags="deprel", words="lemmas")
    assert ("ir", "yo", "ya") in {sentence.words for sentence in corpus}


@pytest.mark.shared
def test_a_real_treebank_is_the_same_by_either_way(tmp_path, shared_dir):
    path = shared_dir / "data" / "ud-english-ewt" / "en_ewt-ud-dev.conllu"
    corpus = tfds_tagged(treebank(path, tmp_path), "test")
    expected = read_conllu(path)
    assert corpus.num_words == expected.num_words == 25_147
    assert collections.Counter(corpus) == collections.Counter(expected)


def test_the_grammar_is_read_by_its_features(tmp_path):
    config = GrammarConfig(seed=3, train=11, validation=2, test=2)
    builder = prepare_grammar(config, tmp_path)
    for side in ("en", "fr"):
        corpus = tfds_tagged(builder, "train[:7]", f"{side}_tags", f"{side}_tokens")
        rows = list(tfds.as_numpy(builder.as_dataset(split="train[:7]")))
        assert len(corpus) == 7 and corpus.name == "bahdanau_grammar[train[:7]]"
        for sentence, row in zip(corpus, rows):
            words = [word.decode() for word in row[f"{side}_tokens"]]
            assert list(sentence.words) == words
        assert {"NOUN", "VERB", "DET"} <= set(corpus.tag_names())


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": "ner"}, "`tags` must be a feature .*'ner'; it has: .*'upos'"),
        ({"words": "forms"}, "`words` must be a feature of .*'forms'"),
        ({"words": "upos"}, "`words` .* a sequence of strings. Received 'upos'"),
        ({"words": "text"}, "`words` .* a sequence of strings. Received 'text'"),
        ({"tags": "text"}, "`tags` .* of class labels or strings. Received 'text'"),
    ],
)
def test_features_that_do_not_fit_are_named(options, message):
    with mock({}), pytest.raises(ValueError, match=message):
        tfds_tagged("universal_dependencies/en_ewt", "train", **options)


def test_links_of_the_grammar_are_no_tags(tmp_path):
    config = GrammarConfig(seed=3, train=3, validation=0, test=0)
    builder = prepare_grammar(config, tmp_path)
    with pytest.raises(ValueError, match="it has: en_tags, fr_tags"):
        tfds_tagged(builder, "train", words="en_tokens")
    with pytest.raises(ValueError, match="Received 'links' of bahdanau_grammar"):
        tfds_tagged(builder, "train", "links", "en_tokens")


def test_broken_examples_are_named():
    with mock({"tokens": WORDS, "upos": [[0, 1, 2, 3], [0]]}):
        with pytest.raises(ValueError, match="2 words and 1 tags in .*example 1"):
            tfds_tagged("xtreme_pos/xtreme_pos_en", "train")
    words = [[b"a"], [b"\xe9"]]
    with mock({"tokens": words, "upos": [[0], [0]]}):
        with pytest.raises(ValueError, match="UTF-8. Received .*example 1, which"):
            tfds_tagged("xtreme_pos/xtreme_pos_en", "train")


def test_a_set_that_is_not_prepared_says_how_to_prepare_it(tmp_path):
    name = "universal_dependencies/en_ewt"
    with pytest.raises(ValueError) as error:
        tfds_tagged(name, "train", data_dir=tmp_path)
    message = str(error.value)
    assert str(tmp_path) in message and "`download=True`" in message
    assert f"tfds.builder({name!r}, data_dir={str(tmp_path)!r}" in message
    assert ").download_and_prepare()" in message


def test_a_missing_tfds_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r'pip install "keras-bahdanau\[tfds\]"'):
        tfds_tagged("conll2003", "train", "ner")


def test_labels_that_stand_for_nothing_are_dropped():
    """Unlabelled examples have the label -1."""
    with mock({"tokens": WORDS, "upos": np.array([[0, -1, -1, 1], [-1, -1]], object)}):
        [sentence] = tfds_tagged("xtreme_pos/xtreme_pos_en", "train")
    assert sentence.words == ("a", "Rex")
