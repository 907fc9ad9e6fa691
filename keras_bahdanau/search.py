"""Search: from a step function to the words of a sentence."""

from typing import Any, NamedTuple

from keras import ops, tree


class SearchResult(NamedTuple):
    """What a search found, for a batch of `B` sentences.

    Where a search finds several hypotheses a sentence there is an axis `N` of
    them behind the batch.

    Args:
        token_ids: `(B, T)`, the words, the end token where it was reached,
            padding behind it.
        lengths: `(B,)`, number of tokens, the end token counted.
        scores: `(B,)`, sum of the log-probabilities; of `beam_search` the score
            that its penalties make of it.
        log_probs: `(B, T)`, log-probability of each token; 0 behind the end.
        attention_weights: `(B, T, S)`, what each step attended to; 0 behind
            the end; `None` where the step function returns none.
    """

    token_ids: Any
    lengths: Any
    scores: Any
    log_probs: Any
    attention_weights: Any


def greedy_search(
    step_fn,
    states,
    batch_size,
    max_length,
    start_id=2,
    end_id=3,
    pad_id=0,
    forbidden_ids=(),
):
    """Takes the most likely token at each step.

        y_i = argmax_v log p(v | y_1 ... y_{i-1}),          until the end token

    It knows nothing of models: it runs a step function on any nest of states.
    It stops as soon as all sentences have ended.

    Masking: what a sentence does after its end token changes nothing: its
    tokens are padding, its log-probabilities and weights 0.

    Args:
        step_fn: function `(token_ids (B,), states)` that returns
            `(log_probs (B, V), states)` or, with attention weights,
            `(log_probs (B, V), states, weights (B, S))`.
        states: any nest of tensors with the batch in front.
        batch_size: `B`, an integer or a scalar tensor.
        max_length: largest number of tokens, the end token counted; an integer
            or a scalar tensor.
        start_id: the token that the first step sees.
        end_id: the token that ends a sentence.
        pad_id: the token behind the end.
        forbidden_ids: tokens that are never chosen, such as UNK. Padding and
            the start token never are, the end token always may be.

    Returns:
        `SearchResult`. A sentence without an end token within `max_length`
        is cut there.

    Raises:
        ValueError: if `max_length` is an integer less than 1, or `end_id` is
            `pad_id`.

    Example:

    >>> from keras import ops
    >>> def count_up(token_ids, states):
    ...     log_probs = ops.one_hot(states, 6) * 9.0 - 9.0
    ...     return log_probs, ops.minimum(states + 1, 5)
    >>> result = greedy_search(count_up, ops.array([4, 5]), 2, 4, end_id=5)
    >>> ops.convert_to_numpy(result.token_ids).tolist()
    [[4, 5, 0, 0], [5, 0, 0, 0]]
    """
    if isinstance(max_length, int) and max_length < 1:
        raise ValueError(
            "`max_length` must be 1 or more: it counts the end token. "
            f"Received: max_length={max_length}"
        )

    if end_id == pad_id:
        raise ValueError(
            "`end_id` and `pad_id` must differ: padding is what follows the end. "
            f"Received: end_id={end_id}, pad_id={pad_id}"
        )
    forbidden_ids = {pad_id, start_id, *forbidden_ids} - {end_id}

    def choose(token_ids, finished, states):
        log_probs, states, weights = step_outputs(step_fn(token_ids, states))
        allowed = _forbid(log_probs, forbidden_ids)
        chosen = ops.cast(ops.argmax(allowed, axis=-1), "int32")
        chosen = ops.where(finished, pad_id, chosen)
        index = ops.expand_dims(chosen, -1)
        chance = ops.squeeze(ops.take_along_axis(log_probs, index, axis=-1), -1)
        chance = ops.where(finished, 0.0, ops.cast(chance, "float32"))
        if weights is not None:
            weights = ops.where(ops.expand_dims(finished, -1), 0.0, weights)
        found = (chosen, chance) if weights is None else (chosen, chance, weights)
        finished = ops.logical_or(finished, ops.equal(chosen, end_id))
        return found, finished, states

    def unfinished(step, record, token_ids, finished, states):
        going_on = ops.logical_not(ops.all(finished))
        return ops.logical_and(ops.less(step, max_length), going_on)

    def body(step, record, token_ids, finished, states):
        found, finished, states = choose(token_ids, finished, states)
        record = tree.map_structure(
            lambda whole, part: write_record(whole, part, step), record, found
        )
        return step + 1, record, found[0], finished, states

    # The first step is made outside of the loop: it tells the shapes.
    token_ids = ops.full((batch_size,), start_id, dtype="int32")
    finished = ops.zeros((batch_size,), dtype="bool")
    found, finished, states = choose(token_ids, finished, states)
    record = (
        start_record(found[0], max_length, pad_id),
        *(start_record(part, max_length) for part in found[1:]),
    )
    step = ops.ones((), dtype="int32")
    _, record, _, _, _ = ops.while_loop(
        unfinished, body, (step, record, found[0], finished, states)
    )
    token_ids, log_probs, *weights = (ops.swapaxes(part, 0, 1) for part in record)
    real = ops.not_equal(token_ids, pad_id)
    return SearchResult(
        token_ids=token_ids,
        lengths=ops.sum(ops.cast(real, "int32"), axis=-1),
        scores=ops.sum(log_probs, axis=-1),
        log_probs=log_probs,
        attention_weights=weights[0] if weights else None,
    )


def step_outputs(outputs):
    """Log-probabilities, states and weights (or `None`) of a step."""
    return outputs if len(outputs) == 3 else (*outputs, None)


def start_record(part, capacity, fill=0):
    """A record `(T, ...)` of one number with the first step's part in it."""
    rest = ops.full((capacity - 1, *ops.shape(part)), fill, part.dtype)
    return ops.concatenate([ops.expand_dims(part, 0), rest], axis=0)


def write_record(record, part, step):
    """The record with a step's part in it.

    Compiled by XLA it is written in place. TensorFlow's own kernels and torch copy
    the record, which costs less than to choose between the two at each place.
    """
    index = ops.reshape(ops.convert_to_tensor(step, "int32"), (1, 1))
    return ops.scatter_update(record, index, ops.expand_dims(part, 0))


def _forbid(log_probs, forbidden_ids):
    words = ops.arange(ops.shape(log_probs)[-1], dtype="int32")
    for token_id in forbidden_ids:
        log_probs = ops.where(ops.equal(words, token_id), -float("inf"), log_probs)
    return log_probs
