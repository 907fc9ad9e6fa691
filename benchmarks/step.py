"""Times one step of RNNsearch: a training step, greedy decoding, or a beam search.

python benchmarks/step.py --mode train --backend tensorflow

A training step is `train_on_batch`: forward, loss, backward and Adam.
Decoding makes exactly --tgt-len steps: the end token is ruled out. Prints one line of
JSON.
"""

import harness


def make_model(options, jit_compile):
    """RNNsearch of those sizes, compiled for training."""
    import keras

    import keras_bahdanau as kb

    if options.backend == "tensorflow":
        # On other backends it would import TensorFlow, with its half a gigabyte.
        keras.utils.set_random_seed(options.seed)
    if options.dtype != "float32":
        keras.config.set_dtype_policy(options.dtype)
    model = kb.RNNSearch(
        options.vocab,
        options.vocab,
        embedding_dim=options.emb,
        units=options.units,
        attention_units=options.attn_units,
        readout_units=options.readout,
        step_order="look_generate_update",
        dropout=options.dropout,
    )
    optimizer = keras.optimizers.Adam(options.lr)
    if options.loss == "fused":
        trainer = kb.FusedLossModel(model, num_chunks=options.chunks)
        trainer.compile(optimizer=optimizer, jit_compile=jit_compile)
        return trainer
    model.compile(
        optimizer=optimizer, loss=kb.TokenCrossentropy(), jit_compile=jit_compile
    )
    return model


def make_step(model, options, jit_compile):
    """The function that is timed."""
    import functools

    import keras

    import keras_bahdanau as kb

    if options.mode == "train":

        def step(batch):
            model.reset_metrics()
            loss = model.train_on_batch(*batch)
            return float(loss[0] if isinstance(loss, list) else loss)

        return step

    # A logit of the end token that no other logit is below.
    model.build()
    bias = keras.ops.convert_to_numpy(model.readout.output_bias).copy()
    bias[harness.END] = -1e9
    model.readout.output_bias.assign(bias)
    search = model.generate
    if options.mode == "beam":
        search = functools.partial(model.beam_search, num_beams=options.beam)
    search = functools.partial(
        search, max_length=options.tgt_len, start_id=harness.START, end_id=harness.END
    )

    def decode(source_ids):
        return search(source_ids).token_ids

    decode = compiled(decode, jit_compile)

    def step(batch):
        ids = keras.ops.convert_to_numpy(decode(batch[0]["source_ids"]))
        ids = ids[:, 0] if options.mode == "beam" else ids
        assert ids.shape == (options.batch, options.tgt_len), ids.shape
        assert (ids != harness.PAD).all()
        return kb.__version__

    return step


def compiled(function, jit_compile):
    """What the backend makes of a function of tensors."""
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=jit_compile)
    if backend == "jax":
        import jax

        return jax.jit(function)
    import torch

    def without_gradient(source_ids):
        with torch.inference_mode():
            return function(keras.ops.convert_to_tensor(source_ids))

    return without_gradient


def main():
    options = harness.parse(harness.step_parser(__doc__))
    on = options.backend == "jax" or options.jit == "on"
    model = make_model(options, on)
    batches = harness.make_batches(options)
    step = make_step(model, options, on)
    results, record = harness.timed(step, batches, options)
    if options.mode == "train":
        record |= {"loss_first": results[0], "loss_last": results[-1]}
    milliseconds = record["median_ms_per_step"]
    record["target_tokens_per_s"] = harness.words_per_second(batches, milliseconds)
    record["params"] = model.count_params()
    record["gflop_forward"] = harness.forward_gflop(options)
    harness.report("ours", options, record)


if __name__ == "__main__":
    main()
