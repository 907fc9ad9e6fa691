"""RNNsearch and its baseline without attention, as Keras models."""

import keras
from keras import ops

from keras_bahdanau.attention import BahdanauAttention, FixedContext
from keras_bahdanau.encoder import gru_outputs
from keras_bahdanau.encoder_decoder import EncoderDecoder
from keras_bahdanau.initializers import fresh


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class RNNSearch(EncoderDecoder):
    """RNNsearch: translation by jointly learning to align and translate.

        h     = BidirectionalGRUEncoder(E_x x)                    (B, S, 2U)
        s_0   = tanh(W_s <-h_1)                                   (B, U)
        c_i   = BahdanauAttention(s_{i-1}, h)                     (B, 2U)
        s_i   = AttentiveGRUDecoderCell(E_y y_{i-1}, s_{i-1}, c_i)
        p(y_i) = softmax(MaxoutReadout(s, E_y y_{i-1}, c_i))      (B, V)

    `call` is teacher-forced; `encode` and `decode_step` are for a search.
    Compile it with `model.compile(**modern_recipe())`, or take
    `RNNSearch.paper()`, which is compiled as in the paper.

    Masking: id 0 is padding on both sides. Padding of the source, of any
    amount, changes nothing. The logits carry the mask of the target: losses,
    ours and Keras' own, count real tokens only.

    Args:
        source_vocabulary_size: number of ids of the source, special ones
            counted.
        target_vocabulary_size: number of ids of the target.
        embedding_dim: size `m` of the word vectors.
        units: size `U` of each GRU.
        attention_units: size `A` of the alignment model (default: `units`).
        readout_units: width `l` of the maxout layer (default: `units`, or
            `embedding_dim` with tied embeddings).
        num_encoder_layers: number of bidirectional layers.
        bridge: what the decoder starts from, the `mode` of `StateBridge`.
        step_order: the `step_order` of `AttentiveGRUDecoderCell`.
        tie_embeddings: whether the target embedding is the output matrix too.
        dropout: rate for word vectors, encoder layers, memory and readout.
        recurrent_dropout: rate for the states of all GRUs.
        kernel_initializer: initializer of all other matrices.
        recurrent_initializer: initializer of the recurrent matrices.
        embedding_initializer: initializer of the word vectors.
        attention_initializer: initializer of `W_a` and `U_a` (default:
            `kernel_initializer`).
        score_initializer: initializer of `v_a`.
        seed: seed of the dropouts.
        **kwargs: `name`, `dtype` and the like of `keras.Model`.

    Call arguments:
        inputs: dictionary of `"source_ids"` `(B, S)` and `"target_ids"`
            `(B, T)`, or a list of the two. The target starts with the start
            token and has not the end token; the labels of `fit` are the same
            words moved by one, with the end token.
        training: whether to apply dropout.

    Returns:
        Logits `(B, T, V)`.

    Raises:
        ValueError: if `readout_units` contradicts tied embeddings, or the
            inputs are not such a dictionary or list.

    Example:

    >>> import numpy as np
    >>> model = RNNSearch(11, 13, embedding_dim=5, units=7)
    >>> ids = {"source_ids": np.ones((2, 3), "int32")}
    >>> ids["target_ids"] = np.ones((2, 4), "int32")
    >>> tuple(model(ids).shape)
    (2, 4, 13)

    Reference: Bahdanau, Cho and Bengio 2014. `E_x` is `source_embedding`,
    `E_y` `target_embedding`, `h` the memory, `W_s` is in `bridge`, the rest
    in `decoder.cell` and `readout`.
    """

    def __init__(
        self,
        source_vocabulary_size,
        target_vocabulary_size,
        attention_units=None,
        attention_initializer=None,
        score_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(source_vocabulary_size, target_vocabulary_size, **kwargs)
        self.attention_units = attention_units or self.units
        self.attention_initializer = keras.initializers.get(attention_initializer)
        self.score_initializer = keras.initializers.get(score_initializer)
        self._make_layers()

    def _make_attention(self, dtype):
        initializer = self.attention_initializer or self.kernel_initializer
        return BahdanauAttention(
            self.attention_units,
            query_initializer=fresh(initializer),
            key_initializer=fresh(initializer),
            score_initializer=fresh(self.score_initializer),
            dtype=dtype,
            name="attention",
        )

    def _annotate(self, embedded, mask, training):
        values, state = self.encoder(embedded, mask=mask, training=training)
        return values, state, mask

    def _memory_shapes(self):
        return (None, None, 2 * self.units), (None, 2 * self.units)

    @classmethod
    def _paper_settings(cls):
        return {
            "attention_units": 1000,
            "attention_initializer": keras.initializers.RandomNormal(stddev=0.001),
            "score_initializer": "zeros",
        }

    def get_config(self):
        return {
            **super().get_config(),
            "attention_units": self.attention_units,
            "attention_initializer": keras.initializers.serialize(
                self.attention_initializer
            ),
            "score_initializer": keras.initializers.serialize(self.score_initializer),
        }


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class RNNEncoderDecoder(EncoderDecoder):
    """RNNencdec, the baseline: one vector must hold the whole sentence.

        c     = last state of GRU(E_x x)                          (B, U)
        s_0   = tanh(W_s c)                                       (B, U)
        s_i   = AttentiveGRUDecoderCell(E_y y_{i-1}, s_{i-1}, c)
        p(y_i) = softmax(MaxoutReadout(s, E_y y_{i-1}, c))        (B, V)

    It is `RNNSearch` with the same `c` in place of every `c_i`, and with an
    encoder that reads forwards only, as in the paper.

    Masking: as `RNNSearch`.

    Args:
        source_vocabulary_size, target_vocabulary_size: as `RNNSearch`.
        bidirectional: whether the encoder reads both ways; `c` is then the
            two last states, `(B, 2U)`.
        bridge: as `RNNSearch`, but `"last"` by default: `W_s` sees all of `c`.
        **kwargs: further arguments of `RNNSearch`, but those of the attention.

    Call arguments:
        inputs, training: as `RNNSearch`.

    Returns:
        Logits `(B, T, V)`.

    Raises:
        ValueError: as `RNNSearch`; or if the bridge asks for a backward state
            that there is not.

    Example:

    >>> import numpy as np
    >>> model = RNNEncoderDecoder(11, 13, embedding_dim=5, units=7)
    >>> tuple(model([np.ones((2, 3), "int32"), np.ones((2, 4), "int32")]).shape)
    (2, 4, 13)

    Reference: Cho et al. 2014 (arXiv 1406.1078); Bahdanau, Cho and Bengio
    2014, section 2.1 and table 1 (RNNencdec).
    """

    has_attention = False

    def __init__(
        self,
        source_vocabulary_size,
        target_vocabulary_size,
        bidirectional=False,
        bridge="last",
        **kwargs,
    ):
        super().__init__(
            source_vocabulary_size,
            target_vocabulary_size,
            bridge=bridge,
            **kwargs,
        )
        if not bidirectional and bridge == "backward":
            raise ValueError(
                "An encoder that reads forwards only has no backward state. "
                "Pass bridge='last', or bidirectional=True."
            )
        if not bidirectional and self.num_encoder_layers != 1:
            raise ValueError(
                "Several encoder layers need bidirectional=True. Received: "
                f"num_encoder_layers={self.num_encoder_layers}"
            )
        self.bidirectional = bidirectional
        self._make_layers()

    def _make_encoder(self, dtype):
        if self.bidirectional:
            return super()._make_encoder(dtype)
        return keras.layers.GRU(
            self.units,
            reset_after=False,
            return_sequences=True,
            return_state=True,
            recurrent_dropout=self.recurrent_dropout,
            kernel_initializer=fresh(self.kernel_initializer),
            recurrent_initializer=fresh(self.recurrent_initializer),
            seed=self.seed,
            dtype=dtype,
            name="encoder",
        )

    def _make_attention(self, dtype):
        return FixedContext(dtype=dtype, name="context")

    def _annotate(self, embedded, mask, training):
        if self.bidirectional or self.recurrent_dropout:
            _, state = self.encoder(embedded, mask=mask, training=training)
        else:
            outputs = gru_outputs([self.encoder], embedded, None, mask, training)
            state = outputs[0][:, -1]
        values = ops.expand_dims(state, 1)
        return values, state, ops.ones_like(mask[:, :1])

    def _memory_shapes(self):
        size = 2 * self.units if self.bidirectional else self.units
        return (None, 1, size), (None, size)

    def get_config(self):
        return {**super().get_config(), "bidirectional": self.bidirectional}
