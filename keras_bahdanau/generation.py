"""What a model can do that makes one step after another: search, score, export."""

import keras
from keras import ops

from keras_bahdanau.beam import beam_search
from keras_bahdanau.search import SearchResult, greedy_search, sample


class Generation(keras.Model):
    """A model from source and target ids to logits, with all ways to use it.

    A subclass has `step_function`, what a search needs, and `_decode`, from source
    ids, target ids and `training` to logits `(B, T, V)` and weights `(B, T, S)`.
    """

    has_attention = True

    def call(self, inputs, training=False):
        logits, _ = self._decode(*pair(inputs), training)
        return logits

    def align(self, source_ids, target_ids):
        """The attention weights of given translations (forced decoding).

        Args:
            source_ids: integers `(B, S)`, 0 = padding.
            target_ids: integers `(B, T)`, the start token in front.

        Returns:
            Weights `(B, T, S)`: row `i` is what the decoder attended to when
            it gave the token that follows `target_ids[:, i]`.
        """
        return self._decode(source_ids, target_ids, training=False)[1]

    def score(self, source_ids, labels, start_id=2):
        """The log-probabilities of given translations (forced decoding).

        Args:
            source_ids: integers `(B, S)`, 0 = padding.
            labels: integers `(B, T)`, the end token behind each, 0 = padding.
            start_id: the token that starts a translation.

        Returns:
            `SearchResult`, as if a search had found the labels.
        """
        labels = ops.cast(labels, "int32")
        starts = ops.full_like(labels[:, :1], start_id)
        target_ids = ops.concatenate([starts, labels[:, :-1]], axis=1)
        logits, weights = self._decode(source_ids, target_ids, training=False)
        log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        index = ops.expand_dims(labels, -1)
        log_probs = ops.squeeze(ops.take_along_axis(log_probs, index, axis=-1), -1)
        real = ops.not_equal(labels, 0)
        log_probs = ops.where(real, log_probs, 0.0)
        weights = ops.cast(weights, "float32")
        return SearchResult(
            token_ids=labels,
            lengths=ops.sum(ops.cast(real, "int32"), axis=-1),
            scores=ops.sum(log_probs, axis=-1),
            log_probs=log_probs,
            attention_weights=ops.where(ops.expand_dims(real, -1), weights, 0.0),
        )

    def generate(self, source_ids, max_length, start_id=2, end_id=3, **kwargs):
        """Translates with `greedy_search`.

        Args:
            source_ids: integers `(B, S)`, 0 = padding.
            max_length: largest number of tokens, the end token counted.
            start_id: the token that starts a translation.
            end_id: the token that ends it.
            **kwargs: further arguments of `greedy_search`.

        Returns:
            `SearchResult`.
        """
        step_fn, states, from_logits = self._search_parts(source_ids)
        return greedy_search(
            step_fn,
            states,
            ops.shape(source_ids)[0],
            max_length,
            start_id,
            end_id,
            from_logits=from_logits,
            **kwargs,
        )

    def sample(self, source_ids, max_length, **kwargs):
        """Draws a translation at random with `keras_bahdanau.sample`.

        Args:
            source_ids: integers `(B, S)`, 0 = padding.
            max_length: largest number of tokens, the end token counted.
            **kwargs: further arguments of `sample`.

        Returns:
            `SearchResult`.
        """
        num_samples = kwargs.get("num_samples") or 1
        step_fn, states, from_logits = self._search_parts(source_ids, num_samples)
        kwargs["from_logits"] = from_logits
        return sample(step_fn, states, ops.shape(source_ids)[0], max_length, **kwargs)

    def beam_search(self, source_ids, num_beams, max_length, **kwargs):
        """Translates with `keras_bahdanau.beam_search`.

        Args:
            source_ids: integers `(B, S)`, 0 = padding.
            num_beams: number of beams.
            max_length: largest number of tokens, the end token counted.
            **kwargs: further arguments of `beam_search`. A coverage penalty
                counts all real source tokens, the end token among them.

        Returns:
            `SearchResult` with an axis of hypotheses, `(B, N, ...)`.
        """
        step_fn, states, from_logits = self._search_parts(source_ids, num_beams)
        kwargs.setdefault("source_mask", ops.not_equal(source_ids, 0))
        return beam_search(
            step_fn,
            states,
            ops.shape(source_ids)[0],
            num_beams,
            max_length,
            from_logits=from_logits,
            **kwargs,
        )

    def _search_parts(self, source_ids, num_beams=1):
        """A step function, first states, and whether the function returns logits."""
        return *self.step_function(source_ids), False

    def export(self, filepath, format="tf_saved_model", **kwargs):
        """Exports the teacher-forced model, for ids of any number and length.

        What is exported returns logits and no mask. To translate from strings
        export a `keras_bahdanau.tf.Translator`.

        Args:
            filepath: where to write.
            format: as in `keras.Model.export`.
            **kwargs: further arguments of `keras.Model.export`. By default
                `input_signature` is a dictionary of two integer tensors,
                `"source_ids"` `(B, S)` and `"target_ids"` `(B, T)`.
        """
        if kwargs.get("input_signature") is None:
            ids = keras.InputSpec(shape=(None, None), dtype="int32")
            kwargs["input_signature"] = [{"source_ids": ids, "target_ids": ids}]
        if not self.built:
            self.build()
        super().export(filepath, format=format, **kwargs)

    def compute_mask(self, inputs, mask=None):
        """`True` at the real tokens of the target, `(B, T)`."""
        return ops.not_equal(pair(inputs)[1], 0)

    def compute_output_shape(self, input_shape):
        """Shape of the logits, `(B, T, V)`."""
        return (*pair(input_shape)[1], self.target_vocabulary_size)


def pair(inputs):
    """Source and target ids of a batch."""
    if isinstance(inputs, dict) and {"source_ids", "target_ids"} <= set(inputs):
        return inputs["source_ids"], inputs["target_ids"]
    if isinstance(inputs, (list, tuple)) and len(inputs) == 2:
        return tuple(inputs)
    raise ValueError(
        'The inputs must be {"source_ids": .., "target_ids": ..} or a list of '
        f"the two. Received: {inputs}"
    )
