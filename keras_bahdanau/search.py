"""Search: from a step function to the words of a sentence."""

import functools
import math
import numbers
from typing import Any, NamedTuple

import keras
from keras import ops, tree

from keras_bahdanau.scores import largest_of
from keras_bahdanau.weights import check_count

NEVER = -float("inf")


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
    from_logits=False,
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
        from_logits: whether `step_fn` returns logits in place of
            log-probabilities. Only those of the chosen words are then normalised.

    Returns:
        `SearchResult`. A sentence without an end token within `max_length`
        is cut there.

    Raises:
        ValueError: if `max_length` is no integer or less than 1, or `end_id` is
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
    return _decode(
        step_fn,
        states,
        (batch_size,),
        max_length,
        lambda scores, step: first_of_largest(scores),
        (start_id, end_id, pad_id, forbidden_ids),
        from_logits,
    )


def sample(
    step_fn,
    states,
    batch_size,
    max_length,
    temperature=1.0,
    top_k=None,
    top_p=None,
    seed=None,
    num_samples=None,
    start_id=2,
    end_id=3,
    pad_id=0,
    forbidden_ids=(),
    from_logits=False,
):
    """Draws each token at random, by the probability that the model gives it.

        y_i ~ p(v | y_1 ... y_{i-1}) ** (1 / temperature),    until the end token

    among the words that are left: not forbidden, then the `top_k` most likely,
    then the fewest that have `top_p` of the probability of those.

    Masking: as `greedy_search`.

    Args:
        step_fn, states, batch_size, max_length: as `greedy_search`.
        temperature: more than 0; below 1 likely words become likelier.
        top_k: how many of the most likely words are left; `None` for all.
            Words as likely as the last of them are left too.
        top_p: in (0, 1], the least probability of the words that are left;
            `None` for all.
        seed: an integer, for the same words each time, or a
            `keras.random.SeedGenerator`, or `None`.
        num_samples: `N`, how many sentences to draw for each source; `step_fn`
            then sees tokens `(B, N)` and states `(B, N, ...)`, as in
            `beam_search`. `None` for one, without an axis of them.
        start_id, end_id, pad_id, forbidden_ids, from_logits: as `greedy_search`.

    Returns:
        `SearchResult`, with an axis of `N` samples behind the batch if
        `num_samples` is given. The scores and log-probabilities are those of the
        model, whatever the temperature.

    Raises:
        ValueError: as `greedy_search`; or if `temperature`, `top_k` or `top_p`
            is out of its range.

    Example:

    >>> from keras import ops
    >>> log_probs = ops.log(ops.array([[0.0, 0.0, 0.0, 0.2, 0.3, 0.5]] * 4))
    >>> result = sample(lambda ids, s: (log_probs, s), (), 4, 9, top_k=1, seed=1)
    >>> ops.convert_to_numpy(result.token_ids)[:, 0].tolist()
    [5, 5, 5, 5]

    Reference: Holtzman et al. 2020 (arXiv 1904.09751) for `top_p`.
    """
    check_search(max_length, end_id, pad_id)
    above_0 = "a finite number of more than 0"
    check_number("temperature", temperature, above_0, lambda t: 0 < t < math.inf)
    if top_k is not None:
        check_count("top_k", top_k)
    if top_p is not None:
        check_number("top_p", top_p, "in (0, 1]", lambda p: 0 < p <= 1)
    shape = (batch_size,)
    if num_samples is not None:
        check_count("num_samples", num_samples)
        shape = (batch_size, num_samples)
        states = repeat_states(states, num_samples)
    # Drawn before the loop, which could not do it on every backend.
    chances = keras.random.uniform((max_length, *shape), seed=seed, dtype="float32")

    def choose(scores, step):
        probabilities = _left(scores / temperature, top_k, top_p)
        total = ops.cumsum(probabilities, axis=-1)
        # Less than all, rounding or not: a word without probability is no word.
        chance = ops.expand_dims(ops.take(chances, step, axis=0), -1) * (1 - 1e-6)
        return ops.sum(ops.cast(total <= chance * total[..., -1:], "int32"), axis=-1)

    ids = (start_id, end_id, pad_id, forbidden_ids)
    return _decode(step_fn, states, shape, max_length, choose, ids, from_logits)


def ensemble(step_fns):
    """One step function of several: the mean of their probabilities.

        p(v) = mean_m p_m(v),    weights = mean_m weights_m

    Args:
        step_fns: list of functions as for `greedy_search` or `beam_search`, over
            one target vocabulary.

    Returns:
        Function of the tokens and the list of the states of each. It returns
        weights if all of them do; those must then have the same sources.

    Raises:
        ValueError: if the list is empty.

    Example:

    >>> from keras import ops
    >>> def sure(token_ids, states):
    ...     return ops.log(ops.array([[0.1, 0.9]])), states
    >>> def unsure(token_ids, states):
    ...     return ops.log(ops.array([[0.5, 0.5]])), states
    >>> log_probs, _ = ensemble([sure, unsure])(ops.array([0]), [(), ()])
    >>> [f"{p:.2f}" for p in ops.convert_to_numpy(ops.exp(log_probs))[0]]
    ['0.30', '0.70']

    Reference: Sutskever, Vinyals and Le 2014 (arXiv 1409.3215), section 3.6.
    """
    step_fns = list(step_fns)
    if not step_fns:
        raise ValueError("`step_fns` must hold a step function. Received none.")

    def step_fn(token_ids, states):
        found = [
            step_outputs(one(token_ids, own))
            for one, own in zip(step_fns, states, strict=True)
        ]
        log_probs, states, weights = zip(*found)
        log_probs = mean_log_probs(log_probs)
        if any(part is None for part in weights):
            return log_probs, list(states)
        return log_probs, list(states), ops.mean(ops.stack(weights), axis=0)

    return step_fn


def mean_log_probs(log_probs):
    """The logarithm of the mean of the probabilities of several models, in float32."""
    log_probs = ops.stack([ops.cast(part, "float32") for part in log_probs])
    return ops.logsumexp(log_probs, axis=0) - math.log(log_probs.shape[0])


def _left(log_probs, top_k, top_p):
    """The probabilities of the words that are left, 0 for the others."""
    if top_k is not None:
        count = min(top_k, log_probs.shape[-1])
        least = ops.top_k(log_probs, count)[0][..., -1:]
        log_probs = ops.where(log_probs < least, -float("inf"), log_probs)
    probabilities = ops.softmax(log_probs, axis=-1)
    if top_p is not None:
        ordered = -ops.sort(-probabilities, axis=-1)
        # A word is left if those before it have not enough.
        before = ops.cumsum(ordered, axis=-1) - ordered
        least = ops.where(before < top_p, ordered, 2.0)
        least = ops.min(least, axis=-1, keepdims=True)
        probabilities = ops.where(probabilities < least, 0.0, probabilities)
    return probabilities


def _decode(step_fn, states, shape, max_length, pick, ids, from_logits):
    """Runs a step function; `pick(scores, step)` says which words are taken."""
    start_id, end_id, pad_id, forbidden_ids = ids
    check_search(max_length, end_id, pad_id)
    forbidden_ids = {pad_id, start_id, *forbidden_ids} - {end_id}

    def choose(step, token_ids, finished, states):
        scores, states, weights = step_outputs(step_fn(token_ids, states))
        scores = ops.cast(scores, "float32")
        chosen = pick(forbid(scores, forbidden_ids), step)
        chosen = ops.where(finished, pad_id, ops.cast(chosen, "int32"))
        index = ops.expand_dims(chosen, -1)
        chance = ops.squeeze(ops.take_along_axis(scores, index, axis=-1), -1)
        if from_logits:
            chance = chance - ops.logsumexp(scores, axis=-1)
        chance = ops.where(finished, 0.0, chance)
        if weights is not None:
            weights = ops.where(ops.expand_dims(finished, -1), 0.0, weights)
        found = (chosen, chance) if weights is None else (chosen, chance, weights)
        finished = ops.logical_or(finished, ops.equal(chosen, end_id))
        return found, finished, states

    def unfinished(step, record, token_ids, finished, states):
        going_on = ops.logical_not(ops.all(finished))
        return ops.logical_and(ops.less(step, max_length), going_on)

    def body(step, record, token_ids, finished, states):
        found, finished, states = choose(step, token_ids, finished, states)
        record = tree.map_structure(
            lambda whole, part: write_record(whole, part, step), record, found
        )
        return step + 1, record, found[0], finished, states

    # The first step is made outside of the loop: it tells the shapes.
    token_ids = ops.full(shape, start_id, dtype="int32")
    finished = ops.zeros(shape, dtype="bool")
    step = ops.zeros((), dtype="int32")
    found, finished, states = choose(step, token_ids, finished, states)
    record = (
        start_record(found[0], max_length, pad_id),
        *(start_record(part, max_length) for part in found[1:]),
    )
    _, record, _, _, _ = ops.while_loop(
        unfinished, body, (step + 1, record, found[0], finished, states)
    )
    token_ids, log_probs, *weights = (
        ops.moveaxis(part, 0, len(shape)) for part in record
    )
    real = ops.not_equal(token_ids, pad_id)
    return SearchResult(
        token_ids=token_ids,
        lengths=ops.sum(ops.cast(real, "int32"), axis=-1),
        scores=ops.sum(log_probs, axis=-1),
        log_probs=log_probs,
        attention_weights=weights[0] if weights else None,
    )


def check_search(max_length, end_id, pad_id):
    """Raises `ValueError` at arguments with which no search can run."""
    if hasattr(max_length, "dtype"):
        is_whole = "int" in keras.backend.standardize_dtype(max_length.dtype)
    else:
        is_whole = isinstance(max_length, numbers.Integral)
    if not is_whole:
        raise ValueError(
            "`max_length` must be an integer or a scalar tensor of integers. "
            f"Received: max_length={max_length!r}"
        )
    if isinstance(max_length, numbers.Integral) and max_length < 1:
        raise ValueError(
            "`max_length` must be 1 or more: it counts the end token. "
            f"Received: max_length={max_length}"
        )
    if end_id == pad_id:
        raise ValueError(
            "`end_id` and `pad_id` must differ: padding is what follows the end. "
            f"Received: end_id={end_id}, pad_id={pad_id}"
        )


def check_number(name, value, rule, fits):
    """Raises `ValueError` unless the argument `name` is a number and `fits`."""
    try:
        holds = not isinstance(value, str) and fits(float(value))
    except (TypeError, ValueError):
        holds = False
    if not holds:
        raise ValueError(f"`{name}` must be {rule}. Received: {name}={value!r}")


def for_each_sentence(values, name, batch_size):
    """Integers `(B,)`: what was given, or one number for all."""
    values = _integers(values, name)
    if len(values.shape) > 1 or _differ(values.shape, (batch_size,)):
        raise ValueError(
            f"`{name}` must be one integer, or one for each of the sentences, "
            f"({batch_size},). Received shape: {tuple(values.shape)}"
        )
    return ops.broadcast_to(values, (batch_size,))


def prefix_rows(forced_prefix, batch_size):
    """Integers `(B, P)`, or `None` where no word is forced."""
    if forced_prefix is None:
        return None
    prefix = _integers(forced_prefix, "forced_prefix")
    if len(prefix.shape) != 2 or _differ(prefix.shape, (batch_size,)):
        raise ValueError(
            "`forced_prefix` must have a row of words for each of the sentences, "
            f"({batch_size}, P). Received shape: {tuple(prefix.shape)}. Fill up "
            "shorter rows with padding."
        )
    return None if 0 in prefix.shape else prefix


def _integers(values, name):
    try:
        values = ops.convert_to_tensor(values)
        dtype = keras.backend.standardize_dtype(values.dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be integers, in rows of one length. Received: {values!r}"
        ) from error
    # An empty list has no dtype of its own.
    if "int" not in dtype and 0 not in values.shape:
        raise ValueError(f"`{name}` must be integers. Received dtype: {dtype}")
    return ops.cast(values, "int32")


def _differ(shape, expected):
    """Whether sizes that are known differ, as far as both shapes go."""
    pairs = zip(shape, expected)
    return any(
        isinstance(one, int) and isinstance(two, int) and one != two
        for one, two in pairs
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


def repeat_states(states, count):
    """Each state `(B, ...)` once for each hypothesis, `(B, count, ...)`."""
    return tree.map_structure(
        lambda state: ops.repeat(ops.expand_dims(state, 1), count, axis=1), states
    )


def forbid(scores, forbidden_ids):
    """The scores `(..., V)`, -inf for the forbidden words."""
    words = ops.arange(ops.shape(scores)[-1], dtype="int32")
    forbidden = [ops.equal(words, token_id) for token_id in forbidden_ids]
    if not forbidden:
        return scores
    return ops.where(functools.reduce(ops.logical_or, forbidden), NEVER, scores)


def first_of_largest(scores):
    """The index of the largest of the last axis; of the first where several are.

    It is `ops.argmax`, but in two plain reductions, which XLA runs several times
    faster on a CPU than one that carries values and indices.
    """
    size = ops.shape(scores)[-1]
    words = ops.arange(size, dtype="int32")
    # The least index, as the largest of its negatives.
    index = ops.where(scores < largest_of(scores), -size, -words)
    return -ops.squeeze(largest_of(index), -1)
