"""RNNsearch and its baseline: steps against loops, the paper's preset, fitting."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_bahdanau as kb
from keras_bahdanau.batching import BatchSequence, EncodedPairs

SOURCES, TARGETS = 11, 13
START, END = 2, 3
SOURCE_IDS = np.array([[5, 4, 9, 3, 0, 0, 0], [4, 5, 6, 7, 8, 9, 3]])
LABELS = np.array([[7, 8, 3, 0, 0], [4, 5, 6, 12, 3]])
TARGET_IDS = np.where(LABELS > 0, np.pad(LABELS[:, :-1], ((0, 0), (1, 0))), 0)
TARGET_IDS[:, 0] = START
MODELS = {
    "rnnsearch": (kb.RNNSearch, {}),
    "tied": (kb.RNNSearch, {"tie_embeddings": True}),
    "paper_order": (kb.RNNSearch, {"step_order": "look_generate_update"}),
    "stacked": (kb.RNNSearch, {"num_encoder_layers": 2, "bridge": "mean"}),
    "rnnencdec": (kb.RNNEncoderDecoder, {}),
    "rnnencdec_both_ways": (kb.RNNEncoderDecoder, {"bidirectional": True}),
}
each_model = pytest.mark.parametrize("name", MODELS)


def numbers(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def assert_close(actual, expected, atol=1e-5):
    np.testing.assert_allclose(numbers(actual), numbers(expected), atol=atol)


def make(name, **options):
    """A model whose weights are large enough that every word counts."""
    model_class, chosen = MODELS[name]
    model = model_class(SOURCES, TARGETS, embedding_dim=5, units=7, **chosen, **options)
    model.build()
    rng = np.random.default_rng(7)
    for variable in model.trainable_variables:
        variable.assign(0.5 * rng.normal(size=variable.shape))
    return model


def log_probabilities(model, source_ids, target_ids):
    logits = model({"source_ids": source_ids, "target_ids": target_ids})
    return numbers(ops.log_softmax(logits, axis=-1))


@each_model
def test_steps_by_hand_are_the_teacher_forced_call(name):
    model = make(name)
    logits = model([SOURCE_IDS, TARGET_IDS])
    weights = model.align(SOURCE_IDS, TARGET_IDS)
    memory, states = model.encode(SOURCE_IDS)
    for step in range(TARGET_IDS.shape[1]):
        token_ids = ops.convert_to_tensor(TARGET_IDS[:, step])
        one, states, looked = model.decode_step(token_ids, states, memory)
        assert_close(one, logits[:, step])
        assert_close(looked, weights[:, step])


def test_a_new_model_may_generate_before_it_is_called():
    model = kb.RNNSearch(SOURCES, TARGETS, embedding_dim=5, units=7)
    assert tuple(model.generate(SOURCE_IDS, max_length=4).token_ids.shape) == (2, 4)
    assert tuple(model([SOURCE_IDS, TARGET_IDS]).shape) == (2, 5, TARGETS)


def test_a_seed_gives_each_dropout_another_pattern():
    model = make("rnnsearch", seed=1, dropout=0.5)
    ones = ops.ones((3, 5, 7))
    masks = [
        numbers(layer(ones, training=True))
        for layer in (model.input_dropout, model.memory_dropout)
    ]
    assert (masks[0] != masks[1]).any()


def test_ids_are_not_rounded_in_half_precision():
    model = kb.RNNSearch(
        3001, TARGETS, embedding_dim=5, units=7, dtype="mixed_bfloat16", dropout=0.0
    )
    model.build()
    ids = np.array([[2999, 301, 3]])
    logits = model([ids.astype("float32"), TARGET_IDS[:1]])
    assert_close(logits, model([ids, TARGET_IDS[:1]]))
    other = model([np.array([[2992, 300, 3]]), TARGET_IDS[:1]])
    assert np.abs(numbers(other) - numbers(logits)).max() > 0


@pytest.mark.tf_only
def test_an_exported_model_takes_ids_of_any_number_and_length(tmp_path):
    import tensorflow as tf

    model = make("rnnsearch")
    model.export(str(tmp_path / "exported"), verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    for rows in (2, 1):
        ids = {
            "source_ids": tf.constant(SOURCE_IDS[:rows], tf.int32),
            "target_ids": tf.constant(TARGET_IDS[:rows, : rows + 2], tf.int32),
        }
        assert_close(exported.serve(ids), model(ids))


@each_model
def test_several_hypotheses_share_one_memory(name):
    model, beams = make(name), 17
    memory, states = model.encode(SOURCE_IDS)
    rng = np.random.default_rng(3)
    token_ids = rng.integers(4, TARGETS, size=(2, beams))
    states = [ops.convert_to_tensor(rng.normal(size=(2, beams, 7)).astype("float32"))]
    logits, new_states, weights = model.decode_step(token_ids, states, memory)
    for k in range(beams):
        alone = model.decode_step(token_ids[:, k], [states[0][:, k]], memory)
        assert_close(logits[:, k], alone[0])
        assert_close(new_states[0][:, k], alone[1][0])
        assert_close(weights[:, k], alone[2])


@each_model
def test_what_is_generated_is_the_most_likely_word_at_each_step(name):
    model = make(name)
    result = model.generate(SOURCE_IDS, max_length=6)
    token_ids, lengths = numbers(result.token_ids), numbers(result.lengths)
    given = np.pad(token_ids[:, :-1], ((0, 0), (1, 0)), constant_values=START)
    log_probs = log_probabilities(model, SOURCE_IDS, given)
    for row in range(2):
        real = range(int(lengths[row]))
        allowed = log_probs[row].copy()
        allowed[:, [0, START]] = -np.inf
        assert [int(token_ids[row, t]) for t in real] == [
            allowed[t].argmax() for t in real
        ]
        score = sum(log_probs[row, t, int(token_ids[row, t])] for t in real)
        np.testing.assert_allclose(numbers(result.scores)[row], score, atol=1e-4)
    weights = numbers(model.align(SOURCE_IDS, given))
    found = numbers(result.attention_weights)
    for row in range(2):
        real = int(lengths[row])
        np.testing.assert_allclose(found[row, :real], weights[row, :real], atol=1e-5)


@each_model
def test_what_a_beam_finds_is_scored_as_forced_decoding_scores_it(name):
    model = make(name)
    found = model.beam_search(
        SOURCE_IDS, 4, 6, num_results=3, length_penalty="gnmt", coverage_penalty=0.1
    )
    assert (numbers(found.scores)[:, :-1] >= numbers(found.scores)[:, 1:]).all()
    for place in range(3):
        labels = found.token_ids[:, place]
        forced = model.score(SOURCE_IDS, labels)
        assert_close(forced.log_probs, found.log_probs[:, place])
        assert_close(forced.attention_weights, found.attention_weights[:, place])
        assert (
            numbers(forced.lengths).tolist()
            == numbers(found.lengths[:, place]).tolist()
        )


@each_model
def test_one_beam_is_greedy(name):
    model = make(name)
    beam = model.beam_search(SOURCE_IDS, 1, max_length=6)
    for one, other in zip(beam, model.generate(SOURCE_IDS, max_length=6)):
        assert_close(one[:, 0], other)


@pytest.mark.parametrize("name", ["rnnsearch", "rnnencdec"])
def test_without_sentences_there_are_results_without_rows(name):
    model, none = make(name), np.zeros((0, 5), "int32")
    looked = 5 if name == "rnnsearch" else 1
    assert tuple(model([none, none]).shape) == (0, 5, TARGETS)
    for found in (model.generate(none, max_length=4), model.sample(none, max_length=4)):
        assert tuple(found.token_ids.shape) == (0, 4)
        assert tuple(found.attention_weights.shape) == (0, 4, looked)
    found = model.beam_search(none, num_beams=3, num_results=2, max_length=4)
    assert tuple(found.token_ids.shape) == (0, 2, 4)
    assert tuple(found.scores.shape) == (0, 2)
    assert tuple(model.score(none, none).log_probs.shape) == (0, 5)


def test_scores_of_given_labels_are_their_log_probabilities():
    model = make("rnnsearch")
    scored = model.score(SOURCE_IDS, LABELS)
    log_probs = log_probabilities(model, SOURCE_IDS, TARGET_IDS)
    for row, labels in enumerate(LABELS):
        real = [(t, label) for t, label in enumerate(labels) if label]
        expected = [log_probs[row, t, label] for t, label in real]
        found = numbers(scored.log_probs)[row]
        np.testing.assert_allclose(found[: len(real)], expected, atol=1e-5)
        assert not found[len(real) :].any()
        np.testing.assert_allclose(
            numbers(scored.scores)[row], sum(expected), atol=1e-5
        )
    weights = numbers(model.align(SOURCE_IDS, TARGET_IDS))
    weights = np.where((LABELS > 0)[:, :, None], weights, 0)
    np.testing.assert_allclose(numbers(scored.attention_weights), weights, atol=1e-6)


@each_model
def test_padding_and_the_rest_of_the_batch_change_nothing(name):
    model = make(name)
    expected = model([SOURCE_IDS, TARGET_IDS])
    padded = model([np.pad(SOURCE_IDS, ((0, 0), (0, 4))), TARGET_IDS])
    assert_close(padded, expected)
    alone = model([SOURCE_IDS[:1, :4], TARGET_IDS[:1, :3]])
    assert_close(alone[0], expected[0, :3])
    result = model.generate(SOURCE_IDS, max_length=6)
    one = model.generate(SOURCE_IDS[:1, :4], max_length=6)
    assert numbers(one.token_ids)[0].tolist() == numbers(result.token_ids)[0].tolist()


def test_the_baseline_sees_one_vector():
    """Whatever the encoder read, the same last state gives the same translation."""
    model = make("rnnencdec")
    memory, _ = model.encode(SOURCE_IDS)
    assert tuple(memory["values"].shape) == (2, 1, 7)
    assert_close(model.align(SOURCE_IDS, TARGET_IDS), np.ones((2, 5, 1)))
    embedded = model.source_embedding(SOURCE_IDS)
    _, state = model.encoder(embedded, mask=SOURCE_IDS > 0)
    assert_close(memory["values"][:, 0], state)


def test_the_loss_is_the_mean_over_real_tokens():
    model = make("rnnsearch", dropout=0.0)
    model.compile(**kb.modern_recipe(label_smoothing=0.0))
    found = model.evaluate(
        [SOURCE_IDS, TARGET_IDS], LABELS, verbose=0, return_dict=True
    )
    log_probs = log_probabilities(model, SOURCE_IDS, TARGET_IDS)
    real = LABELS > 0
    chosen = np.take_along_axis(log_probs, LABELS[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(found["loss"], -chosen[real].mean(), rtol=1e-5)
    np.testing.assert_allclose(found["perplexity"], np.exp(found["loss"]), rtol=1e-4)
    hits = (log_probs.argmax(-1) == LABELS)[real].mean()
    np.testing.assert_allclose(found["token_accuracy"], hits, rtol=1e-5)
    again = make("rnnsearch", dropout=0.0)
    again.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    plain = again.evaluate([SOURCE_IDS, TARGET_IDS], LABELS, verbose=0)
    np.testing.assert_allclose(plain, found["loss"], rtol=1e-5)


def batches(kind):
    arrays = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}
    if kind == "arrays":
        return {"x": arrays, "y": LABELS}
    if kind == "py_dataset":
        lengths = [(ids > 0).sum(axis=1) for ids in (SOURCE_IDS, LABELS)]
        pairs = EncodedPairs(
            SOURCE_IDS[SOURCE_IDS > 0], lengths[0], LABELS[LABELS > 0], lengths[1]
        )
        return {"x": BatchSequence(pairs, batch_size=2, bucketing=None)}
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices((arrays, LABELS)).batch(2)
    return {"x": dataset, "shuffle": False}


@pytest.mark.parametrize("kind", ["arrays", "py_dataset", "dataset"])
def test_it_learns_two_sentences_by_heart(kind):
    model = kb.RNNSearch(SOURCES, TARGETS, embedding_dim=17, units=19, dropout=0.0)
    model.compile(**kb.modern_recipe(learning_rate=0.03, label_smoothing=0.0))
    model.fit(**batches(kind), epochs=40, verbose=0)
    result = model.generate(SOURCE_IDS, max_length=5)
    assert numbers(result.token_ids).tolist() == LABELS.tolist()


def test_the_papers_preset_has_the_papers_settings():
    model = kb.RNNSearch.paper(31, 37)
    assert (model.embedding_dim, model.units, model.attention_units) == (
        620,
        1000,
        1000,
    )
    assert model.readout_units == 500
    assert model.step_order == "look_generate_update"
    model.build()
    cell = model.decoder.cell
    attention = cell.attention
    recurrent = numbers(cell.recurrent_kernel)
    for block in np.split(recurrent, 3, axis=1):
        np.testing.assert_allclose(block @ block.T, np.eye(1000), atol=1e-4)
    assert not numbers(attention.score_kernel).any()
    for kernel, deviation in (
        (attention.query_kernel, 0.001),
        (attention.key_kernel, 0.001),
        (cell.kernel, 0.01),
        (cell.context_kernel, 0.01),
        (model.source_embedding.embeddings, 0.01),
        (model.readout.state_kernel, 0.01),
        (model.readout.output_kernel, 0.01),
    ):
        np.testing.assert_allclose(numbers(kernel).std(), deviation, rtol=0.05)
    directions = [
        w for w in model.encoder.weights if w.path.endswith("recurrent_kernel")
    ]
    assert len(directions) == 2
    assert np.abs(numbers(directions[0]) - numbers(directions[1])).max() > 0.01
    optimizer = model.optimizer
    assert isinstance(optimizer, keras.optimizers.Adadelta)
    assert float(optimizer.learning_rate) == 1.0
    assert (optimizer.rho, optimizer.epsilon) == (0.95, 1e-6)
    assert optimizer.global_clipnorm == 1.0 and optimizer.clipnorm is None
    assert model.loss.label_smoothing == 0.0
    assert model.loss.average_over == "sequences"


@pytest.mark.parametrize("model_class", [kb.RNNSearch, kb.RNNEncoderDecoder])
def test_a_smaller_paper_model_trains_and_reloads(model_class, tmp_path):
    model = model_class.paper(SOURCES, TARGETS, units=7, embedding_dim=5)
    x = [SOURCE_IDS, TARGET_IDS]
    losses = model.fit(x, LABELS, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(reloaded(x), model(x))
    assert reloaded.optimizer.epsilon == 1e-6
    reloaded.fit(x, LABELS, verbose=0)


def test_blocks_are_orthogonal_seeded_and_square():
    first, again = (kb.BlockOrthogonal(seed=3)((5, 15)) for _ in range(2))
    assert_close(first, again)
    blocks = np.split(numbers(first), 3, axis=1)
    for block in blocks:
        np.testing.assert_allclose(block @ block.T, np.eye(5), atol=1e-5)
    assert np.abs(blocks[0] - blocks[1]).max() > 0.1
    with pytest.raises(ValueError, match="square blocks"):
        kb.BlockOrthogonal()((5, 7))


@pytest.mark.parametrize(
    "model_class, options, message",
    [
        (kb.RNNSearch, {"tie_embeddings": True, "readout_units": 3}, "as wide as"),
        (kb.RNNEncoderDecoder, {"bridge": "backward"}, "no backward state"),
        (kb.RNNEncoderDecoder, {"num_encoder_layers": 2}, "bidirectional=True"),
    ],
)
def test_wrong_arguments_are_refused(model_class, options, message):
    with pytest.raises(ValueError, match=message):
        model_class(SOURCES, TARGETS, embedding_dim=5, units=7, **options)


def test_wrong_inputs_are_refused():
    with pytest.raises(ValueError, match="The inputs must be"):
        make("rnnsearch")({"source": SOURCE_IDS})
