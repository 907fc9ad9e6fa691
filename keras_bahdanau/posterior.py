"""Where a decoder looked, judged by the word that it gave then."""

from keras import ops

from keras_bahdanau.scores import masked_softmax


def posterior_weights(model, source_ids, labels, start_id=2, power=1.0):
    """The attention weights of given translations, corrected by their words.

        posterior_ij = a_ij p(y_i | c_i = h_j) / sum_k a_ik p(y_i | c_i = h_k)

    The weights `a_ij` of a step are settled before its word is known. Read as the
    probability that annotation `j` alone is the context, they have a posterior given
    the word, which says better what the word was translated from. `p` is the model's
    own: one step from `s_{i-1}`, with one annotation in place of the context. The
    states are those of forced decoding. Where the attention is less to be trusted,
    as in sentences longer than those of the training, `a_ij` to a power below 1 counts
    for less.

    Each word is judged with each annotation, `S` steps for one: for the alignment of
    some thousand sentences, not for training.

    Masking: id 0 is padding on both sides; its rows and columns are 0.

    Args:
        model: an `RNNSearch`, or any model with its methods `encode` and
            `decode_step`.
        source_ids: integers `(B, S)`.
        labels: integers `(B, T)`, the translations, the end token behind each.
        start_id: the token that starts a translation.
        power: exponent of the weights `a_ij`; with 0 the word alone decides.

    Returns:
        Weights `(B, T, S)` in `float32`: row `i` is of the word `labels[:, i]`.

    Raises:
        ValueError: if the model has no such methods, or no attention.

    Example:

    >>> import numpy as np
    >>> from keras_bahdanau import RNNSearch
    >>> from keras_bahdanau.posterior import posterior_weights
    >>> model = RNNSearch(11, 13, embedding_dim=5, units=7)
    >>> weights = posterior_weights(model, np.array([[5, 4, 3]]), np.array([[6, 3]]))
    >>> tuple(weights.shape)
    (1, 2, 3)

    Reference: Shankar and Sarawagi 2019, "Posterior Attention Models for Sequence to
    Sequence Learning", who train with such weights.
    """
    if not (hasattr(model, "decode_step") and model.has_attention):
        raise ValueError(
            "Posterior weights need a model with attention and the method "
            f"`decode_step`, such as RNNSearch. Received: model={model!r}"
        )
    labels = ops.cast(labels, "int32")
    starts = ops.full_like(labels[:, :1], start_id)
    words_before = ops.concatenate([starts, labels[:, :-1]], axis=1)
    memory, states = model.encode(ops.convert_to_tensor(source_ids))
    before, weights = [], []
    for step in range(labels.shape[1]):
        before.append(states[0])
        _, states, looked = model.decode_step(words_before[:, step], states, memory)
        weights.append(ops.cast(looked, "float32"))
    before, weights = ops.stack(before, axis=1), ops.stack(weights, axis=1)
    log_probs = []
    for position in range(source_ids.shape[1]):
        # A memory of one annotation: whatever its score, it is the whole context.
        # The steps of the target take the place of hypotheses.
        one = {name: part[:, position : position + 1] for name, part in memory.items()}
        logits, _, _ = model.decode_step(words_before, [before], one)
        logits = ops.cast(logits, "float32")
        picked = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)
        log_probs.append(ops.squeeze(picked, -1) - ops.logsumexp(logits, axis=-1))
    # A weight may be 0 that is not masked.
    scores = power * ops.log(ops.maximum(weights, 1e-30))
    scores = scores + ops.stack(log_probs, axis=-1)
    real = ops.expand_dims(ops.not_equal(labels, 0), 2)
    return masked_softmax(
        scores, ops.logical_and(real, ops.expand_dims(memory["mask"], 1))
    )
