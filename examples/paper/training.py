"""Trains one system for its budget, and goes on where a run was stopped."""

import csv
import time

import keras

from keras_bahdanau import FusedLossModel
from keras_bahdanau.backup import AtomicBackup
from keras_bahdanau.tf import (
    TranslationCallback,
    Translator,
    encode_pairs,
    translation_batches,
)

LOG = "log.csv"
TRANSLATOR = "translator"


class Progress(keras.callbacks.Callback):
    """One line for each validation, and the seconds that it took with its updates.

    Args:
        settings: `Settings`.
        translation: The `TranslationCallback`, or `None` for a curve.
        say: Function that prints a line.
    """

    def __init__(self, settings, translation, say):
        super().__init__()
        self._settings, self._translation, self._say = settings, translation, say

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.time()

    def on_epoch_end(self, epoch, logs=None):
        logs["seconds"] = time.time() - self._started
        settings = self._settings
        done = (epoch + 1) * settings.validate_every
        line = f"update {done} of {settings.updates}, loss {logs['loss']:.3f}"
        if self._translation is not None:
            best = self._translation.best
            line += f", validation BLEU {logs['val_bleu']:.2f} (best {best:.2f})"
        self._say(f"{line}, {logs['seconds']:.0f} s")


def train(settings, corpus, codecs, folder, seed, jit, say, validate=True):
    """Trains a system; an epoch of Keras is what lies between two validations.

    Args:
        settings: `Settings`.
        corpus: `Corpus`; of its training pairs those within the limit are used.
        codecs: Codec of the source and of the target.
        folder: Where the log, the backup and the best translator go.
        seed: Integer, of the weights and of the order of the pairs.
        jit: Whether to compile with XLA.
        say: Function that prints a line.
        validate: Whether to translate the validation sentences, and keep the best
            translator; without it the log is all that is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    backup = AtomicBackup(folder / "backup")
    epochs = settings.updates // settings.validate_every
    if backup.finished_epochs >= epochs:
        return
    limit = settings.max_length
    pairs = encode_pairs(corpus.train, *codecs, limit, limit)
    keras.utils.set_random_seed(seed)
    sizes = [codec.vocabulary_size for codec in codecs]
    model = settings.make_model(*sizes, seed=seed)
    trainer = FusedLossModel(model)
    trainer.build()
    trainer.compile(settings.make_optimizer(), jit_compile=jit)
    say(
        f"{len(pairs)} training pairs of up to {limit} words, "
        f"{model.count_params():,} parameters"
    )
    translation = None
    if validate:
        translation = TranslationCallback(
            Translator(model, *codecs),
            corpus.validation.sources,
            corpus.validation.targets,
            num_samples=0,
            filepath=folder / TRANSLATOR,
            print_fn=lambda line: None,
        )
    progress = Progress(settings, translation, say)
    log = keras.callbacks.CSVLogger(folder / LOG, append=backup.finished_epochs > 0)
    done = backup.finished_epochs * settings.validate_every
    trainer.fit(
        batches_from(pairs, settings, seed, done),
        epochs=epochs,
        steps_per_epoch=settings.validate_every,
        shuffle=False,
        verbose=0,
        callbacks=[*([translation] if validate else []), progress, log, backup],
    )


def batches_from(pairs, settings, seed, done=0):
    """Minibatches without end, those left out that a stopped run has behind it.

    Args:
        pairs: `EncodedPairs`.
        settings: `Settings`.
        seed: Integer, of the order.
        done: Number of minibatches that were seen.

    Returns:
        A `tf.data.Dataset`.
    """
    options = {
        "batch_size": settings.batch_size,
        "pool_batches": settings.pool_batches,
        "pad_to_multiple": settings.pad_to_multiple,
        # A smaller last batch is one more shape for XLA; but there must be a batch.
        "drop_remainder": len(pairs) >= settings.batch_size,
    }
    count = len(translation_batches(pairs, seed=seed, **options))
    batches = translation_batches(
        pairs, seed=seed, initial_epoch=done // count, **options
    )
    return batches.repeat().skip(done % count)


def read_log(path):
    """The numbers of each validation, in order.

    A run that was stopped between the log and the backup has some of them twice; the
    later ones are those that went on.

    Args:
        path: Name of the file.

    Returns:
        List of dictionaries of floats.
    """
    with open(path, encoding="utf-8") as file:
        rows = {int(row["epoch"]): row for row in csv.DictReader(file)}
    return [
        # Keras has a column for each number of a validation data set, of which there
        # is none.
        {name: float(value) for name, value in rows[epoch].items() if value != "NA"}
        for epoch in sorted(rows)
    ]
