"""Reading translators: every broken or foreign file is refused by its name."""

import json
import shutil
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from keras_bahdanau import RNNSearch
from keras_bahdanau.tf import (
    ExportedTranslator,
    SubwordCodec,
    Translator,
    WordCodec,
    load_notes,
    load_translator,
)

TEXTS = ["the dog sees the cat.", "a dog sleeps.", ""]
CODEC = WordCodec.train(TEXTS)


def translator_of(codec):
    sizes = codec.vocabulary_size, codec.vocabulary_size
    return Translator(RNNSearch(*sizes, embedding_dim=5, units=7), codec, codec)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A translator saved and one exported."""
    folder = tmp_path_factory.mktemp("originals")
    translator = translator_of(CODEC)
    translator.save(folder / "saved")
    translator.export(folder / "exported")
    return folder


@pytest.fixture
def saved(originals, tmp_path):
    return shutil.copytree(originals / "saved", tmp_path / "saved")


@pytest.fixture
def exported(originals, tmp_path):
    return shutil.copytree(originals / "exported", tmp_path / "exported")


def change_settings(folder, change):
    path = folder / "translator.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def another_model(folder):
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)]).save(
        folder / "model.keras"
    )


def half_a_model(folder):
    path = folder / "model.keras"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_zip_that_is_no_model(folder):
    (folder / "x").mkdir()
    shutil.make_archive(folder / "model", "zip", folder / "x")
    (folder / "model.zip").rename(folder / "model.keras")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "translator.json").write_text("{"), "translator.json, which"),
        (lambda f: (f / "translator.json").write_text("3"), "translator.json, which"),
        (
            lambda f: change_settings(f, lambda x: x.update(format="another/1")),
            "translator.json of format 'another/1'",
        ),
        (
            lambda f: change_settings(f, lambda x: x.pop("settings")),
            "translator.json with: None",
        ),
        (
            lambda f: change_settings(f, lambda x: x["settings"].update(width=1)),
            "in .*saved, which do not: .*'width'",
        ),
        (
            lambda f: change_settings(f, lambda x: x["settings"].update(max_length=0)),
            "in .*saved, which do not: `max_length` must be an integer, 1 or more",
        ),
        (
            lambda f: change_settings(
                f, lambda x: x["settings"].update(max_length="long")
            ),
            "in .*saved, which do not: `max_length` must be an integer.*'long'",
        ),
        (lambda f: (f / "model.keras").unlink(), "Received .*saved/model.keras, which"),
        (lambda f: (f / "model.keras").write_text("x"), "saved/model.keras, which"),
        (half_a_model, "Received .*saved/model.keras, which does not load"),
        (a_zip_that_is_no_model, "Received .*saved/model.keras, which does not load"),
        (another_model, "saved, which do not: .*Sequential without `generate`"),
        (
            lambda f: (f / "source_codec.json").unlink(),
            "saved/source_codec.json, which",
        ),
        (
            lambda f: (f / "target_codec.json").write_text('{"format": '),
            "saved/target_codec.json, which does not: JSONDecodeError",
        ),
        (
            lambda f: WordCodec(["one"]).save(f / "target_codec.json"),
            "in .*saved, which do not: The model and `target_codec`",
        ),
    ],
)
def test_a_broken_file_of_a_saved_translator_is_named(saved, spoil, message):
    spoil(saved)
    with pytest.raises(ValueError, match=message):
        load_translator(saved)


def test_broken_notes_are_named(saved):
    assert load_notes(saved) is None
    (saved / "translator.json").write_text('{"notes": ')
    with pytest.raises(ValueError, match="saved/translator.json, which is not: JSON"):
        load_notes(saved)
    change = saved / "translator.json"
    change.write_text('{"format": "another/1", "notes": 3}')
    with pytest.raises(ValueError, match="translator.json of format 'another/1'"):
        load_notes(saved)
    assert load_notes(saved / "nowhere") is None


class Foreign(tf.Module):
    """A SavedModel of somebody else, with what the subclass has of ours."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def answer(self, strings):
        return {"translations": strings}


class Serving(Foreign):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(self, strings):
        return {"translations": strings}


@pytest.mark.parametrize("module", [Foreign, Serving])
@pytest.mark.parametrize("signed", [False, True])
def test_a_foreign_saved_model_is_refused(module, signed, tmp_path):
    foreign = module()
    function = getattr(foreign, "serve", foreign.answer)
    signatures = function.get_concrete_function() if signed else None
    tf.saved_model.save(foreign, str(tmp_path / "foreign"), signatures)
    message = r"`Translator.export` wrote.*Received .*foreign, which returns \["
    for load in (load_translator, ExportedTranslator):
        with pytest.raises(ValueError, match=message):
            load(tmp_path / "foreign")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: (f / "saved_model.pb").write_bytes(b"not a graph"),
        lambda f: (f / "saved_model.pb").write_bytes(b""),
        lambda f: shutil.rmtree(f / "variables"),
        lambda f: next(f.glob("variables/*data*")).write_bytes(b""),
    ],
)
def test_a_broken_saved_model_is_named(exported, spoil):
    spoil(exported)
    with pytest.raises(ValueError, match="Received .*exported, which"):
        load_translator(exported)


def test_a_folder_with_nothing_or_with_two_translators_is_refused(
    saved, exported, tmp_path
):
    with pytest.raises(ValueError, match="without translator.json or saved_model.pb"):
        load_translator(tmp_path)
    with pytest.raises(ValueError, match="SavedModel.*nowhere"):
        ExportedTranslator(tmp_path / "nowhere")
    shutil.copy(saved / "translator.json", exported)
    with pytest.raises(
        ValueError, match="exported with translator.json and saved_model.pb"
    ):
        load_translator(exported)


def test_a_folder_holds_a_saved_translator_or_an_exported_one(saved, exported):
    names = sorted(path.name for path in saved.iterdir())
    with pytest.raises(ValueError, match="saved, which holds translator.json"):
        translator_of(CODEC).export(saved)
    assert sorted(path.name for path in saved.iterdir()) == names
    with pytest.raises(ValueError, match="exported, which holds assets"):
        translator_of(CODEC).save(exported)
    # Another export takes the place of the one before.
    translator = translator_of(CODEC)
    translator.export(exported)
    assert load_translator(exported)(TEXTS) == translator(TEXTS)


SUBWORDS = """
import json, sys
from keras_bahdanau.tf import load_translator
assert "tensorflow_text" not in sys.modules
sys.modules["tensorflow_text"] = None
try:
    load_translator(sys.argv[1])
except ImportError as error:
    print(error)
del sys.modules["tensorflow_text"]
print(json.dumps(load_translator(sys.argv[1])(json.loads(sys.argv[2]))))
"""


def test_an_exported_translator_of_subwords_brings_its_operations(tmp_path):
    translator = translator_of(SubwordCodec.train(TEXTS, vocabulary_size=19))
    translator.export(tmp_path / "exported")
    found = subprocess.run(
        [sys.executable, "-c", SUBWORDS, tmp_path / "exported", json.dumps(TEXTS)],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    *_, error, texts = found.stdout.splitlines()
    assert 'pip install "keras-bahdanau[text]"' in error
    assert json.loads(texts) == translator(TEXTS)
