"""What `keras_bahdanau.tf` offers, and what importing it does not need."""

import importlib
import inspect
import subprocess
import sys

import pytest

import keras_bahdanau.tf

HOMES = {
    "callbacks": {"TranslationCallback", "corpus_bleu"},
    "codecs": {"Codec", "SubwordCodec", "WordCodec", "load_codec"},
    "datasets": {
        "EmptySideWarning",
        "PairCorpus",
        "encode_pairs",
        "parallel_files",
        "parallel_folder",
        "tfds_dataset",
        "tfds_pairs",
        "translation_batches",
    },
    "grammar_builder": {
        "BahdanauGrammar",
        "GrammarConfig",
        "load_grammar",
        "prepare_grammar",
    },
    "tokenization": {"detokenize", "normalize", "surface", "tokenize"},
    "tag_codec": {"TagCodec"},
    "tagged_datasets": {"tfds_tagged"},
    "tagger": {
        "ExportedTagger",
        "TaggedText",
        "Tagger",
        "encode_sentences",
        "export_tagger",
        "load_tagger",
    },
    "tagging_callback": {"TaggingCallback"},
    "server": {"ExportedTranslator", "Translation"},
    "translator": {
        "Translator",
        "load_notes",
        "load_translator",
    },
}


@pytest.mark.parametrize("home", sorted(HOMES))
def test_the_public_names_of_a_module_are_those_of_the_package(home):
    module = importlib.import_module(f"keras_bahdanau.tf.{home}")
    for name in HOMES[home]:
        assert getattr(keras_bahdanau.tf, name) is getattr(module, name)
        assert name in dir(keras_bahdanau.tf)


def test_the_package_has_no_other_public_name():
    public = {name for name in dir(keras_bahdanau.tf) if not name.startswith("_")}
    modules = {x for x in public if inspect.ismodule(getattr(keras_bahdanau.tf, x))}
    assert public - modules == set().union(*HOMES.values())
    with pytest.raises(AttributeError, match="keras_bahdanau.tf.*no attribute 'Trans'"):
        keras_bahdanau.tf.Trans  # noqa: B018


OPTIONAL = """
import os, sys
os.environ["KERAS_BACKEND"] = "{backend}"
missing = ("sacrebleu", "tensorflow_datasets", "tensorflow_text", "sentencepiece")
missing += ("matplotlib", "tensorboard", "conllu")
for name in missing:
    sys.modules[name] = None
import keras
import keras_bahdanau.tf
assert keras.backend.backend() == "{backend}"
for name in {names}:
    getattr(keras_bahdanau.tf, name)
codec = keras_bahdanau.tf.WordCodec.train(["a dog"])
assert codec.encode(["a dog"]).to_list() == [[4, 5, 3]]
try:
    keras_bahdanau.tf.prepare_grammar
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_importing_needs_nothing_that_an_extra_brings(backend):
    names = sorted(set().union(*HOMES.values()) - HOMES["grammar_builder"])
    found = subprocess.run(
        [sys.executable, "-c", OPTIONAL.format(backend=backend, names=names)],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert 'pip install "keras-bahdanau[tfds]"' in found.stdout
