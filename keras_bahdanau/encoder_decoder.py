"""What RNNsearch and its baseline have in common."""

import keras
from keras import ops

from keras_bahdanau.attentive_rnn import AttentiveRNN
from keras_bahdanau.bridge import StateBridge
from keras_bahdanau.decoder import (
    LOOK_GENERATE_UPDATE,
    LOOK_UPDATE_GENERATE,
    AttentiveGRUDecoderCell,
)
from keras_bahdanau.encoder import BidirectionalGRUEncoder
from keras_bahdanau.generation import Generation, pair
from keras_bahdanau.initializers import BlockOrthogonal, different_seeds, fresh
from keras_bahdanau.loop import read
from keras_bahdanau.products import project
from keras_bahdanau.random import Dropout
from keras_bahdanau.readout import MaxoutReadout
from keras_bahdanau.recipes import paper_recipe

PAPER_SIZES = {"embedding_dim": 620, "units": 1000, "readout_units": 500}


class EncoderDecoder(Generation):
    """What the two models share: all but the encoder and the attention.

    A subclass makes the attention in `_make_attention` (and another encoder in
    `_make_encoder`), and says in `_annotate` what the decoder looks at.
    """

    def __init__(
        self,
        source_vocabulary_size,
        target_vocabulary_size,
        embedding_dim=256,
        units=256,
        readout_units=None,
        num_encoder_layers=1,
        bridge="backward",
        step_order=LOOK_UPDATE_GENERATE,
        tie_embeddings=False,
        dropout=0.3,
        recurrent_dropout=0.0,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        embedding_initializer="uniform",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        # Ids must not be rounded to half precision; the layers cast what they get.
        self.autocast = False
        if tie_embeddings and readout_units not in (None, embedding_dim):
            raise ValueError(
                "With tie_embeddings=True the readout is as wide as the "
                f"embedding. Received: readout_units={readout_units}, "
                f"embedding_dim={embedding_dim}. Leave `readout_units` out."
            )
        self.source_vocabulary_size = source_vocabulary_size
        self.target_vocabulary_size = target_vocabulary_size
        self.embedding_dim = embedding_dim
        self.units = units
        self.readout_units = readout_units or (
            embedding_dim if tie_embeddings else units
        )
        self.num_encoder_layers = num_encoder_layers
        self.bridge_mode = bridge
        self.step_order = step_order
        self.tie_embeddings = tie_embeddings
        self.dropout = dropout
        self.recurrent_dropout = recurrent_dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.embedding_initializer = keras.initializers.get(embedding_initializer)
        self.seed = seed
        self.quantized = None

    def _make_layers(self):
        """Makes all layers; called at the end of a subclass' `__init__`."""
        dtype, seeds = self.dtype_policy, different_seeds(self.seed, 4)
        self.source_embedding = keras.layers.Embedding(
            self.source_vocabulary_size,
            self.embedding_dim,
            embeddings_initializer=fresh(self.embedding_initializer),
            dtype=dtype,
            name="source_embedding",
        )
        self.target_embedding = keras.layers.ReversibleEmbedding(
            self.target_vocabulary_size,
            self.embedding_dim,
            embeddings_initializer=fresh(self.embedding_initializer),
            dtype=dtype,
            name="target_embedding",
        )
        self.input_dropout = Dropout(
            self.dropout, seed=seeds[0], dtype=dtype, name="input_dropout"
        )
        self.encoder = self._make_encoder(dtype)
        self.memory_dropout = Dropout(
            self.dropout, seed=seeds[1], dtype=dtype, name="memory_dropout"
        )
        self.bridge = StateBridge(
            self.units,
            mode=self.bridge_mode,
            kernel_initializer=fresh(self.kernel_initializer),
            dtype=dtype,
            name="bridge",
        )
        cell = AttentiveGRUDecoderCell(
            self.units,
            self._make_attention(dtype),
            step_order=self.step_order,
            kernel_initializer=fresh(self.kernel_initializer),
            context_initializer=fresh(self.kernel_initializer),
            recurrent_initializer=fresh(self.recurrent_initializer),
            recurrent_dropout=self.recurrent_dropout,
            seed=seeds[2],
            dtype=dtype,
            name="decoder_cell",
        )
        self.decoder = AttentiveRNN(
            cell,
            return_sequences=True,
            return_contexts=True,
            return_attention_scores=True,
            dtype=dtype,
            name="decoder",
        )
        self.readout = MaxoutReadout(
            self.target_vocabulary_size,
            self.readout_units,
            dropout=self.dropout,
            embedding=self.target_embedding if self.tie_embeddings else None,
            kernel_initializer=fresh(self.kernel_initializer),
            output_initializer=fresh(self.kernel_initializer),
            seed=seeds[3],
            dtype=dtype,
            name="readout",
        )

    def _make_encoder(self, dtype):
        return BidirectionalGRUEncoder(
            self.units,
            num_layers=self.num_encoder_layers,
            dropout=0.0 if self.num_encoder_layers == 1 else self.dropout,
            recurrent_dropout=self.recurrent_dropout,
            kernel_initializer=fresh(self.kernel_initializer),
            recurrent_initializer=fresh(self.recurrent_initializer),
            seed=self.seed,
            dtype=dtype,
            name="encoder",
        )

    def build(self, input_shape=None):
        """Creates all weights; they do not depend on the shapes of a batch."""
        embedded = (None, None, self.embedding_dim)
        self.source_embedding.build()
        self.target_embedding.build()
        self.encoder.build(embedded)
        memory, state = self._memory_shapes()
        self.bridge.build([memory, state])
        self.decoder.build(embedded, memory)
        self.readout.build(
            [(None, None, self.units), embedded, (None, None, memory[-1])]
        )
        self.built = True

    def encode(self, source_ids, training=False):
        """Reads the source sentences.

        Args:
            source_ids: integers `(B, S)`, 0 = padding.
            training: whether to apply dropout.

        Returns:
            The pair of memory and states. The memory is a dictionary of
            `"values"` `(B, S, D)`, `"keys"` `(B, S, A)` and `"mask"` `(B, S)`:
            one of each a sentence, however many hypotheses read them. The
            states are the list `[s_0]`, `(B, U)`.
        """
        if not self.built:
            self.build()
        mask = ops.not_equal(source_ids, 0)
        embedded = self.source_embedding(source_ids)
        embedded = self.input_dropout(embedded, training=training)
        values, state, mask = self._annotate(embedded, mask, training)
        state = self.bridge([values, state], mask=[mask, None])
        values = self.memory_dropout(values, training=training)
        keys = self.decoder.cell.attention.project_keys(values)
        return {"values": values, "keys": keys, "mask": mask}, [state]

    def decode_step(self, token_ids, states, memory):
        """Makes one step of the decoder.

        Args:
            token_ids: the words before, integers `(B,)`, or `(B, K)` for `K`
                hypotheses a sentence.
            states: list `[s_{i-1}]`, `(B, U)` or `(B, K, U)`.
            memory: what `encode` returned, one copy a sentence.

        Returns:
            Logits `(B, V)` or `(B, K, V)`, the list `[s_i]`, and the attention
            weights `(B, S)` or `(B, K, S)`.
        """
        if "word_kernel" not in memory:
            memory = self.prepare(memory)
        cell, state = self.decoder.cell, states[0]
        embedded = self.target_embedding(token_ids)
        value = memory.get("projected", memory["values"])
        look = cell.attention.reader(value, memory["keys"], memory["mask"])
        seen, weights = look(state)
        if "projected" not in memory:
            seen = project(seen, memory["context_kernel"])
        # What the gates and the readout make of word and context, side by side.
        both = project(embedded, memory["word_kernel"]) + seen
        size = 3 * self.units
        new_state = cell.update(state, cell.add_bias(both[..., :size]))
        output = new_state if self.step_order == LOOK_UPDATE_GENERATE else state
        logits = self.readout.logits(both[..., size:], output)
        return logits, [new_state], weights

    def prepare(self, memory, num_beams=1):
        """Prepares a memory for many steps; else each step does it for itself.

        The kernels of the decoder and of the readout that multiply the same vector
        become one. With several beams they multiply the memory in place of the
        contexts, `C sum_j a_j h_j = sum_j a_j C h_j`, once a sentence for all beams.

        Args:
            memory: what `encode` returned.
            num_beams: number of hypotheses a sentence.

        Returns:
            The memory with `"word_kernel"` and either `"context_kernel"` or
            `"projected"`, `(B, S, 3U + l p)`, beside the rest.
        """
        cell, readout = self.decoder.cell, self.readout

        def side_by_side(*kernels):
            kernels = [read(kernel, self.compute_dtype) for kernel in kernels]
            return ops.concatenate(kernels, axis=1)

        kernel = side_by_side(cell.context_kernel, readout.context_kernel)
        words = side_by_side(cell.kernel, readout.embedding_kernel)
        if num_beams == 1:
            return {**memory, "word_kernel": words, "context_kernel": kernel}
        projected = project(memory["values"], kernel)
        return {**memory, "word_kernel": words, "projected": projected}

    def step_function(self, source_ids):
        """What any search needs: a function that makes a step, and first states.

        Args:
            source_ids: integers `(B, S)`, 0 = padding.

        Returns:
            The pair of `step_fn`, from tokens `(B,)` or `(B, K)` and states to
            log-probabilities, states and attention weights, all in `float32`
            but the states; and the states, a list of tensors `(B, ...)`. The
            memory is bound to the function, one copy a sentence.
        """
        logits_fn, states, _ = self._search_parts(source_ids)

        def step_fn(token_ids, states):
            logits, states, weights = logits_fn(token_ids, states)
            return ops.log_softmax(logits, axis=-1), states, weights

        return step_fn, states

    def _search_parts(self, source_ids, num_beams=1):
        memory, states = self.encode(source_ids)
        memory = self.prepare(memory, num_beams)

        def step_fn(token_ids, states):
            logits, states, weights = self.decode_step(token_ids, states, memory)
            return ops.cast(logits, "float32"), states, ops.cast(weights, "float32")

        return step_fn, states, True

    def hidden_states(self, inputs, training=False):
        """What the output matrix of the readout multiplies, `(B, T, l)`.

        Args:
            inputs, training: as in `call`.
        """
        parts, _, _ = self._read_out_of(*pair(inputs), training)
        states, embedded, contexts = parts
        projected = self.readout.project(embedded, contexts)
        return self.readout.hidden(projected, states, training)

    def _decode(self, source_ids, target_ids, training):
        """Logits `(B, T, V)` and weights `(B, T, S)` of given targets."""
        parts, weights, mask = self._read_out_of(source_ids, target_ids, training)
        # By the time Keras asks a model for its mask, its trainer on JAX is past it.
        logits = self.readout(parts, mask=[mask, None, None], training=training)
        return logits, weights

    def _read_out_of(self, source_ids, target_ids, training):
        """What the readout sees, the weights `(B, T, S)`, the mask of the target."""
        memory, states = self.encode(source_ids, training=training)
        embedded = self.target_embedding(target_ids)
        embedded = self.input_dropout(embedded, training=training)
        outputs, contexts, weights = self.decoder(
            embedded,
            memory["values"],
            initial_state=states,
            keys=memory["keys"],
            memory_mask=memory["mask"],
            training=training,
        )
        return [outputs, embedded, contexts], weights, ops.not_equal(target_ids, 0)

    def quantize(self, mode=None, config=None, **kwargs):
        """Turns the largest weights into 8-bit integers, for decoding.

        These are the word vectors of both sides and the output matrix: a fourth of
        their memory, and of the file. What is computed stays in floats. A quantised
        model saves and loads as any; it is not trained any more, and compiled anew to
        be evaluated.

        Args:
            mode: `"int8"`; or pass `config`.
            config: a `keras.quantizers.Int8QuantizationConfig`, for its quantizer of
                weights.
            **kwargs: as `keras.Model.quantize`, less `filters`.

        Raises:
            ValueError: at another mode, or if the model is quantised already.
        """
        mode = config.mode if config is not None else mode
        if mode != "int8":
            raise ValueError(f"Only mode='int8' is there. Received: mode={mode!r}")
        embeddings = self.source_embedding, self.target_embedding
        # The others would be asked too, each to warn that it cannot.
        super().quantize(
            mode, config=config, filters=lambda layer: layer in embeddings, **kwargs
        )
        self.readout.quantize(mode, config=config)
        self.quantized = mode
        # The optimizer has moments of weights that are gone.
        self.optimizer, self.compiled = None, False

    def get_config(self):
        return {
            **super().get_config(),
            "quantized": self.quantized,
            "source_vocabulary_size": self.source_vocabulary_size,
            "target_vocabulary_size": self.target_vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "readout_units": self.readout_units,
            "num_encoder_layers": self.num_encoder_layers,
            "bridge": self.bridge_mode,
            "step_order": self.step_order,
            "tie_embeddings": self.tie_embeddings,
            "dropout": self.dropout,
            "recurrent_dropout": self.recurrent_dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(
                self.recurrent_initializer
            ),
            "embedding_initializer": keras.initializers.serialize(
                self.embedding_initializer
            ),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        quantized = config.pop("quantized", None)
        model = super().from_config(config)
        if quantized is not None:
            model.build()
            model.quantize(quantized)
        return model

    @classmethod
    def paper(
        cls, source_vocabulary_size=30_004, target_vocabulary_size=30_004, **kwargs
    ):
        """The model of the paper: its sizes, initialisation and optimizer.

        Args:
            source_vocabulary_size: the 30,000 most frequent words and four
                special tokens (padding, unknown, start, end).
            target_vocabulary_size: likewise.
            **kwargs: arguments of the class that replace the paper's. A smaller
                model of the same recipe needs all of `embedding_dim`, `units`,
                `readout_units` and, with attention, `attention_units`.

        Returns:
            The model, compiled with `paper_recipe()`.
        """
        settings = {
            **PAPER_SIZES,
            "step_order": LOOK_GENERATE_UPDATE,
            "dropout": 0.0,
            "kernel_initializer": keras.initializers.RandomNormal(stddev=0.01),
            "recurrent_initializer": BlockOrthogonal(),
            "embedding_initializer": keras.initializers.RandomNormal(stddev=0.01),
            **cls._paper_settings(),
            **kwargs,
        }
        model = cls(source_vocabulary_size, target_vocabulary_size, **settings)
        model.compile(**paper_recipe())
        return model

    @classmethod
    def _paper_settings(cls):
        return {}
