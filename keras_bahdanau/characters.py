"""Words from their characters."""

import keras
from keras import ops

from keras_bahdanau.encoder import BidirectionalGRUEncoder
from keras_bahdanau.random import Dropout
from keras_bahdanau.weights import check_count, check_rate

ENCODERS = ("gru", "cnn")


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class CharacterEncoder(keras.layers.Layer):
    """Makes a vector of each word from the characters of the word.

    With `kind="gru"` a bidirectional GRU reads the embedded characters `x_c`, and the
    word is what both directions know at their ends, as in Plank et al.:

        word = [forward state at the last character ; backward state at the first]

    With `kind="cnn"` it is the largest value of each filter over the word, as in Ma
    and Hovy, with as many filters of each width:

        word_f = max_c relu(sum_k W_fk x_{c+k} + b_f)

    Masking: character 0 is padding and is never read; a word without characters, which
    is what padding between words is, gets zeros. Neither more padding nor the other
    words of a batch change a word. No mask is handed on.

    Args:
        vocabulary_size: Integer, number of character ids, padding included.
        units: Integer U; the result has `2U` features.
        embedding_dim: Integer, size of the embedding of a character.
        kind: `"gru"` or `"cnn"`.
        widths: For `"cnn"`, the widths of the filters; `2U` must be a multiple of
            their number.
        dropout: Float in [0, 1), the share of the embedding's features to drop.
        seed: Integer or `None`, the seed of the dropout.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        character_ids: Integers `(B, T, C)` or `(B, C)`.
        training: Boolean, whether dropout is active.

    Returns:
        Tensor `(B, T, 2U)` or `(B, 2U)`.

    Raises:
        ValueError: If an argument is out of its range.

    Example:

    >>> import keras
    >>> encoder = CharacterEncoder(vocabulary_size=30, units=5)
    >>> words = encoder(keras.ops.convert_to_tensor([[[4, 9, 0], [7, 0, 0]]]))
    >>> tuple(words.shape)
    (1, 2, 10)

    Reference:
        Plank, Søgaard and Goldberg 2016 (arXiv 1604.05529); Ma and Hovy 2016
        (arXiv 1603.01354), section 2.1.
    """

    def __init__(
        self,
        vocabulary_size,
        units=50,
        embedding_dim=32,
        kind="gru",
        widths=(2, 3, 4, 5),
        dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.autocast = False
        check_count("vocabulary_size", vocabulary_size)
        check_count("units", units)
        check_count("embedding_dim", embedding_dim)
        check_rate("dropout", dropout)
        if kind not in ENCODERS:
            raise ValueError(f"`kind` must be one of {ENCODERS}. Received: {kind!r}.")
        self.vocabulary_size = vocabulary_size
        self.units = units
        self.embedding_dim = embedding_dim
        self.kind = kind
        self.widths = tuple(widths)
        self.dropout = dropout
        self.seed = seed
        self._make_layers()

    def _make_layers(self):
        policy = self.dtype_policy
        self.embedding = keras.layers.Embedding(
            self.vocabulary_size, self.embedding_dim, dtype=policy, name="embedding"
        )
        self.input_dropout = Dropout(
            self.dropout, seed=self.seed, dtype=policy, name="input_dropout"
        )
        if self.kind == "gru":
            self.encoder = BidirectionalGRUEncoder(
                self.units, seed=self.seed, dtype=policy, name="encoder"
            )
            return
        filters, rest = divmod(2 * self.units, max(1, len(self.widths)))
        if rest or not filters or not self.widths:
            raise ValueError(
                "`2 * units` must be a multiple of the number of `widths`. Received: "
                f"units={self.units}, widths={self.widths}."
            )
        for width in self.widths:
            check_count("widths", width)
        self.convolutions = [
            keras.layers.Conv1D(
                filters,
                width,
                padding="same",
                activation="relu",
                dtype=policy,
                name=f"convolution_{width}",
            )
            for width in self.widths
        ]

    def build(self, character_ids_shape):
        embedded = (None, None, self.embedding_dim)
        self.embedding.build((None, None))
        for layer in [self.encoder] if self.kind == "gru" else self.convolutions:
            layer.build(embedded)

    def call(self, character_ids, training=None):
        shape = ops.shape(character_ids)
        ids = ops.reshape(character_ids, (-1, shape[-1]))
        mask = ops.not_equal(ids, 0)
        embedded = self.input_dropout(self.embedding(ids), training=training)
        if self.kind == "gru":
            _, words = self.encoder(embedded, mask=mask)
        else:
            words = self._convolve(embedded, ops.expand_dims(mask, -1))
        return ops.reshape(words, (*shape[:-1], 2 * self.units))

    def _convolve(self, embedded, mask):
        # Padding is zeros, as beyond the edges; a relu is never less than 0.
        embedded = ops.where(mask, embedded, ops.zeros_like(embedded))
        found = [convolution(embedded) for convolution in self.convolutions]
        found = ops.concatenate(found, axis=-1)
        return ops.max(ops.where(mask, found, ops.zeros_like(found)), axis=1)

    def compute_output_shape(self, character_ids_shape):
        return (*character_ids_shape[:-1], 2 * self.units)

    def compute_output_spec(self, character_ids, training=None):
        shape = self.compute_output_shape(character_ids.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "embedding_dim": self.embedding_dim,
            "kind": self.kind,
            "widths": list(self.widths),
            "dropout": self.dropout,
            "seed": self.seed,
        }
