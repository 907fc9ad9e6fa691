"""The attentive cell and its loop: identities, masks, memory, saving."""

import keras
import numpy as np
import pytest
from arrays import assert_close, numbers, real_until, scrambled, values
from gradients import assert_gradients_match_differences, needs_float64
from keras import ops
from traces import kept_by_the_loop, sizes_made_by_xla

import keras_bahdanau as kb
from keras_bahdanau.loop import run_steps

B, T, S, M, U, D, A = 2, 5, 7, 3, 11, 13, 17
BACKEND = keras.backend.backend()
ORDERS = ("look_update_generate", "look_generate_update")
TARGET_MASK = np.array([[True, True, True, False, False], [True] * 5])


def built_cell(dtype="float32", **options):
    attention = kb.BahdanauAttention(A, dtype=dtype)
    cell = kb.AttentiveGRUDecoderCell(U, attention, dtype=dtype, **options)
    cell.build((B, M), (B, S, D))
    return scrambled(cell, 0.3)


def looping(cell, **options):
    options = {
        "return_sequences": True,
        "return_contexts": True,
        "return_attention_scores": True,
        "return_state": True,
        **options,
    }
    return kb.AttentiveRNN(cell, **options)


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize(
    "target_mask",
    [None, TARGET_MASK, TARGET_MASK[:, ::-1]],
    ids=["full", "masked", "masked_in_front"],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zero_output_for_mask": True},
        {"go_backwards": True},
        {"unroll": True},
        {"return_sequences": False},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_without_context_it_is_a_gru_masks_and_all(reset_after, target_mask, options):
    cell = built_cell(reset_after=reset_after)
    cell.context_kernel.assign(np.zeros((D, 3 * U)))
    options = {"return_sequences": True, "return_state": True, **options}
    gru_cell = keras.layers.GRUCell(U, reset_after=reset_after)
    gru_cell.build((B, M))
    for name in ("kernel", "recurrent_kernel", "bias"):
        getattr(gru_cell, name).assign(getattr(cell, name))
    x, s_0 = values(B, T, M), values(B, U, seed=4)
    # Keras' own unrolled loop does not go with every mask: see the encoder.
    plain_options = {**options, "unroll": False}
    expected = keras.layers.RNN(gru_cell, **plain_options)(
        x, initial_state=s_0, mask=target_mask
    )
    actual = kb.AttentiveRNN(cell, **options)(
        x, values(B, S, D), initial_state=s_0, mask=target_mask
    )
    wanted = numbers(expected[0])
    if target_mask is not None and wanted.ndim == 3 and BACKEND == "jax":
        # Before the first real step Keras gives the state there, elsewhere zeros.
        steps = target_mask[:, ::-1] if "go_backwards" in options else target_mask
        begun = np.logical_or.accumulate(steps, axis=1)
        wanted = np.where(begun[..., None], wanted, 0.0)
    assert_close(actual[0], wanted)
    assert_close(actual[1], expected[1])


@pytest.mark.parametrize("step_order", ORDERS)
def test_stepping_by_hand_is_the_loop_and_is_plain_rnn(step_order):
    cell = built_cell(step_order=step_order)
    x, memory, s_0 = values(B, T, M), values(B, S, D), values(B, U, seed=4)
    mask = real_until([7, 4], S)
    outputs, contexts, weights, last = looping(cell)(
        x, memory, initial_state=s_0, memory_mask=mask
    )
    states = kb.MemoryStates(cell.attention)([s_0, memory], mask=[None, mask])
    plain, plain_last, *rest = keras.layers.RNN(
        cell, return_sequences=True, return_state=True
    )(x, initial_state=states)
    assert_close(plain, outputs)
    assert_close(plain_last, last)
    for passed_through, given in zip(rest, states[1:]):
        assert_close(passed_through, given)
    keys = cell.attention.project_keys(memory)
    step, state = cell.stepper(memory, keys, mask), [ops.convert_to_tensor(s_0)]
    for t in range(T):
        by_hand = step(cell.project_inputs(x[:, t]), state)
        state = by_hand[1]
        for one, all_steps in zip(
            (by_hand[0], by_hand[2], by_hand[3]), (outputs, contexts, weights)
        ):
            assert_close(one, all_steps[:, t])
    assert_close(state[0], last)


def test_the_step_orders_differ_in_what_comes_out_not_in_the_states():
    after, before = (built_cell(step_order=order) for order in ORDERS)
    x, memory, s_0 = values(B, T, M), values(B, S, D), values(B, U, seed=4)
    states, contexts, _, last = looping(after)(x, memory, initial_state=s_0)
    outputs, same_contexts, _, same_last = looping(before)(x, memory, initial_state=s_0)
    assert_close(contexts, same_contexts)
    assert_close(last, same_last)
    assert_close(outputs[:, 0], s_0)
    assert_close(outputs[:, 1:], states[:, :-1])


def test_several_hypotheses_read_one_copy_of_the_memory():
    cell, beams = built_cell(), 19
    memory, mask = ops.convert_to_tensor(values(B, S, D)), real_until([7, 4], S)
    x, s = values(B, beams, M), ops.convert_to_tensor(values(B, beams, U))
    step = cell.stepper(memory, cell.attention.project_keys(memory), mask)
    together = step(cell.project_inputs(x), [s])
    for k in range(beams):
        alone = step(cell.project_inputs(x[:, k]), [s[:, k]])
        assert_close(together[0][:, k], alone[0])
        assert_close(together[2][:, k], alone[2])
        assert_close(together[3][:, k], alone[3])


def test_what_is_at_hand_may_be_passed_in():
    cell = built_cell()
    x, memory = values(B, T, M), values(B, S, D)
    layer = looping(cell)
    keys = cell.attention.project_keys(memory)
    assert_close(layer(x, memory, keys=keys)[0], layer(x, memory)[0])
    other = numbers(layer(x, memory, keys=2.0 * keys)[2])
    assert np.abs(other - numbers(layer(x, memory)[2])).max() > 1e-3
    grid = memory[:, :6].reshape(B, 2, 3, D)
    flat = layer(x, memory[:, :6])
    for one, other in zip(layer(x, grid), flat):
        assert_close(one, other)


def test_masked_steps_change_nothing_and_repeat_the_last_output():
    layer, memory = looping(built_cell()), values(B, S, D)
    x = values(B, T, M)
    outputs, contexts, weights, last = layer(x, memory, mask=TARGET_MASK)
    short = layer(x[:, :3], memory)
    for masked, alone in zip((outputs, contexts, weights), short):
        assert_close(masked[0, :3], alone[0])
        assert_close(masked[0, 3], masked[0, 2])
    assert_close(last[0], short[3][0])
    same = layer(x, memory, sequences_mask=TARGET_MASK)
    assert_close(same[0], outputs)


def test_before_the_first_real_step_all_is_zero_and_the_state_stays():
    layer, memory, x = looping(built_cell()), values(B, S, D), values(B, T, M)
    s_0 = values(B, U, seed=4)
    mask = np.array([[False, False, True, True, False], [False] * 5])
    *found, last = layer(x, memory, initial_state=s_0, mask=mask)
    *short, short_last = layer(x[:, 2:4], memory, initial_state=s_0)
    for masked, alone in zip(map(numbers, found), short):
        assert not masked[0, :2].any() and not masked[1].any()
        assert_close(masked[0, 2:4], alone[0])
        assert_close(masked[0, 4], masked[0, 3])
    assert_close(last[0], short_last[0])
    assert_close(last[1], s_0[1])


def test_the_masks_of_embeddings_arrive_by_themselves():
    source_ids = np.array([[5, 3, 2, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]])
    target_ids = np.where(TARGET_MASK, 4, 0)
    embed_source = keras.layers.Embedding(19, D, mask_zero=True)
    embed_target = keras.layers.Embedding(19, M, mask_zero=True)
    layer = looping(built_cell())
    expected = layer(
        np.array(numbers(embed_target(target_ids))),
        np.array(numbers(embed_source(source_ids))),
        mask=TARGET_MASK,
        memory_mask=source_ids > 0,
    )
    for one, other in zip(
        layer(embed_target(target_ids), embed_source(source_ids)), expected
    ):
        assert_close(one, other)
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    model = keras.Model(
        [source, target], layer(embed_target(target), embed_source(source))
    )
    for one, other in zip(model([source_ids, target_ids]), expected):
        assert_close(one, other)


def test_a_stateful_loop_goes_on_where_it_stopped():
    cell, x, memory = built_cell(), values(B, T, M), values(B, S, D)
    whole = looping(cell)(x, memory)[0]
    layer = kb.AttentiveRNN(cell, return_sequences=True, stateful=True)
    parts = [layer(x[:, :2], memory), layer(x[:, 2:], memory)]
    assert_close(parts[0], whole[:, :2])
    assert_close(parts[1], whole[:, 2:])
    layer.reset_state()
    assert_close(layer(x[:, :2], memory), whole[:, :2])


def test_the_output_may_hold_the_context():
    cell = built_cell(output_context=True)
    outputs, contexts, _, last = looping(cell)(values(B, T, M), values(B, S, D))
    assert tuple(outputs.shape) == (B, T, U + D)
    assert_close(outputs[..., U:], contexts)
    assert_close(outputs[:, -1, :U], last)


@pytest.mark.parametrize("rates", [(0.5, 0.0), (0.0, 0.5)], ids=["input", "recurrent"])
def test_dropout_is_one_pattern_for_all_steps(rates):
    cell = built_cell(dropout=rates[0], recurrent_dropout=rates[1], seed=5)
    x = np.repeat(values(B, 1, M), T, axis=1)
    memory = values(B, S, D)
    layer = looping(cell)
    quiet = layer(x, memory)[0]
    assert_close(layer(x, memory)[0], quiet)
    loud = layer(x, memory, training=True)[0]
    assert np.abs(numbers(loud) - numbers(quiet)).max() > 1e-3
    if rates[0]:
        projected = numbers(cell.project_inputs(x, training=True))
        assert_close(projected, np.repeat(projected[:, :1], T, axis=1))
    else:
        kept = numbers(cell.recurrent_dropout_mask(ops.ones((B, U)), training=True))
        assert set(np.unique(kept)) == {0.0, 2.0}


def test_the_attentions_dropout_differs_from_step_to_step():
    attention = kb.BahdanauAttention(A, dropout=0.5, seed=1)
    cell = kb.AttentiveGRUDecoderCell(U, attention)
    memory = np.broadcast_to(np.eye(S, dtype="float32"), (B, S, S))
    layer = kb.AttentiveRNN(cell, return_sequences=True, return_contexts=True)
    x = values(B, T, M)
    dropped = numbers(layer(x, memory, training=True)[1]) == 0
    assert dropped.any() and not dropped.all()
    assert (dropped[:, 0] != dropped[:, 1]).any()
    states = kb.MemoryStates(attention)([values(B, U), memory])
    with pytest.raises(ValueError, match="Use AttentiveRNN"):
        keras.layers.RNN(cell)(x, initial_state=states, training=True)


@needs_float64
@pytest.mark.parametrize("step_order", ORDERS)
@pytest.mark.parametrize("reset_after", [False, True])
def test_gradients_match_finite_differences(step_order, reset_after):
    cell = built_cell("float64", step_order=step_order, reset_after=reset_after)
    layer = looping(cell, dtype="float64")
    x, memory = values(B, T, M), values(B, S, D)

    def loss():
        found = layer(x, memory, mask=TARGET_MASK, memory_mask=real_until([7, 4], S))
        return sum(ops.sum(ops.square(part)) for part in found)

    assert_gradients_match_differences(loss, layer.trainable_variables)


def translation_like_model(jit_compile=False):
    """A Functional model on plain `keras.layers.RNN`, `S` and `T` unknown."""
    attention = kb.BahdanauAttention(A)
    source = keras.Input((None,), dtype="int32")
    target = keras.Input((None, M))
    memory, state = kb.BidirectionalGRUEncoder(U)(
        keras.layers.Embedding(19, 2, mask_zero=True)(source)
    )
    s_0 = kb.StateBridge(U)([memory, state])
    cell = kb.AttentiveGRUDecoderCell(U, attention)
    outputs = keras.layers.RNN(cell, return_sequences=True)(
        target, initial_state=kb.MemoryStates(attention)([s_0, memory])
    )
    model = keras.Model([source, target], keras.layers.Dense(2)(outputs))
    model.compile("adam", "mse", jit_compile=jit_compile)
    return model


SOURCE_IDS = np.array([[5, 3, 2, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]], dtype="int32")


@pytest.mark.parametrize(
    "jit_compile", [False] if BACKEND == "torch" else [False, True]
)
def test_a_functional_model_on_plain_rnn_fits_saves_and_reloads(jit_compile, tmp_path):
    model = translation_like_model(jit_compile)
    x, y = [SOURCE_IDS, values(B, T, M)], values(B, T, 2)
    history = model.fit(x, y, epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]
    expected = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(reloaded.weights) == len(model.weights)
    assert_close(reloaded.predict(x, verbose=0), expected)
    reloaded.fit(x, y, verbose=0)  # the optimizer's state fits as well


def test_more_padding_changes_nothing_in_a_functional_model():
    model = translation_like_model()
    padded = np.pad(SOURCE_IDS, ((0, 0), (0, 4)))
    x = values(B, T, M)
    assert_close(model([padded, x]), model([SOURCE_IDS, x]))


@pytest.mark.tf_only
def test_a_functional_model_on_plain_rnn_exports(tmp_path):
    import tensorflow as tf

    model = translation_like_model()
    model.export(str(tmp_path / "exported"), verbose=False)
    reloaded = tf.saved_model.load(str(tmp_path / "exported"))
    for source_ids, x in (
        (SOURCE_IDS, values(B, T, M)),
        (SOURCE_IDS[:1, :2], values(1, 3, M)),
    ):
        found = reloaded.serve([tf.constant(source_ids), tf.constant(x)])
        assert_close(found, model([source_ids, x]))


def plain_rnn_loss(cell):
    def loss(x, memory):
        states = kb.MemoryStates(cell.attention)([ops.zeros((B, U)), memory])
        return ops.sum(
            keras.layers.RNN(cell, return_sequences=True)(x, initial_state=states)
        )

    return loss


def attentive_rnn_loss(cell, fused=False):
    layer = kb.AttentiveRNN(cell, return_sequences=True, fused=fused)
    return lambda x, memory: ops.sum(layer(x, memory))


def fused_loss(cell):
    return attentive_rnn_loss(cell, fused=True)


def masked_loss(cell, fused=False):
    layer = kb.AttentiveRNN(cell, return_sequences=True, fused=fused)
    return lambda x, memory: ops.sum(
        layer(x, memory, mask=TARGET_MASK[:, : x.shape[1]])
    )


def fused_masked_loss(cell):
    return masked_loss(cell, fused=True)


def careless_loss(cell):
    """A loop that makes another memory in each step."""
    attention = cell.attention

    def loss(x, memory):
        def step(inputs, states):
            own = ops.tanh(memory * inputs[:, None, :1])
            keys = attention.project_keys(own)
            return attention.attend(states[0], own, keys)[0], states

        return ops.sum(run_steps(step, x, [ops.ones((B, U))])[1])

    return loss


@pytest.mark.parametrize(
    "make_loss",
    [plain_rnn_loss, attentive_rnn_loss, masked_loss],
    ids=["plain_rnn", "attentive_rnn", "masked"],
)
def test_no_step_keeps_a_copy_of_the_memory_or_of_a_weight(make_loss):
    cell = built_cell()
    loss = make_loss(cell)
    kept = kept_by_the_loop(loss, values(B, T, M), values(B, S, D))
    assert (B, S, A) in kept  # tanh(query + keys), which each step makes anew
    assert (B, S, D) not in kept
    # Plain RNN reads the weights at each step, and TensorFlow keeps what was read.
    if make_loss is not plain_rnn_loss or BACKEND != "tensorflow":
        weights = {tuple(variable.shape) for variable in cell.weights}
        assert not weights & kept


@pytest.mark.parametrize(
    "make_loss", [fused_loss, fused_masked_loss], ids=["fused", "masked"]
)
def test_the_fused_loop_keeps_no_tanh_either(make_loss):
    cell = built_cell()
    kept = kept_by_the_loop(make_loss(cell), values(B, T, M), values(B, S, D))
    assert not {(B, S, A), (B, S, D)} & kept
    assert not {tuple(variable.shape) for variable in cell.weights} & kept


@pytest.mark.tf_only
@pytest.mark.parametrize(
    "make_loss", [fused_loss, fused_masked_loss], ids=["fused", "masked"]
)
def test_nor_does_it_with_xla(make_loss):
    made = sizes_made_by_xla(make_loss(built_cell()), values(B, T, M), values(B, S, D))
    assert T * B * 2 * U in made  # the gates of all steps
    assert not {T * B * S * A, T * B * S * D} & made


@pytest.mark.tf_only
@pytest.mark.parametrize(
    ("make_loss", "copies"),
    [(attentive_rnn_loss, False), (masked_loss, False), (plain_rnn_loss, True)],
    ids=["attentive_rnn", "masked", "plain_rnn"],
)
def test_with_tensorflow_and_xla_only_plain_rnn_copies_the_memory(make_loss, copies):
    """The states of plain RNN are stacked there, the memory among them."""
    made = sizes_made_by_xla(make_loss(built_cell()), values(B, T, M), values(B, S, D))
    assert T * B * S * A in made  # tanh(query + keys)
    assert (T * B * S * D in made) == copies


def test_a_memory_that_each_step_makes_anew_would_be_found():
    kept = kept_by_the_loop(
        careless_loss(built_cell()), values(B, T, M), values(B, S, D)
    )
    assert (B, S, D) in kept


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"units": U, "attention": None}, "`attention` must be a layer"),
        ({"units": U, "attention": keras.layers.Dense(2)}, "`attention` must be"),
        (
            {"units": U, "attention": kb.BahdanauAttention(2), "step_order": "look"},
            "`step_order` must be one of",
        ),
        ({"units": 0, "attention": kb.BahdanauAttention(2)}, "positive integer"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        kb.AttentiveGRUDecoderCell(**arguments)


def test_a_cell_without_a_memory_says_what_to_do():
    cell = kb.AttentiveGRUDecoderCell(U, kb.BahdanauAttention(A))
    with pytest.raises(ValueError, match="context_dim"):
        cell.build((B, M))
    x = values(B, T, M)
    with pytest.raises(ValueError, match="needs a memory"):
        keras.layers.RNN(built_cell())(x)
    with pytest.raises(ValueError, match="MemoryStates makes them"):
        keras.layers.RNN(built_cell())(x, initial_state=[values(B, U)])
    known = kb.AttentiveGRUDecoderCell(U, kb.BahdanauAttention(A), context_dim=D)
    known.build((B, M))
    assert tuple(known.context_kernel.shape) == (D, 3 * U)


def test_the_loop_takes_attentive_cells_only():
    with pytest.raises(ValueError, match="lacks"):
        kb.AttentiveRNN(keras.layers.GRUCell(U))
    with pytest.raises(ValueError, match="cannot be unrolled"):
        run_steps(None, keras.KerasTensor((B, None, M)), [], unroll=True)
    with pytest.raises(ValueError, match="list \\[state, memory\\]"):
        kb.MemoryStates(kb.BahdanauAttention(A))([values(B, U)])
