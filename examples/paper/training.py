"""Trains one system for its budget, and goes on where a run was stopped."""

import contextlib
import csv
import itertools
import time

import keras
import tensorflow as tf
from corpora import training_pairs
from distribution import DistributedLossModel

from keras_bahdanau import FusedLossModel
from keras_bahdanau.backup import AtomicBackup
from keras_bahdanau.batching import Batching, EpochOrder
from keras_bahdanau.tf import TranslationCallback, Translator

LOG = "log.csv"
TRANSLATOR = "translator"


class Progress(keras.callbacks.Callback):
    """One line for each validation, and the seconds that it took with its updates.

    What is left of the system takes as long an update, which gives the hours.

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
        line += f", {logs['seconds']:.0f} s"
        if left := settings.updates - done:
            hours = left * logs["seconds"] / self.params["steps"] / 3600
            line += f", {hours:.1f} h left"
        self._say(line)


def train(
    settings,
    corpus,
    codecs,
    folder,
    seed,
    jit,
    say,
    validate=True,
    minutes=None,
    strategy=None,
):
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
        minutes: As of `AtomicBackup`.
        strategy: `tf.distribute.Strategy` to train with; `None` for one device.
    """
    folder.mkdir(parents=True, exist_ok=True)
    backup = AtomicBackup(folder / "backup", minutes)
    epochs, every = settings.updates // settings.validate_every, settings.validate_every
    if backup.finished_epochs >= epochs:
        return
    limit = settings.max_length
    pairs = training_pairs(corpus, codecs, limit)
    trainer = make_trainer(settings, codecs, seed, jit, strategy)
    say(
        f"{len(pairs)} training pairs of up to {limit} words, "
        f"{trainer.model.count_params():,} parameters"
    )
    translation = None
    if validate:
        translation = TranslationCallback(
            Translator(trainer.model, *codecs),
            corpus.validation.sources,
            corpus.validation.targets,
            num_samples=0,
            filepath=folder / TRANSLATOR,
            print_fn=lambda line: None,
        )
    progress = Progress(settings, translation, say)

    def fit(epochs):
        first = backup.finished_batches
        done = backup.finished_epochs * every + first
        log = keras.callbacks.CSVLogger(folder / LOG, append=done > 0)
        trainer.fit(
            batches_from(pairs, settings, seed, done),
            epochs=epochs,
            steps_per_epoch=every - first,
            shuffle=False,
            verbose=0,
            callbacks=[*([translation] if validate else []), progress, log, backup],
        )

    if backup.finished_batches:
        fit(backup.finished_epochs + 1)
    fit(epochs)


def make_trainer(settings, codecs, seed, jit, strategy=None):
    """The model of a system in what trains it, compiled.

    Args:
        settings, codecs, seed, jit, strategy: As `train` takes them.

    Returns:
        A `FusedLossModel`.
    """
    keras.utils.set_random_seed(seed)
    sizes = [codec.vocabulary_size for codec in codecs]
    kind = FusedLossModel if strategy is None else DistributedLossModel
    with strategy.scope() if strategy else contextlib.nullcontext():
        trainer = kind(
            settings.make_model(*sizes, seed=seed), average_over=settings.average_over
        )
        trainer.build()
        # XLA has no part in what replicas do together.
        jit = jit and strategy is None
        trainer.compile(settings.make_optimizer(), jit_compile=jit)
    return trainer


def batches_from(pairs, settings, seed, done=0):
    """Minibatches without end, those left out that a stopped run has behind it.

    Args:
        pairs: `EncodedPairs`.
        settings: `Settings`.
        seed: Integer, of the order.
        done: Number of minibatches that were seen.

    Returns:
        A `tf.data.Dataset`, the same in each iteration.
    """
    batching = Batching(
        batch_size=settings.batch_size,
        pool_batches=settings.pool_batches,
        pad_to_multiple=settings.pad_to_multiple,
        # A smaller last batch is one more shape for XLA; but there must be a batch.
        drop_remainder=len(pairs) >= settings.batch_size,
    )
    count = sum(1 for _ in batching.plan(pairs))

    def batches():
        order = EpochOrder(seed=seed, initial_epoch=done // count)
        first = done % count
        while True:
            plan = batching.plan(pairs, order.next_generator())
            for planned in itertools.islice(plan, first, None):
                yield pairs.batch(*planned)
            first = 0

    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(
        batches, output_signature=({"source_ids": ids, "target_ids": ids}, ids)
    )
    return dataset.prefetch(tf.data.AUTOTUNE)


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
