"""The grammar as a set of TensorFlow Datasets, and its words as the tokeniser's."""

import pathlib
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bahdanau import grammar
from keras_bahdanau.tf import detokenize, surface, tfds_pairs, tokenize
from keras_bahdanau.tf.grammar_builder import (
    UPOS,
    BahdanauGrammar,
    GrammarConfig,
    cache_folder,
    example,
    load_grammar,
    prepare_grammar,
)

SIZES = {"train": 211, "validation": 13, "test": 17}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError(f"no network here: {args} {kwargs}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    config = GrammarConfig(seed=3, **SIZES)
    return prepare_grammar(config, tmp_path_factory.mktemp("tfds"))


# ------------------------------------------------------------------ words


@pytest.mark.parametrize("longest", [16, 60])
def test_words_are_those_of_the_tokeniser(longest):
    pairs = grammar.sample_corpus(1009 if longest == 16 else 211, 7, max_length=longest)
    for text, tokens in (
        ([each.source for each in pairs], [each.source_tokens for each in pairs]),
        ([each.target for each in pairs], [each.target_tokens for each in pairs]),
    ):
        rows = tokenize(text)
        expected = [[token.encode() for token in row] for row in tokens]
        assert surface(rows).to_list() == expected
        assert [each.decode() for each in detokenize(rows).numpy()] == text


# ------------------------------------------------------------------ contents


def test_examples_are_the_sentence_pairs_in_their_order(builder):
    for name, part in grammar.sample_splits(seed=3, **SIZES).items():
        examples = list(builder.as_dataset(split=name).as_numpy_iterator())
        assert len(examples) == SIZES[name] == len(part)
        for found, pair in zip(examples, part):
            assert found["en"].decode() == pair.source
            assert found["fr"].decode() == pair.target
            for side, tokens, tags in (
                ("en", pair.source_tokens, pair.source_tags),
                ("fr", pair.target_tokens, pair.target_tags),
            ):
                assert [w.decode() for w in found[f"{side}_tokens"]] == list(tokens)
                assert [UPOS[index] for index in found[f"{side}_tags"]] == list(tags)
            assert found["links"].tolist() == [list(link) for link in pair.links]
            possible = [list(link) for link in pair.possible_links]
            assert found["possible_links"].tolist() == possible


def test_features_say_what_they_are(builder):
    features = builder.info.features
    assert builder.info.supervised_keys == ("en", "fr")
    assert features["en_tags"].feature.names == list(UPOS)
    spec = builder.as_dataset(split="test").element_spec
    assert spec["links"].shape.as_list() == [None, 2]
    assert spec["links"].dtype == tf.int32
    assert spec["en_tokens"].dtype == tf.string
    assert builder.info.splits["train"].num_examples == SIZES["train"]


def test_a_pair_without_possible_links_keeps_its_shape():
    pair = grammar.sample_corpus(1)[0]._replace(possible_links=())
    assert example(pair)["possible_links"].shape == (0, 2)
    assert example(pair)["possible_links"].dtype == np.int32


def test_it_runs_through_the_path_of_public_sets(builder):
    corpus = tfds_pairs(builder, "validation", "en", "fr")
    part = grammar.sample_splits(seed=3, **SIZES)["validation"]
    assert list(corpus.sources) == [pair.source for pair in part]
    by_name = tfds.load(
        f"bahdanau_grammar/{builder.builder_config.name}",
        data_dir=builder.data_path.parents[2],
        split="test",
        download=False,
    )
    assert len(by_name) == SIZES["test"]


def test_long_sentences_are_a_configuration(tmp_path):
    sizes = dict(train=61, validation=0, test=7)
    longest = 0
    for split in ("train", "test"):
        dataset = load_grammar(split, seed=5, data_dir=tmp_path, max_length=60, **sizes)
        for found in dataset.as_numpy_iterator():
            longest = max(longest, len(found["fr_tokens"]))
    assert 40 < longest <= 60
    config = next(c for c in BahdanauGrammar.BUILDER_CONFIGS if c.name == "long")
    assert config.max_length == 60


# ------------------------------------------------------------------ preparing


def test_it_prepares_silently_and_only_once(tmp_path, capfd):
    first = prepare_grammar("tiny", tmp_path)
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""
    folder = pathlib.Path(first.data_dir)
    files = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = prepare_grammar("tiny", tmp_path)
    assert all(path.stat().st_mtime_ns == time for path, time in files.items())
    assert again.info.splits["test"].num_examples == 50
    assert first.info.splits["train"].num_examples == 500


def test_each_seed_and_size_has_its_own_folder(builder):
    other = GrammarConfig(seed=4, **SIZES)
    assert other.name != builder.builder_config.name
    assert other.name == "seed4-211-13-17-max16"
    assert GrammarConfig(seed=4, max_length=60, **SIZES).name.endswith("max60")


def test_preparing_writes_nothing_beside_the_package(builder):
    """Neither checksums nor statistics: TFDS keeps those next to a builder's code."""
    folder = pathlib.Path(sys.modules[BahdanauGrammar.__module__].__file__).parent
    names = {path.name for path in folder.iterdir()}
    assert not names & {"checksums.tsv", "TAGS.txt", "CITATIONS.bib", "README.md"}
    assert not list(folder.glob("*url_checksums*"))
    assert not BahdanauGrammar.url_infos


def test_missing_statistics_do_not_matter(tmp_path):
    """What remains readable is the data and its description."""
    first = prepare_grammar("tiny", tmp_path)
    for path in (tmp_path / "bahdanau_grammar").glob(".config/*"):
        path.unlink()
    again = prepare_grammar("tiny", tmp_path)
    assert len(list(again.as_dataset(split="test"))) == 50
    assert not first.info.splits["test"].statistics.num_examples


def test_the_default_folder_is_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = prepare_grammar(GrammarConfig(seed=3, train=30, validation=2, test=2))
    assert found.data_path.is_relative_to(tmp_path / "keras_bahdanau")
    assert cache_folder() == found.data_path.parents[2]
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().is_relative_to(pathlib.Path.home() / ".cache")


def test_importing_the_module_registers_the_set():
    assert tfds.builder_cls("bahdanau_grammar") is BahdanauGrammar
    assert "bahdanau_grammar" in tfds.list_builders(with_community_datasets=False)
