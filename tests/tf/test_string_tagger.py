"""Tags from strings to strings, saved, loaded and exported."""

import inspect
import json
import re
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bahdanau import SequenceTagger
from keras_bahdanau.tag_reports import tag_report
from keras_bahdanau.tagged_text import TaggedCorpus
from keras_bahdanau.tf import (
    ExportedTagger,
    TagCodec,
    Tagger,
    encode_sentences,
    export_tagger,
    load_tagger,
)
from keras_bahdanau.tf.saved_folder import TAGGER, TRANSLATOR, check_replaceable

CORPUS = TaggedCorpus(
    [
        (["The", "dog", "barks", "."], ["DET", "NOUN", "VERB", "PUNCT"]),
        (["Dogs", "bark", "!"], ["NOUN", "VERB", "PUNCT"]),
        (["the", "dog", "of", "a", "dog"], ["DET", "NOUN", "ADP", "DET", "NOUN"]),
    ]
)
CODEC = TagCodec.train(CORPUS, min_feature_frequency=1, max_characters=5)
TEXTS = [
    "The dog, it barks.",
    "",
    "Dogs!",
    "  ",
    "a dog of the \N{DOG FACE} e\u0301\u200d " + "x" * 10_000,
]
WORDS = [["The", "dog", "barks"], ["20 000"], ["x" * 10_000, "\0", "\ud7ff"], ["of"]]
KINDS = {
    "softmax": {},
    "crf": {"output": "crf"},
    "one_way": {"bidirectional": False, "output": "crf", "num_frequencies": 3},
}


def made(kind="softmax", codec=CODEC, seed=1):
    """An untrained tagger that says something else for each word."""
    keras.utils.set_random_seed(seed)
    model = SequenceTagger(
        **codec.model_sizes(),
        embedding_dim=5,
        character_embedding_dim=3,
        character_units=3,
        feature_dim=2,
        units=5,
        num_layers=1,
        **KINDS[kind],
    )
    model.build()
    for weight in model.trainable_weights:
        weight.assign(keras.random.normal(weight.shape))
    return Tagger(model, codec)


@pytest.fixture(scope="module")
def tagger():
    return made()


@pytest.fixture(scope="module")
def folder(tagger, tmp_path_factory):
    """Where it was saved."""
    folder = tmp_path_factory.mktemp("saved") / "tagger"
    tagger.save(folder, {"epoch": 3})
    return folder


def assert_same(found, expected):
    """To the last bit."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert (one.words, one.tags) == (other.words, other.tags)
        np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_strings_are_split_into_words(tagger):
    found = tagger(TEXTS)
    assert found[0].words == ("The", "dog", ",", "it", "barks", ".")
    assert found[2].words == ("Dogs", "!")
    assert found[1].words == found[3].words == found[1].tags == ()
    assert len(found[1].probabilities) == 0
    for one in found:
        assert len(one.words) == len(one.tags) == len(one.probabilities)
        assert set(one.tags) <= set(CODEC.tags)
        assert ((one.probabilities > 0) & (one.probabilities <= 1)).all()


def test_lists_of_words_are_taken_as_they_are(tagger):
    found = tagger(WORDS)
    assert [list(one.words) for one in found] == WORDS
    assert all(len(one.tags) == len(one.words) for one in found)


def test_tags_and_probabilities_are_those_of_the_model(tagger):
    words = [["The", "dog", "barks"], ["Dogs", "bark"]]
    outputs = tagger.model(CODEC.encode(words))
    for row, one in enumerate(tagger(words)):
        for place, tag in enumerate(one.tags):
            logits = outputs["scores"][row, place].numpy().astype("float64")
            expected = np.exp(logits) / np.exp(logits).sum()
            assert tag == CODEC.tags[expected.argmax()]
            assert one.probabilities[place] == pytest.approx(expected.max(), rel=1e-4)


@pytest.mark.parametrize("kind", ["softmax", "one_way"])
def test_neither_order_nor_batches_change_a_sentence(kind):
    one_by_one = made(kind)
    expected = [one_by_one([words])[0] for words in WORDS]
    for batch_size in (2, 64):
        found = one_by_one(WORDS, batch_size=batch_size)
        for one, other in zip(found, expected):
            assert (one.words, one.tags) == (other.words, other.tags)
            np.testing.assert_allclose(
                one.probabilities, other.probabilities, atol=1e-6
            )


def test_nothing_gives_nothing(tagger):
    assert tagger([]) == []
    for outputs in (
        tagger.serve(tf.constant([], tf.string)),
        tagger.serve_tokens(tf.fill((0, 3), "")),
        tagger.serve_tokens(tf.fill((0, 0), "")),
    ):
        assert {value.shape[0] for value in outputs.values()} == {0}
    outputs = tagger.serve_tokens(tf.fill((2, 0), ""))
    assert outputs["lengths"].numpy().tolist() == [0, 0]


def test_invalid_bytes_are_tagged_too(tagger):
    outputs = tagger.serve(tf.constant([b"\xff dog \xc3"]))
    replaced = "\ufffd".encode()
    assert outputs["words"].numpy().tolist() == [[replaced, b"dog", replaced]]
    assert int(outputs["lengths"][0]) == 3
    outputs = tagger.serve_tokens(tf.constant([[b"\xff", b"dog", b""]]))
    assert outputs["lengths"].numpy().tolist() == [2]
    assert outputs["tags"].numpy()[0, 2] == b""
    assert float(outputs["probabilities"][0, 2]) == 0


def test_serving_is_traced_once_for_all_shapes(tagger):
    for size in (1, 2, 4):
        tagger(TEXTS[:size])
        tagger(WORDS[:size])
    for function in (tagger.serve, tagger.serve_tokens):
        assert function.experimental_get_tracing_count() == 1


def test_an_evaluation_is_the_report_on_its_tags(tagger):
    known = {"The", "dog", "bark"}
    tags = [one.tags for one in tagger([list(one.words) for one in CORPUS])]
    expected = tag_report(
        [one.tags for one in CORPUS], tags, [one.words for one in CORPUS], known
    )
    found = tagger.evaluate(CORPUS, known, batch_size=2)
    assert str(found) == str(expected)
    assert (found.accuracy, found.unknown_accuracy) == (
        expected.accuracy,
        expected.unknown_accuracy,
    )
    found = tagger.evaluate(CORPUS)
    assert (found.accuracy, found.unknown_accuracy) == (expected.accuracy, None)


# ---------------------------------------------------------------- folders


def test_a_saved_tagger_comes_back(tagger, folder):
    again = load_tagger(folder)
    assert isinstance(again, Tagger)
    assert_same(again(WORDS), tagger(WORDS))
    assert sorted(path.name for path in folder.iterdir()) == sorted(TAGGER.files)
    content = json.loads((folder / "tagger.json").read_text())
    assert content["notes"] == {"epoch": 3}


def unpacked(outputs):
    """Words, tags and probabilities of each sentence, for JSON."""
    rows = []
    for row, count in enumerate(outputs["lengths"].numpy()):
        words, tags = (
            [text.decode() for text in outputs[name][row, :count].numpy()]
            for name in ("words", "tags")
        )
        chosen = outputs["probabilities"][row, :count]
        rows.append([words, tags, chosen.numpy().tolist()])
    return rows


PLAIN_PROCESS = """
import json, sys
sys.modules["keras_bahdanau"] = sys.modules["keras"] = None
import tensorflow as tf
{unpacked}
given = json.load(sys.stdin)
loaded = tf.saved_model.load({path!r})
length = max(map(len, given["words"]))
rows = [one + [""] * (length - len(one)) for one in given["words"]]
every = []
for outputs, named in (
    (
        loaded.serve(tf.constant(given["texts"])),
        loaded.signatures["serving_default"](strings=tf.constant(given["texts"])),
    ),
    (
        loaded.serve_tokens(tf.constant(rows)),
        loaded.signatures["tokens"](tokens=tf.constant(rows)),
    ),
):
    assert sorted(named) == sorted(outputs), sorted(named)
    for name in outputs:
        assert (outputs[name].numpy() == named[name].numpy()).all(), name
    every += unpacked(outputs)
print(json.dumps(every))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_tagger_does_the_same(kind, tmp_path):
    one = made(kind)
    path = tmp_path / "exported"
    for _ in range(2):
        export_tagger(one, path)
    exported = load_tagger(path)
    assert isinstance(exported, ExportedTagger)
    assert_same(exported(TEXTS), one(TEXTS))
    assert_same(exported(WORDS), one(WORDS))
    assert exported([]) == []
    if kind != "crf":
        return
    expected = []
    rows = [[*words, *[""] * (3 - len(words))] for words in WORDS]
    for outputs in (one.serve(tf.constant(TEXTS)), one.serve_tokens(tf.constant(rows))):
        expected += unpacked(outputs)
    source = inspect.getsource(unpacked)
    program = PLAIN_PROCESS.format(path=str(path), unpacked=source)
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps({"texts": TEXTS, "words": WORDS}),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected


@pytest.mark.parametrize("name", TAGGER.files)
@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_a_broken_file_of_a_tagger_is_named(name, content, folder, tmp_path):
    broken = tmp_path / "tagger"
    shutil.copytree(folder, broken)
    (broken / name).unlink()
    if content is not None:
        (broken / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"(?s){re.escape(str(broken))}.*") as caught:
        load_tagger(broken)
    assert name in str(caught.value)


def test_a_codec_of_another_tagger_is_refused(folder, tmp_path):
    broken = tmp_path / "tagger"
    shutil.copytree(folder, broken)
    TagCodec(["a"], ["a"], CODEC.features, CODEC.tags).save(broken / "tag_codec.json")
    with pytest.raises(ValueError, match="`model` and `codec` must agree"):
        load_tagger(broken)


def test_folders_that_hold_no_tagger_are_refused(folder, tmp_path):
    for path in (tmp_path, tmp_path / "no"):
        with pytest.raises(ValueError, match="must be a folder that `Tagger.save`"):
            load_tagger(path)
    tf.saved_model.save(tf.Module(), str(tmp_path / "other"))
    with pytest.raises(ValueError, match=f"Received {tmp_path}/other, which does not"):
        load_tagger(tmp_path / "other")
    settings = {"format": "keras_bahdanau.tagger/2", "settings": {}, "notes": None}
    newer = tmp_path / "newer"
    shutil.copytree(folder, newer)
    (newer / "tagger.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="must hold a tagger of format.*tagger/2"):
        load_tagger(newer)


def test_saving_replaces_a_tagger_and_nothing_else(tagger, folder, tmp_path):
    place = tmp_path / "tagger"
    shutil.copytree(folder, place)
    tagger.save(place)
    assert json.loads((place / "tagger.json").read_text())["notes"] is None
    check_replaceable(place, TAGGER)
    with pytest.raises(ValueError, match="a translator saved before"):
        check_replaceable(place, TRANSLATOR)
    (place / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="holds thesis.txt, no file of a tagger"):
        tagger.save(place)
    assert (place / "thesis.txt").read_text() == "years of work"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="which is a file"):
        tagger.save(tmp_path / "file")


def test_settings_of_another_kind_are_no_tagger(tmp_path):
    for name in TAGGER.files:
        (tmp_path / name).write_text("{}")
    (tmp_path / "tagger.json").write_text('{"format": "keras_bahdanau.translator/1"}')
    with pytest.raises(ValueError, match="a tagger saved before"):
        check_replaceable(tmp_path, TAGGER)
    (tmp_path / "tagger.json").write_text('{"format": "keras_bahdanau.tagger/9"}')
    check_replaceable(tmp_path, TAGGER)


# ---------------------------------------------------------------- sentences as ids


def test_a_corpus_is_encoded_as_its_sentences_are():
    counts = {"dog": 2, "Dog": 6, "bark": 1, "the": 99}
    encoded = encode_sentences(CORPUS, CODEC, counts, num_frequencies=3)
    inputs, targets = encoded.batch([0, 1, 2])
    words = [list(one.words) for one in CORPUS]
    for name, ids in CODEC.encode(words).items():
        np.testing.assert_array_equal(inputs[name], ids)
    tags = CODEC.decode(targets["tags"]).numpy()
    for row, sentence in enumerate(CORPUS):
        assert [tag.decode() for tag in tags[row, : len(sentence)]] == [*sentence.tags]
    # Of The (99, cut to class 2), dog (8, ln 8 = 2.08), barks and the full stop.
    assert targets["frequencies"][0].tolist() == [2, 2, 0, 0, -1]
    with pytest.raises(ValueError, match="go together"):
        encode_sentences(CORPUS, CODEC, counts)


def test_tags_that_the_codec_does_not_know_do_not_count():
    other = TaggedCorpus([(["dog", "ouch"], ["NOUN", "INTJ"])])
    _, labels = encode_sentences(other, CODEC).batch([0])
    assert labels.tolist() == [[CODEC.tags.index("NOUN"), -1]]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one, path: one("The dog"), "must be a list. Received one string"),
        (lambda one, path: one(["a", ["a"]]), "all strings or all lists"),
        (lambda one, path: one([["a", ""]]), r"none of them empty.*\['a', ''\]"),
        (lambda one, path: one([[3]]), r"must be a list of words.*\[3\]"),
        (lambda one, path: one(["a"], 0), "`batch_size` must be 1"),
        (lambda one, path: one.save(path / "x", object()), "`notes` must hold"),
        (
            lambda one, path: Tagger(keras.Sequential(), CODEC),
            "`model` must be a SequenceTagger.*a Sequential",
        ),
        (
            lambda one, path: Tagger(
                SequenceTagger(3, CODEC.vocabulary_size, units=2), CODEC
            ),
            "must agree. Received num_tags=3 of the model and 5 of the codec",
        ),
        (lambda one, path: ExportedTagger(path), "must hold a SavedModel that"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(call, message, tagger, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tagger, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_export_does_not_overwrite_what_can_be_trained(tagger, folder):
    with pytest.raises(ValueError, match="must not be a folder that `Tagger.save`"):
        export_tagger(tagger, folder)


def test_another_backend_is_refused(tagger, folder, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for call in (
        lambda: Tagger(tagger.model, CODEC),
        lambda: load_tagger(folder),
    ):
        with pytest.raises(ValueError, match="A Tagger.*needs the TensorFlow backend"):
            call()
