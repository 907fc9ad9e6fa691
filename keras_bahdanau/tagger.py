"""A complete tagger: words, characters and word features in, tags out."""

import keras
from keras import ops

from keras_bahdanau.batching import UNK_ID
from keras_bahdanau.chains import chain_marginals
from keras_bahdanau.characters import CharacterEncoder
from keras_bahdanau.crf import CRF
from keras_bahdanau.encoder import BidirectionalGRUEncoder
from keras_bahdanau.initializers import different_seeds
from keras_bahdanau.random import Dropout, uniform
from keras_bahdanau.weights import check_count, check_rate

OUTPUTS = ("softmax", "crf")


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class TokenDropout(keras.layers.Layer):
    """Makes some ids unknown while training, so that "unknown" is learned.

        id_t = 1 with probability `rate`, else id_t

    Masking: padding, id 0, stays padding. The mask is handed on.

    Args:
        rate: Float in [0, 1).
        seed: Integer or `None`.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        ids: Integers of any shape.
        training: Boolean, whether ids are dropped.

    Returns:
        Integers of the same shape.

    Raises:
        ValueError: If `rate` is out of its range.

    Example:

    >>> import keras
    >>> ids = keras.ops.convert_to_tensor([[7, 5, 0]])
    >>> keras.ops.convert_to_numpy(TokenDropout(0.5)(ids)).tolist()
    [[7, 5, 0]]

    Reference: Iyyer et al. 2015, "Deep Unordered Composition Rivals Syntactic Methods
    for Text Classification", section 3.1.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_rate("rate", rate)
        self.autocast = False
        self.rate = rate
        self.seed = seed
        self.supports_masking = True
        if rate:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, ids, training=None):
        if not training or not self.rate:
            return ids
        drawn = uniform(ops.shape(ids), self.seed_generator)
        dropped = ops.logical_and(drawn < self.rate, ops.not_equal(ids, 0))
        return ops.where(dropped, ops.full_like(ids, UNK_ID), ids)

    def compute_output_shape(self, input_shape):
        return input_shape

    def compute_output_spec(self, ids, training=None):
        return keras.KerasTensor(ids.shape, dtype=ids.dtype)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


@keras.saving.register_keras_serializable(package="keras_bahdanau")
class SequenceTagger(keras.Model):
    """Tags each word of a sentence by what stands before and after it.

        word_t = [E w_t ; characters of w_t ; features of w_t]
        h_1..h_T = stacked bidirectional GRUs over the words         (B, T, 2U)
        scores_t = W h_t + b                                         (B, T, N)

    or, with `output="crf"`, the potentials of a `CRF` over `h`. `units` is the size of
    each direction. Dropout is on the words, on `h`, and, with several layers, on the
    inputs of each of them.

    It is fitted on labels `(B, T)`, in which -1 marks padding and words without a
    label, with the losses that `tagging_recipe` gives:

        model.compile(**tagging_recipe(output="crf"))
        model.fit(inputs, labels)
        model.predict(inputs)["tags"]

    With `num_frequencies`, a second output tells how frequent each word is, which is
    only there for what the states learn by it; labels are then a dictionary of `tags`,
    `scores` (the same labels) and `frequencies`.

    Words can start from vectors that others trained, the rows of
    `keras_bahdanau.vectors.embedding_matrix`:

        model.build()
        model.word_embedding.set_weights([matrix])

    Masking: word 0 is padding. Neither its amount nor the other sentences of a batch
    change what a sentence gets; tags are -1 there. Word 1 is the unknown word.

    Args:
        num_tags: Integer N.
        vocabulary_size: Integer, number of word ids, with padding and unknown.
        character_vocabulary_size: Integer, or `None` for no characters.
        feature_sizes: For each of the `F` word features, its number of ids.
        embedding_dim: Integer, size of the word embedding.
        character_embedding_dim: Integer, size of the embedding of a character.
        character_units: Integer; a word gets twice as many features of its characters.
        character_encoder: `"gru"` or `"cnn"`, see `CharacterEncoder`.
        feature_dim: Integer, size of the embedding of each word feature.
        units: Integer U, size of each direction's state.
        num_layers: Integer, number of stacked layers.
        bidirectional: Boolean. `False` reads from left to right only: the baseline.
        output: `"softmax"`, each word for itself, or `"crf"`.
        allowed: For the CRF, what may follow what; see `CRF`.
        dropout: Float in [0, 1).
        word_dropout: Float in [0, 1), the share of words that are unknown in training.
        character_dropout: Float in [0, 1), likewise of the characters.
        num_frequencies: Integer, number of classes of the auxiliary output, 0 for none.
        reset_after: Boolean, see `BidirectionalGRUEncoder`.
        seed: Integer or `None`, the seed of the dropouts.
        **kwargs: `name`, `dtype` and the rest of `keras.Model`.

    Call arguments:
        inputs: Dictionary of `"word_ids"` `(B, T)`; with characters
            `"character_ids"` `(B, T, C)`; with features `"feature_ids"` `(B, T, F)`.
        training: Boolean, whether dropout is active.

    Returns:
        Dictionary of `"tags"`, integers `(B, T)`; `"scores"`, logits `(B, T, N)` or
        the potentials `(B, T, N, N)` of a CRF; and `"frequencies"`, logits, if any.

    Raises:
        ValueError: If an argument is out of its range or an input is missing.

    Example:

    >>> import keras
    >>> model = SequenceTagger(17, vocabulary_size=100, units=8)
    >>> outputs = model({"word_ids": keras.ops.convert_to_tensor([[7, 5, 0]])})
    >>> tuple(outputs["scores"].shape), int(outputs["tags"][0, 2])
    ((1, 3, 17), -1)

    Reference:
        Plank, Søgaard and Goldberg 2016 (arXiv 1604.05529), for words, characters and
        the frequency output; Huang, Xu and Yu 2015 (arXiv 1508.01991), for the CRF.
    """

    def __init__(
        self,
        num_tags,
        vocabulary_size,
        character_vocabulary_size=None,
        feature_sizes=(),
        embedding_dim=100,
        character_embedding_dim=32,
        character_units=75,
        character_encoder="gru",
        feature_dim=24,
        units=200,
        num_layers=2,
        bidirectional=True,
        output="softmax",
        allowed=None,
        dropout=0.4,
        word_dropout=0.1,
        character_dropout=0.02,
        num_frequencies=0,
        reset_after=True,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        # Ids must not be rounded to half precision; the layers cast what they get.
        self.autocast = False
        self.num_tags = num_tags
        self.vocabulary_size = vocabulary_size
        self.character_vocabulary_size = character_vocabulary_size
        self.feature_sizes = tuple(feature_sizes)
        self.embedding_dim = embedding_dim
        self.character_embedding_dim = character_embedding_dim
        self.character_units = character_units
        self.character_encoder = character_encoder
        self.feature_dim = feature_dim
        self.units = units
        self.num_layers = num_layers
        self.bidirectional = bidirectional
        self.output_kind = output
        self.allowed = allowed
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.character_dropout = character_dropout
        self.num_frequencies = num_frequencies
        self.reset_after = reset_after
        self.seed = seed
        self._check_options()
        self._make_layers()

    def _check_options(self):
        for name in ("num_tags", "vocabulary_size", "embedding_dim", "units"):
            check_count(name, getattr(self, name))
        check_count("num_layers", self.num_layers)
        if self.character_vocabulary_size is not None:
            check_count("character_vocabulary_size", self.character_vocabulary_size)
        for size in self.feature_sizes:
            check_count("feature_sizes", size)
        check_count("feature_dim", self.feature_dim)
        if self.num_frequencies:
            check_count("num_frequencies", self.num_frequencies)
        for name in ("dropout", "word_dropout", "character_dropout"):
            check_rate(name, getattr(self, name))
        if self.output_kind not in OUTPUTS:
            raise ValueError(
                f"`output` must be one of {OUTPUTS}. Received: {self.output_kind!r}."
            )
        if self.allowed is not None and self.output_kind != "crf":
            raise ValueError(
                "`allowed` goes with output='crf'. Received it with "
                f"output={self.output_kind!r}. Take the CRF, or leave `allowed` out."
            )

    def _make_layers(self):
        options = {"dtype": self.dtype_policy}
        seeds = iter(different_seeds(self.seed, 5))
        self.drop_words = TokenDropout(self.word_dropout, next(seeds))
        self.drop_characters = TokenDropout(self.character_dropout, next(seeds))
        self.word_embedding = keras.layers.Embedding(
            self.vocabulary_size, self.embedding_dim, name="word_embedding", **options
        )
        self.characters = None
        if self.character_vocabulary_size is not None:
            self.characters = CharacterEncoder(
                self.character_vocabulary_size,
                self.character_units,
                self.character_embedding_dim,
                kind=self.character_encoder,
                name="characters",
                **options,
            )
        self.feature_embeddings = [
            keras.layers.Embedding(
                size, self.feature_dim, name=f"feature_embedding_{index}", **options
            )
            for index, size in enumerate(self.feature_sizes)
        ]
        self.drop_inputs = Dropout(
            self.dropout, seed=next(seeds), name="drop_inputs", **options
        )
        self.encoder_layers = self._make_encoder(next(seeds), options)
        self.drop_states = Dropout(
            self.dropout, seed=next(seeds), name="drop_states", **options
        )
        if self.output_kind == "crf":
            self.scorer = CRF(
                self.num_tags, allowed=self.allowed, name="crf", **options
            )
        else:
            self.scorer = keras.layers.Dense(self.num_tags, name="scores", **options)
        self.frequencies = None
        if self.num_frequencies:
            self.frequencies = keras.layers.Dense(
                self.num_frequencies, name="frequencies", **options
            )

    def _make_encoder(self, seed, options):
        settings = {
            "dropout": self.dropout if self.num_layers > 1 else 0.0,
            "reset_after": self.reset_after,
            "use_cudnn": False,
            **options,
        }
        if self.bidirectional:
            return [
                BidirectionalGRUEncoder(
                    self.units,
                    num_layers=self.num_layers,
                    seed=seed,
                    name="encoder",
                    **settings,
                )
            ]
        return [
            keras.layers.GRU(
                self.units,
                return_sequences=True,
                seed=None if seed is None else seed + index,
                name=f"forward_encoder_{index}",
                **settings,
            )
            for index in range(self.num_layers)
        ]

    def build(self, input_shape=None):
        """Creates all weights; they do not depend on the shapes of a batch."""
        size = self.embedding_dim + self.feature_dim * len(self.feature_sizes)
        self.word_embedding.build((None, None))
        for embedding in self.feature_embeddings:
            embedding.build((None, None))
        if self.characters is not None:
            self.characters.build((None, None, None))
            size += 2 * self.character_units
        for layer in self.encoder_layers:
            layer.build((None, None, size))
            size = 2 * self.units if self.bidirectional else self.units
        self.scorer.build((None, None, size))
        if self.frequencies is not None:
            self.frequencies.build((None, None, size))
        self.built = True

    def call(self, inputs, training=None):
        inputs = self._check(inputs)
        mask = ops.not_equal(inputs["word_ids"], 0)
        dropped = self.drop_words(inputs["word_ids"], training=training)
        words = [self.word_embedding(dropped)]
        if self.characters is not None:
            ids = self.drop_characters(inputs["character_ids"], training=training)
            words.append(self.characters(ids, training=training))
        for index, embedding in enumerate(self.feature_embeddings):
            words.append(embedding(inputs["feature_ids"][:, :, index]))
        states = ops.concatenate(words, axis=-1)
        states = self.drop_inputs(states, training=training)
        for layer in self.encoder_layers:
            states = layer(states, mask=mask, training=training)
            if self.bidirectional:
                states, _ = states
        states = self.drop_states(states, training=training)
        outputs = self._score(states, mask)
        if self.frequencies is not None:
            outputs["frequencies"] = self.frequencies(states)
        return outputs

    def _score(self, states, mask):
        if self.output_kind == "crf":
            tags, scores = self.scorer(states, mask=mask)
        else:
            scores = self.scorer(states)
            tags = ops.cast(ops.argmax(scores, axis=-1), "int32")
            tags = ops.where(mask, tags, ops.full_like(tags, -1))
        return {"tags": tags, "scores": scores}

    def _check(self, inputs):
        """The inputs as a dictionary; raises where one that is needed is missing."""
        if not isinstance(inputs, dict):
            inputs = {"word_ids": inputs}
        needed = {"word_ids"}
        if self.characters is not None:
            needed.add("character_ids")
        if self.feature_embeddings:
            needed.add("feature_ids")
        missing = sorted(needed - set(inputs))
        if missing:
            raise ValueError(
                f"`inputs` must be a dictionary with {sorted(needed)}. Received: "
                f"{sorted(inputs)}. Add {missing}."
            )
        if self.feature_embeddings:
            count = inputs["feature_ids"].shape[-1]
            if count != len(self.feature_sizes):
                raise ValueError(
                    f'"feature_ids" must have {len(self.feature_sizes)} features on '
                    f"its last axis. Received: {count}."
                )
        return inputs

    def probabilities(self, scores):
        """The probability of each tag.

        Args:
            scores: the output `"scores"`.

        Returns:
            Tensor `(B, T, N)`: the softmax of logits, the marginals of potentials.
        """
        if self.output_kind == "crf":
            return chain_marginals(ops.cast(scores, "float32"))
        return ops.softmax(ops.cast(scores, "float32"), axis=-1)

    def fit(self, *args, class_weight=None, **options):
        """As in Keras; without `class_weight`, which is for one label a sentence."""
        _check_no_class_weight(class_weight)
        return super().fit(*args, **options)

    def train_on_batch(
        self, x, y=None, sample_weight=None, class_weight=None, **options
    ):
        """As in Keras; without `class_weight`, which is for one label a sentence."""
        _check_no_class_weight(class_weight)
        return super().train_on_batch(x, y, sample_weight, **options)

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        """As in Keras; labels `(B, T)` stand for those of tags and scores."""
        losses = self.loss if isinstance(self.loss, dict) else {}
        if "frequencies" in losses and not isinstance(y, dict):
            raise ValueError(
                "With a loss for the output `frequencies`, labels must be a dictionary "
                "of `tags`, `scores` and `frequencies`. Received one array."
            )
        return super().compute_loss(x, _by_output(y, y_pred), y_pred, *args, **kwargs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As in Keras; labels `(B, T)` stand for those of tags and scores."""
        return super().compute_metrics(x, _by_output(y, y_pred), y_pred, sample_weight)

    def get_config(self):
        return {
            **super().get_config(),
            "num_tags": self.num_tags,
            "vocabulary_size": self.vocabulary_size,
            "character_vocabulary_size": self.character_vocabulary_size,
            "feature_sizes": list(self.feature_sizes),
            "embedding_dim": self.embedding_dim,
            "character_embedding_dim": self.character_embedding_dim,
            "character_units": self.character_units,
            "character_encoder": self.character_encoder,
            "feature_dim": self.feature_dim,
            "units": self.units,
            "num_layers": self.num_layers,
            "bidirectional": self.bidirectional,
            "output": self.output_kind,
            "allowed": self.scorer.get_config()["allowed"] if self.allowed else None,
            "dropout": self.dropout,
            "word_dropout": self.word_dropout,
            "character_dropout": self.character_dropout,
            "num_frequencies": self.num_frequencies,
            "reset_after": self.reset_after,
            "seed": self.seed,
        }


def _check_no_class_weight(class_weight):
    if class_weight is not None:
        raise ValueError(
            "`class_weight` is not for sequences: Keras takes the labels of a "
            "sentence for one class. Weigh words by `sample_weight` (B, T), or "
            "with a CRF sentences by (B,)."
        )


def _by_output(labels, outputs):
    """Labels for each output of the model."""
    if labels is None or isinstance(labels, dict):
        return labels
    return {name: labels for name in outputs}
