"""BLEU, and the callback that translates after each epoch."""

import sys
import types

import keras
import numpy as np
import pytest
import sacrebleu

from keras_bahdanau import RNNSearch, modern_recipe
from keras_bahdanau.tf import (
    PairCorpus,
    TranslationCallback,
    Translator,
    WordCodec,
    corpus_bleu,
    load_notes,
    load_translator,
    translation_batches,
)

REFERENCES = ["un chien dort dans la maison .", "le chat voit un grand chien ."]
GOOD = REFERENCES
FAIR = ["un chien dort dans la rue .", "le chat voit un petit chien ."]
BAD = ["rien", "rien"]


class ScriptedTranslator:
    """Translates as the script says, and remembers what it was to save."""

    def __init__(self, *script, lowercase=False):
        self.script = list(script)
        self.target_codec = types.SimpleNamespace(lowercase=lowercase)
        self.saved = []

    def __call__(self, texts, batch_size):
        return self.script.pop(0)

    def save(self, folder, notes):
        self.saved.append((folder.name, notes["epoch"]))


def fit(callbacks, epochs, initial_epoch=0):
    """A training of another model: the callback does not look at it."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = np.zeros((2, 1))
    return model.fit(
        data,
        data,
        epochs=epochs,
        initial_epoch=initial_epoch,
        verbose=0,
        callbacks=callbacks,
    )


def scripted(*script, lowercase=False, **options):
    translator = ScriptedTranslator(*script, lowercase=lowercase)
    options = {"num_samples": 0, "print_fn": lambda line: None, **options}
    return TranslationCallback(translator, ["a", "b"], REFERENCES, **options)


def test_bleu_is_that_of_sacrebleu():
    expected = sacrebleu.corpus_bleu(FAIR, [REFERENCES]).score
    found = corpus_bleu(FAIR, REFERENCES)
    assert 0 < found.score < 100
    assert found.score == pytest.approx(expected)
    assert "tok:13a" in found.signature and "case:mixed" in found.signature


def test_bleu_of_tokens_splits_as_the_codec_does():
    # One word of five is another, once the elision is a word by itself.
    found = corpus_bleu(
        ["L'eau est très chaude"], ["l'eau est très froide"], True, True
    )
    words = ["l' eau est très chaude"], [["l' eau est très froide"]]
    assert found.score == pytest.approx(
        sacrebleu.corpus_bleu(*words, tokenize="none").score
    )
    assert "tok:none" in found.signature and "case:lc" in found.signature


def test_an_unknown_word_counts_as_one_wrong_token():
    words = ["un \u2047 dort bien ici ."], [["un chien dort bien ici ."]]
    found = corpus_bleu(
        ["un <unk> dort bien ici."], ["un chien dort bien ici."], tokenized=True
    )
    assert found.score == pytest.approx(
        sacrebleu.corpus_bleu(*words, tokenize="none", force=True).score
    )


@pytest.mark.parametrize("sides", [([], []), (["a"], ["b", "c"])])
def test_bleu_needs_pairs(sides):
    with pytest.raises(ValueError, match="must have the same length, 1 or more"):
        corpus_bleu(*sides)


def test_a_missing_sacrebleu_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(ImportError, match=r'pip install "keras-bahdanau\[bleu\]"'):
        scripted()


def test_the_score_is_in_the_logs_of_later_callbacks(tmp_path):
    logger = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    history = fit([scripted(BAD, GOOD), logger], epochs=2)
    assert history.history["val_bleu"] == pytest.approx([0.0, 100.0])
    header, *rows = (tmp_path / "log.csv").read_text().splitlines()
    column = header.split(",").index("val_bleu")
    assert float(rows[1].split(",")[column]) == pytest.approx(100.0)


def test_early_stopping_sees_the_score():
    stopping = keras.callbacks.EarlyStopping("val_bleu", mode="max", patience=1)
    history = fit([scripted(FAIR, BAD, GOOD, GOOD), stopping], epochs=4)
    assert len(history.history["val_bleu"]) == 2


def test_the_best_model_is_kept(tmp_path):
    callback = scripted(BAD, GOOD, FAIR, GOOD, filepath=tmp_path / "best")
    fit([callback], epochs=4)
    # An equal score does not replace an earlier one.
    assert callback.translator.saved == [("best", 0), ("best", 1)]
    assert callback.best == pytest.approx(100.0) and callback.best_epoch == 1


def test_scores_come_every_so_often_and_at_the_end():
    history = fit([scripted(BAD, FAIR, GOOD, every=2)], epochs=5)
    assert len(history.history["val_bleu"]) == 3


def test_samples_are_printed():
    lines = []
    fit([scripted(FAIR, num_samples=1, print_fn=lines.append)], epochs=1)
    assert lines[0].startswith("\nepoch 1: val_bleu ")
    assert lines[1:] == [
        "  source:      a",
        f"  reference:   {REFERENCES[0]}",
        f"  translation: {FAIR[0]}",
    ]


def test_case_counts_unless_the_codec_puts_it_aside():
    upper = [text.upper() for text in GOOD]
    cased, lowered = scripted(upper), scripted(upper, lowercase=True)
    assert fit([cased], epochs=1).history["val_bleu"][0] < 50
    assert fit([lowered], epochs=1).history["val_bleu"] == pytest.approx([100.0])


@pytest.mark.parametrize("options", [{"every": 0}, {"sources": []}, {"batch_size": 0}])
def test_arguments_are_checked_before_the_training(options):
    arguments = {"sources": ["a", "b"], "references": REFERENCES, **options}
    with pytest.raises(ValueError, match="1 or more"):
        TranslationCallback(ScriptedTranslator(), **arguments)


def test_a_folder_that_holds_other_files_is_refused_before_the_training(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="which holds thesis.txt"):
        scripted(filepath=tmp_path)


@pytest.fixture(scope="module")
def pairs():
    sources = ["the dog sleeps in the house .", "a cat sees the dog ."]
    return PairCorpus(
        sources * 4, ["le chien dort dans la maison .", REFERENCES[1]] * 4
    )


def make_training(pairs, **optimizer):
    codecs = WordCodec.train(pairs.sources), WordCodec.train(pairs.targets)
    batches = translation_batches(pairs, *codecs, batch_size=4, seed=1)
    sizes = [codec.vocabulary_size for codec in codecs]
    model = RNNSearch(*sizes, embedding_dim=5, units=7, dropout=0.0)
    recipe = modern_recipe(0.03)
    for name, value in optimizer.items():
        setattr(recipe["optimizer"], name, value)
    model.compile(**recipe)
    return model, batches, Translator(model, *codecs)


def callback_of(translator, pairs, folder):
    return TranslationCallback(
        translator, pairs.sources[:2], pairs.targets[:2], num_samples=0, filepath=folder
    )


def test_a_model_learns_two_sentences_and_is_kept_for_translation(pairs, tmp_path):
    model, batches, translator = make_training(pairs)
    callback = callback_of(translator, pairs, tmp_path / "best")
    history = model.fit(
        batches, epochs=30, shuffle=False, verbose=0, callbacks=[callback]
    )
    assert history.history["val_bleu"][-1] == pytest.approx(100.0)
    kept = load_translator(tmp_path / "best")
    assert kept(pairs.sources[:2]) == pairs.targets[:2]
    assert load_notes(tmp_path / "best")["epoch"] == callback.best_epoch


class Interruption(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 3:
            raise KeyboardInterrupt


def test_a_training_that_goes_on_remembers_the_best_score(pairs, tmp_path):
    def run(*more):
        model, batches, translator = make_training(pairs)
        callback = callback_of(translator, pairs, tmp_path / "best")
        backup = keras.callbacks.BackupAndRestore(
            tmp_path / "backup", delete_checkpoint=False
        )
        callbacks = [callback, backup, *more]
        model.fit(batches, epochs=5, shuffle=False, verbose=0, callbacks=callbacks)
        return callback

    with pytest.raises(KeyboardInterrupt):
        run(Interruption())
    # As if the first part had found something never to be reached again.
    load_translator(tmp_path / "best").save(
        tmp_path / "best", {"epoch": 2, "val_bleu": 101.0}
    )
    going_on = run()
    assert (going_on.best, going_on.best_epoch) == (101.0, 2)
    assert load_notes(tmp_path / "best")["val_bleu"] == 101.0


def test_a_new_training_forgets_the_score_of_another(pairs, tmp_path):
    model, batches, translator = make_training(pairs)
    translator.save(tmp_path / "best", {"epoch": 2, "val_bleu": 101.0})
    callback = callback_of(translator, pairs, tmp_path / "best")
    model.fit(batches, epochs=1, shuffle=False, verbose=0, callbacks=[callback])
    assert callback.best < 101.0
    assert load_notes(tmp_path / "best")["epoch"] == 0


def test_averaged_weights_are_what_is_kept(pairs, tmp_path):
    model, batches, translator = make_training(pairs, use_ema=True, ema_momentum=0.5)
    averages = []

    class Watcher(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            averages.append([np.array(one) for one in model.trainable_weights])

    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    callbacks = [Watcher(), swap, callback_of(translator, pairs, tmp_path / "best")]
    model.fit(batches, epochs=1, shuffle=False, verbose=0, callbacks=callbacks)
    kept = load_translator(tmp_path / "best").model.trainable_weights
    changed = [
        not np.allclose(raw, saved, atol=1e-6) for raw, saved in zip(averages[0], kept)
    ]
    assert any(changed)
    for saved, averaged in zip(kept, model.trainable_weights):
        np.testing.assert_allclose(saved, averaged, atol=1e-6)
