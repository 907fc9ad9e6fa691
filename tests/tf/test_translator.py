"""Translation from strings to strings, saved, loaded and exported."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from translators import CODEC, real

from keras_bahdanau import RNNEncoderDecoder, greedy_search
from keras_bahdanau.tf import (
    ExportedTranslator,
    SubwordCodec,
    Translator,
    load_notes,
    load_translator,
)

TEXTS = [
    "the dog sees the cat, the dog sleeps.",
    "a dog",
    "",
    "is the cat asleep?",
    "the zebra sees a cat.",
]


class CopyingModel:
    """Gives the source back, each word attended to as it is copied."""

    built = True
    variables = ()

    def __init__(self, size):
        self.source_vocabulary_size = self.target_vocabulary_size = size
        self.align = lambda source_ids, target_ids: target_ids

    def generate(self, source_ids, max_length, forbidden_ids=()):
        size = self.source_vocabulary_size
        # Words behind the end, should it not stop there.
        ids = ops.concatenate([source_ids, ops.full_like(source_ids, 7)], axis=1)

        def step_fn(token_ids, position):
            column = ops.one_hot(position, ops.shape(ids)[1], dtype="int32")
            chosen = ops.sum(ids * column, axis=-1)
            log_probs = ops.one_hot(chosen, size) * 90.0 - 90.5
            log_probs = log_probs + ops.one_hot(ops.full_like(chosen, 3), size)
            weights = ops.one_hot(position, ops.shape(source_ids)[1])
            return log_probs, position + 1, weights

        position = ops.zeros_like(source_ids[:, 0])
        batch_size = ops.shape(source_ids)[0]
        return greedy_search(
            step_fn, position, batch_size, max_length, forbidden_ids=forbidden_ids
        )


class BlindModel(CopyingModel):
    """Copies without attention: its search returns no weights."""

    def generate(self, source_ids, max_length, forbidden_ids=()):
        return super().generate(source_ids, max_length)._replace(attention_weights=None)


class EndlessModel(CopyingModel):
    """Says one word for ever."""

    def generate(self, source_ids, max_length, forbidden_ids=()):
        width = ops.shape(source_ids)[1]

        def step_fn(token_ids, states):
            log_probs = ops.one_hot(ops.full_like(token_ids, 5), 97) * 9.0 - 9.5
            return log_probs[:, : self.source_vocabulary_size], states, uniform

        uniform = ops.ones_like(source_ids, dtype="float32") / ops.cast(width, float)
        states = uniform[:, 0]
        return greedy_search(step_fn, states, ops.shape(source_ids)[0], max_length)


def copying(**options):
    return Translator(CopyingModel(CODEC.vocabulary_size), CODEC, CODEC, **options)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_a_copying_model_gives_the_texts_back_in_their_order(batch_size):
    texts = copying()(TEXTS, batch_size=batch_size)
    assert texts == [*TEXTS[:4], "the <unk> sees a cat."]


def test_a_translation_tells_tokens_score_and_weights():
    found = copying().translate(TEXTS[3:4])[0]
    assert found.text == "is the cat asleep?"
    assert found.source_tokens == ["is", "the", "cat", "asleep", "?"]
    assert found.target_tokens == found.source_tokens
    # Five words and the end token, copied one after another.
    np.testing.assert_array_equal(found.attention_weights, np.eye(6))
    # 0.5 for each of the words, less 1 for the end token.
    assert found.score == pytest.approx(5 * -0.5 + 0.5)


def test_an_unknown_source_word_keeps_its_text():
    found = copying().translate(["the zebra"])[0]
    assert found.source_tokens == ["the", "zebra"]
    assert found.target_tokens == ["the", "<unk>"]


def test_unknown_words_can_be_forbidden():
    assert "<unk>" not in copying(allow_unknown=False)(["the zebra"])[0]


@pytest.mark.parametrize("texts", [[""], ["", "  "], []])
def test_nothing_is_translated_to_nothing(texts):
    for found in real().translate(texts):
        assert found[:4] == ("", 0.0, [], [])
        assert found.attention_weights.shape == (0, 1) and len(found.log_probs) == 0
    assert real()(texts) == [""] * len(texts)


def test_serving_no_text_gives_no_translation():
    outputs = real().serve(tf.constant([], tf.string))
    assert outputs["translations"].shape == (0,)
    assert outputs["attention_weights"].shape[0] == 0


def test_each_sentence_is_cut_by_its_own_length():
    model = EndlessModel(CODEC.vocabulary_size)
    options = {"max_length_factor": 1.5, "max_length_offset": 2}
    translator = Translator(model, CODEC, CODEC, **options, max_length=11)
    texts = ["the", "the dog sees", "the dog " * 17]
    lengths = [len(one.target_tokens) for one in translator.translate(texts)]
    # ceil(1.5) + 2, ceil(4.5) + 2, and no more than 11.
    assert lengths == [4, 7, 11]
    scores = [one.score for one in translator.translate(texts)]
    np.testing.assert_allclose(scores, [-2.0, -3.5, -5.5])


def test_a_factor_without_bounds_is_cut_by_the_largest_length():
    model = EndlessModel(CODEC.vocabulary_size)
    translator = Translator(model, CODEC, CODEC, max_length_factor=1e30, max_length=11)
    found = translator.translate(["the", "", "the dog sees"])
    assert [len(one.target_tokens) for one in found] == [11, 0, 11]
    none = Translator(model, CODEC, CODEC, max_length_factor=0, max_length_offset=3)
    found = none.translate(["the", "", "the dog sees"])
    assert [len(one.target_tokens) for one in found] == [3, 0, 3]


def test_batches_and_padding_change_nothing():
    translator = real()
    together = translator.translate(TEXTS)
    for text, one in zip(TEXTS, together):
        alone = translator.translate([text])[0]
        assert alone.text == one.text
        assert alone.target_tokens == one.target_tokens
        assert alone.score == pytest.approx(one.score, abs=1e-4)
        np.testing.assert_allclose(
            alone.attention_weights, one.attention_weights, atol=1e-5
        )


def test_the_score_is_that_of_the_model_itself():
    translator = real()
    found = translator.translate(["the dog sees a cat."])[0]
    model = translator.model
    source_ids = CODEC.encode(["the dog sees a cat."]).to_tensor()
    result = model.generate(source_ids, max_length=22)
    assert found.score == pytest.approx(float(result.scores[0]), abs=1e-4)
    length = int(result.lengths[0])
    np.testing.assert_allclose(
        found.attention_weights, result.attention_weights[0, :length], atol=1e-5
    )


def test_serving_is_traced_once_for_all_shapes():
    translator = real()
    for texts in (TEXTS, TEXTS[:1], ["the " * 23], []):
        translator.serve(tf.constant(texts, tf.string))
    assert translator.serve.experimental_get_tracing_count() == 1


def test_invalid_bytes_and_very_long_lines_are_translated():
    long = "the dog sees a cat. " * 500
    outputs = real(max_length=13).serve(tf.constant([b"\xff the \xfe", long]))
    assert len(outputs["translations"]) == 2
    assert outputs["source_tokens"].shape[1] == 3001
    assert outputs["target_tokens"].shape[1] <= 13


def test_forced_decoding_gives_the_weights_of_each_pair():
    translator = real()
    sources, targets = ["the dog sees a cat.", "a dog"], ["a cat", "the cat sleeps."]
    found = translator.align(sources, targets)
    assert [matrix.shape for matrix in found] == [(3, 7), (5, 3)]
    for source, target, weights in zip(sources, targets, found):
        source_ids = CODEC.encode([source]).to_tensor()
        ids = CODEC.encode([target]).to_tensor()
        shifted = tf.concat([[[CODEC.start_id]], ids[:, :-1]], axis=1)
        expected = translator.model.align(source_ids, shifted)[0]
        np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_a_saved_translator_comes_back(tmp_path):
    translator = real(max_length=17, allow_unknown=False)
    folder = tmp_path / "translator"
    translator.save(folder, notes={"epoch": 3})
    again = load_translator(folder)
    assert again(TEXTS) == translator(TEXTS)
    assert again.settings == translator.settings
    assert (again.settings.max_length, again.settings.allow_unknown) == (17, False)
    assert load_notes(folder) == {"epoch": 3}
    translator.save(folder)
    assert load_notes(folder) is None
    assert [path.name for path in tmp_path.iterdir()] == ["translator"]


def test_saving_deletes_no_other_files(tmp_path):
    translator = real()
    translator.save(tmp_path / "translator")
    for folder in (tmp_path, tmp_path / "translator"):
        (folder / "thesis.txt").write_text("years of work")
        with pytest.raises(ValueError, match=f"{folder}, which holds thesis.txt"):
            translator.save(folder)
        assert (folder / "thesis.txt").read_text() == "years of work"
    assert load_translator(tmp_path / "translator")(TEXTS) == translator(TEXTS)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["thesis.txt", "translator"]


def test_a_model_that_is_not_written_leaves_the_old_translator(tmp_path, monkeypatch):
    translator, other = real(), real()
    translator.save(tmp_path / "translator", notes={"epoch": 3})

    def fail(path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(other.model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        other.save(tmp_path / "translator")
    assert load_translator(tmp_path / "translator")(TEXTS) == translator(TEXTS)
    assert load_notes(tmp_path / "translator") == {"epoch": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["translator"]


def test_notes_that_json_cannot_hold_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="`notes` must.*JSON.*float32"):
        real().save(tmp_path / "translator", notes={"val_bleu": np.float32(1.0)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sizes", [{}, {"num_encoder_layers": 2, "dropout": 0.5}])
def test_an_exported_translator_does_the_same(sizes, tmp_path):
    translator = real(sizes=sizes)
    translator.export(tmp_path / "exported")
    exported = load_translator(tmp_path / "exported")
    assert isinstance(exported, ExportedTranslator)
    for mine, other in zip(translator.translate(TEXTS), exported.translate(TEXTS)):
        assert mine[:1] + mine[2:4] == other[:1] + other[2:4]
        assert mine.score == pytest.approx(other.score, abs=1e-4)
        np.testing.assert_allclose(
            mine.attention_weights, other.attention_weights, atol=1e-5
        )


PLAIN_PROCESS = """
import json, sys
sys.modules["keras_bahdanau"] = None
{first}
import tensorflow as tf
texts = json.load(sys.stdin)
loaded = tf.saved_model.load({path!r})
outputs = loaded.serve(tf.constant(texts))
named = loaded.signatures["serving_default"](strings=tf.constant(texts))
assert sorted(named) == sorted(outputs), sorted(named)
for name in outputs:
    assert outputs[name].shape == named[name].shape
print(json.dumps([text.decode() for text in outputs["translations"].numpy()]))
"""


@pytest.mark.parametrize(
    "codec, first",
    [
        (CODEC, 'sys.modules["keras"] = None'),
        # Which imports keras by itself.
        (SubwordCodec.train(TEXTS, vocabulary_size=25), "import tensorflow_text"),
    ],
    ids=["words", "subwords"],
)
def test_a_process_without_this_package_loads_the_export(codec, first, tmp_path):
    translator = real(codec)
    translator.export(tmp_path)
    program = PLAIN_PROCESS.format(path=str(tmp_path), first=first)
    found = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout.splitlines()[-1]) == translator(TEXTS)


def test_subwords_are_tokens():
    codec = SubwordCodec.train(TEXTS, vocabulary_size=25)
    found = real(codec).translate(["the dog sleeps."])[0]
    assert "".join(found.source_tokens).replace("\u2581", " ") == " the dog sleeps."
    assert found.attention_weights.shape[1] == len(found.source_tokens) + 1


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_baseline_translates_without_attention_weights(bidirectional, tmp_path):
    translator = real(
        model_class=RNNEncoderDecoder, sizes={"bidirectional": bidirectional}
    )
    translator.save(tmp_path / "saved")
    translator.export(tmp_path / "exported")
    expected = translator.translate(TEXTS)
    assert any(one.target_tokens for one in expected)
    same = [load_translator(tmp_path / name) for name in ("saved", "exported")]
    for each in (translator, *same):
        outputs = each.serve(tf.constant(TEXTS))
        steps = outputs["target_tokens"].shape[1]
        assert outputs["attention_weights"].shape == (len(TEXTS), steps, 0)
        for texts in (TEXTS, [""], []):
            for one in each.translate(texts):
                assert one.attention_weights is None
        for one, other in zip(each.translate(TEXTS), expected):
            assert one[:1] + one[2:4] == other[:1] + other[2:4]
            assert one.score == pytest.approx(other.score, abs=1e-4)
    with pytest.raises(ValueError, match="must have attention.*RNNEncoderDecoder"):
        translator.align(TEXTS[:1], TEXTS[:1])


def test_a_search_without_weights_has_none():
    translator = Translator(BlindModel(CODEC.vocabulary_size), CODEC, CODEC)
    found = translator.translate(TEXTS)
    assert [one.text for one in found] == copying()(TEXTS)
    assert [one.attention_weights for one in found] == [None] * len(TEXTS)


def test_a_model_in_mixed_precision_translates():
    keras.config.set_dtype_policy("mixed_bfloat16")
    translator = real()
    found = translator.translate(TEXTS)[0].attention_weights
    forced = translator.align(TEXTS[:1], TEXTS[1:2])[0]
    for weights in (found, forced):
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-2)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: copying()("the dog"), "must be a list of strings"),
        (lambda: copying()(["the dog"], batch_size=0), "`batch_size` must be 1"),
        (lambda: copying().translate(["the"], -1), "`batch_size` must be 1"),
        (lambda: copying().translate([], 0), "`batch_size` must be 1"),
        (lambda: real().align(["the"], ["a"], 0), "`batch_size` must be 1 .*: 0"),
        (
            lambda: copying(max_length=0),
            "`max_length` must be an integer, 1 or more",
        ),
        (
            lambda: copying(max_length_offset=0),
            "`max_length_offset` must be an integer, 1 or more, and finite",
        ),
        (
            lambda: copying(max_length_factor=-0.5),
            "`max_length_factor` must be a number, 0 or more, and finite. "
            "Received: -0.5",
        ),
        (lambda: copying(max_length_factor=float("nan")), "`max_length_factor` must"),
        (lambda: copying(max_length_factor=float("inf")), "`max_length_factor` must"),
        (lambda: real().align(["the"], []), "must have the same length"),
        (
            lambda: Translator(keras.Sequential(), CODEC, CODEC),
            "must be an RNNSearch.*a Sequential without `generate`",
        ),
        (lambda: load_translator("no/such/folder"), "must be a folder that"),
        (
            lambda: Translator(CopyingModel(11), CODEC, CODEC),
            "must have vocabularies of one size. Received 11 and",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_another_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="needs the TensorFlow backend"):
        copying()
