"""RNNsearch with the weights of a golden file, and how far it is from its values."""

import numpy as np


def gru_kernels(weights, prefix):
    """A GRU's kernels in Keras' order; Keras' update gate is the other way round."""

    def joined(letter):
        z, r, h = (
            np.array(weights[f"{prefix}_{letter}{gate}"]).T for gate in ("_z", "_r", "")
        )
        return np.concatenate([-z, r, h], axis=-1)

    letters = [letter for letter in "WUC" if f"{prefix}_{letter}" in weights]
    return {letter: joined(letter) for letter in letters}


def golden_model(content, step_order):
    """`RNNSearch` with the golden weights; ids are one higher, biases are 0."""
    import keras

    import keras_bahdanau as kb

    sizes, weights = content["sizes"], content["weights_in"]
    words = sizes["vocabulary"] + 1
    model = kb.RNNSearch(
        words,
        words,
        embedding_dim=sizes["embedding"],
        units=sizes["hidden"],
        attention_units=sizes["alignment"],
        readout_units=sizes["maxout"],
        step_order=step_order,
        dropout=0.0,
    )
    model.build()
    for variable in model.weights:
        variable.assign(keras.ops.zeros(variable.shape, variable.dtype))
    encoder, cell = model.encoder.layers[0], model.decoder.cell
    matrices = {
        "E_src": model.source_embedding.embeddings,
        "E_tgt": model.target_embedding.embeddings,
        "W_o": model.readout.output_kernel,
        "W_s": model.bridge.kernel,
        "W_a": cell.attention.query_kernel,
        "U_a": cell.attention.key_kernel,
        "v_a": cell.attention.score_kernel,
        "U_o": model.readout.state_kernel,
        "V_o": model.readout.embedding_kernel,
        "C_o": model.readout.context_kernel,
    }
    for name, variable in matrices.items():
        value = np.array(weights[name])
        if name in ("E_src", "E_tgt", "W_o"):
            value = np.pad(value, ((1, 0), (0, 0)))
        variable.assign(value if name.startswith("E_") else value.T)
    parts = {"fwd": encoder.forward_layer.cell, "bwd": encoder.backward_layer.cell}
    for prefix, part in {**parts, "dec": cell}.items():
        kernels = gru_kernels(weights, prefix)
        part.kernel.assign(kernels["W"])
        part.recurrent_kernel.assign(kernels["U"])
        if "C" in kernels:
            part.context_kernel.assign(kernels["C"])
    return model


def golden_differences(content):
    """The largest difference of each intermediate of the forward pass."""
    import keras

    lengths = np.array(content["source_lengths"])
    mask = np.arange(content["sizes"]["source"]) < lengths[:, None]
    source = np.where(mask, np.array(content["source_ids"]) + 1, 0)
    target = np.array(content["target_input_ids"]) + 1
    found = {}
    for reads, step_order in (
        ("previous", "look_generate_update"),
        ("current", "look_update_generate"),
    ):
        model = golden_model(content, step_order)
        logits = model({"source_ids": source, "target_ids": target})
        found[f"logits_{reads}_state"] = logits[..., 1:]
    # Of the last model, whose decoder gives the new states.
    memory, states = model.encode(source)
    outputs, contexts, weights = model.decoder(
        model.target_embedding(target),
        memory["values"],
        initial_state=states,
        memory_mask=memory["mask"],
    )
    found |= {"annotations": memory["values"], "s0": states[0], "states": outputs}
    found |= {"contexts": contexts, "weights": weights}
    return {
        name: float(
            np.abs(
                keras.ops.convert_to_numpy(value) - np.array(content["expected"][name])
            ).max()
        )
        for name, value in found.items()
    }
