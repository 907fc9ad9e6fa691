"""What to see of a tagger while it trains."""

import pathlib

import keras

from keras_bahdanau.entities import entity_scores
from keras_bahdanau.tf.saved_folder import TAGGER, check_replaceable


class TaggingCallback(keras.callbacks.Callback):
    """Tags validation sentences after each epoch, and keeps the best model.

    The logs get `val_accuracy` and, where there are words that were not seen in
    training, `val_unknown_accuracy`; with a scheme of entities `val_f1` as well, which
    then says which model is best. `CSVLogger`, `TensorBoard` and `EarlyStopping` find
    them if they stand behind this callback in the list. With
    `SwapEMAWeights(swap_on_epoch=True)` before it, the averaged weights are what tags
    and what is kept.

    Args:
        tagger: The `Tagger` of the model that is fitted.
        corpus: The validation sentences, a `TaggedCorpus`.
        known_words: The words of the training sentences; `None` for no accuracy on
            others.
        scheme: `"BIO"`, `"IOB1"` or `"BIOES"` where tags are those of entities.
        filepath: Folder where the best tagger is saved, for `load_tagger`; `None` to
            keep none.
        notes: What `Tagger.save` is told to remember.
        batch_size: Number of sentences tagged at once.
        print_fn: Function that prints a line.

    Raises:
        ValueError: If `filepath` holds other files than a tagger, or `batch_size` is
            less than 1.

    Example:

    >>> from keras_bahdanau import SequenceTagger, tagging_recipe
    >>> from keras_bahdanau.tagged_text import TaggedCorpus
    >>> from keras_bahdanau.tagging_batches import TaggingBatches
    >>> from keras_bahdanau.tf import TagCodec, Tagger, encode_sentences
    >>> corpus = TaggedCorpus([(["A", "dog"], ["DET", "NOUN"])] * 3)
    >>> codec = TagCodec.train(corpus)
    >>> model = SequenceTagger(**codec.model_sizes(), units=8)
    >>> model.compile(**tagging_recipe(), jit_compile=False)
    >>> tagger = Tagger(model, codec)
    >>> callback = TaggingCallback(tagger, corpus, print_fn=lambda line: None)
    >>> batches = TaggingBatches(encode_sentences(corpus, codec))
    >>> history = model.fit(batches, verbose=0, callbacks=[callback])
    >>> sorted(history.history)
    ['loss', 'tags_accuracy', 'val_accuracy']
    """

    def __init__(
        self,
        tagger,
        corpus,
        known_words=None,
        scheme=None,
        filepath=None,
        notes=None,
        batch_size=128,
        print_fn=print,
    ):
        super().__init__()
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
        self.tagger = tagger
        self.corpus = corpus
        self.known_words = known_words
        self.scheme = scheme
        self.filepath = None if filepath is None else pathlib.Path(filepath)
        if self.filepath is not None:
            check_replaceable(self.filepath, TAGGER)
        self.notes = notes
        self.batch_size = batch_size
        self.print_fn = print_fn
        self.best = -float("inf")

    def on_epoch_end(self, epoch, logs=None):
        found = self.scores()
        logs.update(found)
        text = ", ".join(f"{name} {100 * value:.2f}" for name, value in found.items())
        score = found["val_f1" if self.scheme else "val_accuracy"]
        if score > self.best:
            self.best = score
            text += ", the best so far"
            if self.filepath is not None:
                self.tagger.save(self.filepath, self.notes)
        self.print_fn(f"epoch {epoch + 1}: {text}")

    def scores(self):
        """Tags the validation sentences.

        Returns:
            Dictionary of the scores, each from 0 to 1.
        """
        tags, report = self.tagger.tag_corpus(
            self.corpus, self.known_words, self.batch_size
        )
        found = {"val_accuracy": report.accuracy}
        if report.unknown_accuracy is not None:
            found["val_unknown_accuracy"] = report.unknown_accuracy
        if self.scheme:
            gold = [sentence.tags for sentence in self.corpus]
            found["val_f1"] = entity_scores(gold, tags, self.scheme).f1
        return found
