"""What goes on in a model that is given the reference: gates and attention weights.

The model keeps its gates to itself, but its states and weights are at hand, and with
all states known each gate is one product. Their names and their sense are the paper's:
the update gate is the share of the new candidate in a state, `1 - z` in Keras.
"""

import numpy as np
from keras import ops

from keras_bahdanau.decoder import LOOK_GENERATE_UPDATE


def gru_gates(projected, previous, recurrent_kernel):
    """The gates of a GRU whose states are known.

        z_t = 1 - sigmoid(x_t + U_z s_{t-1}),  r_t = sigmoid(x_t + U_r s_{t-1})

    Args:
        projected: What the gates see besides the state, `(B, T, 3U)`: z, r and
            candidate, with the bias.
        previous: States before each step, `(B, T, U)`.
        recurrent_kernel: `(U, 3U)`.

    Returns:
        Update gates and reset gates, `(B, T, U)` each.
    """
    units = previous.shape[-1]
    gates = projected[..., : 2 * units] + previous @ recurrent_kernel[:, : 2 * units]
    gates = 1 / (1 + np.exp(-gates))
    return 1 - gates[..., :units], gates[..., units:]


def encoder_gates(model, source_ids):
    """The gates of the encoder.

    Args:
        model: `RNNSearch` or `RNNEncoderDecoder`.
        source_ids: Integers `(B, S)`.

    Returns:
        Dictionary from a direction to update and reset gates, `(B, S, U)` each.
    """
    embedded = model.source_embedding(source_ids)
    states = _array(model.encoder(embedded, mask=ops.not_equal(source_ids, 0))[0])
    embedded, units = _array(embedded), model.units
    if not model.has_attention:
        cell = model.encoder.cell
        return {"forward": _cell_gates(cell, embedded, _before(states))}
    both = model.encoder.layers[0]
    # At padding the annotations are 0, which is where the backward half starts.
    after = _before(states[:, ::-1, units:])[:, ::-1]
    return {
        "forward": _cell_gates(
            both.forward_layer.cell, embedded, _before(states[..., :units])
        ),
        "backward": _cell_gates(both.backward_layer.cell, embedded, after),
    }


def decoder_gates(model, source_ids, target_ids):
    """The gates and the attention weights of the decoder.

    Args:
        model: `RNNSearch` or `RNNEncoderDecoder`.
        source_ids: Integers `(B, S)`.
        target_ids: Integers `(B, T)`, the start token in front.

    Returns:
        Update gates and reset gates, `(B, T, U)` each, and weights `(B, T, S)`.
    """
    memory, states = model.encode(source_ids)
    embedded = model.target_embedding(target_ids)
    outputs, contexts, weights = model.decoder(
        embedded,
        memory["values"],
        initial_state=states,
        keys=memory["keys"],
        memory_mask=memory["mask"],
    )
    previous, cell = _array(outputs), model.decoder.cell
    if model.step_order != LOOK_GENERATE_UPDATE:
        previous = _before(previous, _array(states[0]))
    seen = _array(contexts) @ _array(cell.context_kernel)
    update, reset = _cell_gates(cell, _array(embedded), previous, seen)
    return update, reset, _array(weights)


def entropy(weights):
    """The entropy of each row of weights, in nats; zeros add nothing."""
    weights = np.asarray(weights, "float64")
    logs = np.log(np.where(weights > 0, weights, 1))
    return -np.sum(weights * logs, axis=-1)


def look_inside(model, pairs, batch_size=64):
    """Means over sentences, by position, and what each sentence's weights are like.

    Args:
        model: `RNNSearch` or `RNNEncoderDecoder`.
        pairs: `EncodedPairs`.
        batch_size: Pairs that are looked at together.

    Returns:
        Dictionary of `"gates"`, from a name such as `"encoder forward update"` to the
        means by position, with `"pairs"`, how many sentences have that position in the
        source and in the target; and for a model with attention `"entropy"`, of each
        sentence the mean over its words, `"end_mass"`, the mean share of the weight of
        the end token while a word is written, and `"end_mass_at_end"`, the share when
        the end is written.
    """
    sums, counts = {}, {}
    per_sentence = {"entropy": {}, "end_mass": {}, "end_mass_at_end": {}}
    order = np.argsort(pairs.source_lengths, kind="stable")
    for first in range(0, len(order), batch_size):
        rows = order[first : first + batch_size]
        inputs, labels = pairs.batch(rows)
        source_ids, target_ids = inputs["source_ids"], inputs["target_ids"]
        update, reset, weights = decoder_gates(model, source_ids, target_ids)
        found = {"decoder": (update, reset, labels > 0)}
        for name, gates in encoder_gates(model, source_ids).items():
            found[f"encoder {name}"] = (*gates, source_ids > 0)
        for name, (update, reset, real) in found.items():
            _add(counts, name, real)
            for kind, gate in (("update", update), ("reset", reset)):
                _add(sums, f"{name} {kind}", np.where(real, gate.mean(axis=-1), 0))
        if model.has_attention:
            for index, row in enumerate(rows):
                target, source = pairs.target_lengths[row], pairs.source_lengths[row]
                sentence = _of_sentence(weights[index, :target, :source])
                for name, value in sentence.items():
                    per_sentence[name][row] = value
    gates = {
        name: (total / counts[name.rsplit(" ", 1)[0]]).tolist()
        for name, total in sums.items()
    }
    pairs_at = {
        "source": counts["encoder forward"].tolist(),
        "target": counts["decoder"].tolist(),
    }
    ordered = {
        name: [float(values[row]) for row in range(len(order))]
        for name, values in per_sentence.items()
        if values
    }
    return {"gates": gates, "pairs": pairs_at, **ordered}


def _of_sentence(weights):
    """What the weights `(T, S)` of one sentence are like, end tokens counted."""
    entropies, end = entropy(weights), weights[:, -1]
    return {
        "entropy": entropies[:-1].mean(),
        "end_mass": end[:-1].mean(),
        "end_mass_at_end": end[-1],
    }


def _add(sums, name, values):
    """Adds the rows of a batch, which may be longer than those before."""
    total = values.sum(axis=0)
    before = sums.get(name, np.zeros(0))
    size = max(len(total), len(before))
    sums[name] = sum(np.pad(part, (0, size - len(part))) for part in (before, total))


def _cell_gates(cell, inputs, previous, more=0.0):
    projected = inputs @ _array(cell.kernel) + _array(cell.bias) + more
    return gru_gates(projected, previous, _array(cell.recurrent_kernel))


def _before(states, first=None):
    """The state before each step, `first` or zeros before the first."""
    first = np.zeros_like(states[:, 0]) if first is None else first
    return np.concatenate([first[:, None], states[:, :-1]], axis=1)


def _array(tensor):
    return ops.convert_to_numpy(tensor)
