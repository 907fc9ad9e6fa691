"""The configurations that the contract is checked over, one `Case` each."""

import dataclasses

import keras
from contract import Case, Spec

import keras_bahdanau as kb

# Features of what goes in, and sizes of what comes out: distinct primes, none of
# them a size of contract.SIZES. D memory, M inputs of the decoder, U, A, E encoder.
D, M, U, A, E, V = 11, 19, 13, 17, 23, 29


def in_list(layer, tensors, **options):
    return layer(list(tensors.values()), **options)


def build_list(layer, shapes):
    layer.build(list(shapes.values()))


def with_scores(layer, tensors):
    return in_list(layer, tensors, return_attention_scores=True)


GLOROT = keras.initializers.RandomUniform(-0.1, 0.1)
L2 = keras.regularizers.L2(0.01)
MAX_NORM = keras.constraints.MaxNorm(2.0)


def attention_case(name, weights, query=("T", U), key=None, **options):
    """An attention of 17 units over a memory of 11 features, query 13."""
    thorough = options.pop("thorough", False)
    inputs = {
        "query": Spec(query, masked=query[0] == "T"),
        "value": Spec(("S", D), masked=True),
    }
    if key:
        inputs["key"] = Spec(("S", key))
    return Case(
        f"BahdanauAttention-{name}",
        lambda: kb.BahdanauAttention(A, **options),
        inputs,
        outputs=((*query[:-1], D), (*query[:-1], "S")),
        weights=weights,
        call=with_scores,
        build=build_list,
        masks=("query" if query[0] == "T" else None, None),
        thorough=thorough,
    )


ATTENTIONS = [
    attention_case("default", A * (U + D + 1), thorough=True),
    attention_case("one_query", A * (U + D + 1), query=(U,)),
    attention_case("key", A * (U + M + 1), key=M),
    dataclasses.replace(
        attention_case("grid", A * (U + D + 1)),
        inputs={"query": Spec(("T", U), masked=True), "value": Spec(("S", 2, D))},
        outputs=(("T", D), ("T", "S", 2)),
    ),
    attention_case("bias", A * (U + D + 2), use_bias=True),
    attention_case("weight_norm", A * (U + D + 1) + 1, weight_norm=True),
    attention_case(
        "all_options",
        A * (U + D + 2) + 1,
        use_bias=True,
        weight_norm=True,
        dropout=0.3,
        query_initializer=GLOROT,
        score_regularizer=L2,
        key_constraint=MAX_NORM,
        seed=7,
    ),
]


def encoder_case(name, weights, state=None, **options):
    thorough = options.pop("thorough", False)
    inputs = {"sequences": Spec(("S", D), masked=True)}
    if state:
        inputs["initial_state"] = Spec((state,))
    return Case(
        f"BidirectionalGRUEncoder-{name}",
        lambda: kb.BidirectionalGRUEncoder(U, **options),
        inputs,
        outputs=(("S", 2 * U), (2 * U,)),
        weights=weights,
        masks=("sequences", None),
        thorough=thorough,
    )


def gru(features, units=U, biases=1):
    return 3 * units * (features + units + biases)


ENCODERS = [
    encoder_case("default", 2 * gru(D), thorough=True),
    encoder_case("initial_state", 2 * gru(D), state=2 * U),
    encoder_case("reset_after", 2 * gru(D, biases=2), reset_after=True),
    encoder_case("no_bias", 2 * gru(D, biases=0), use_bias=False),
    encoder_case(
        "stacked",
        2 * gru(D) + 2 * gru(2 * U),
        num_layers=2,
        residual=True,
        dropout=0.2,
        recurrent_dropout=0.1,
        recurrent_initializer=GLOROT,
        kernel_regularizer=L2,
        recurrent_constraint=MAX_NORM,
        seed=7,
    ),
]


def bridge_case(name, weights, **options):
    return Case(
        f"StateBridge-{name}",
        lambda: kb.StateBridge(U, **options),
        {"memory": Spec(("S", 2 * E), masked=True), "state": Spec((2 * E,))},
        outputs=((U,),),
        weights=weights,
        call=in_list,
        build=build_list,
        trains=weights > 0,
        thorough=name == "mean",
    )


BRIDGES = [
    bridge_case("backward", U * (E + 1)),
    bridge_case("mean", U * (2 * E + 1), mode="mean", kernel_regularizer=L2),
    bridge_case("last", U * 2 * E, mode="last", use_bias=False, activation="relu"),
    bridge_case("zero", 0, mode="zero"),
]


def readout_case(name, weights, tied=False, **options):
    def make():
        embedding = keras.layers.ReversibleEmbedding(V, E) if tied else None
        return kb.MaxoutReadout(V, E, embedding=embedding, **options)

    return Case(
        f"MaxoutReadout-{name}",
        make,
        {
            "state": Spec(("T", U), masked=True),
            "embedded": Spec(("T", M)),
            "context": Spec(("T", D)),
        },
        outputs=(("T", V),),
        weights=weights,
        call=in_list,
        build=build_list,
        masks=("state",),
        thorough=name == "default",
    )


READOUTS = [
    Case(
        "Maxout",
        lambda: kb.Maxout(pool_size=3),
        {"x": Spec(("T", 3 * D), masked=True)},
        outputs=(("T", D),),
        weights=0,
        masks=("x",),
        trains=False,
    ),
    readout_case("default", 2 * E * (U + M + D + 1) + V * (E + 1)),
    readout_case("tied", 2 * E * (U + M + D + 1) + V * (E + 1), tied=True),
    readout_case(
        "pool_3",
        3 * E * (U + M + D) + V * E,
        pool_size=3,
        use_bias=False,
        dropout=0.3,
        output_initializer=GLOROT,
        output_regularizer=L2,
        kernel_constraint=MAX_NORM,
        seed=7,
    ),
]


def cell(**options):
    attention_options = options.pop("attention", {})
    attention = kb.BahdanauAttention(A, **attention_options)
    return kb.AttentiveGRUDecoderCell(U, attention, **options)


# Cell and attention: W and U and b, C, then W_a, U_a, v_a.
CELL = gru(M) + 3 * U * D + A * (U + D + 1)
DECODER_INPUTS = {
    "sequences": Spec(("T", M), masked=True),
    "memory": Spec(("S", D), masked=True),
    "state": Spec((U,)),
}


def decode(layer, tensors):
    return layer(
        tensors["sequences"], tensors["memory"], initial_state=tensors.get("state")
    )


def decoder_case(name, outputs, masks, weights=CELL, inputs=None, **options):
    cell_options = options.pop("cell", {})
    thorough = options.pop("thorough", False)
    return Case(
        f"AttentiveRNN-{name}",
        lambda: kb.AttentiveRNN(cell(**cell_options), **options),
        inputs or DECODER_INPUTS,
        outputs=outputs,
        weights=weights,
        call=decode,
        masks=masks,
        thorough=thorough,
    )


ALL_OUTPUTS = {
    "return_sequences": True,
    "return_contexts": True,
    "return_attention_scores": True,
    "return_state": True,
}
DECODERS = [
    decoder_case("last", ((U,),), (None,)),
    decoder_case("sequences", (("T", U),), ("sequences",), return_sequences=True),
    decoder_case(
        "no_state",
        (("T", U),),
        ("sequences",),
        inputs={name: DECODER_INPUTS[name] for name in ("sequences", "memory")},
        return_sequences=True,
    ),
    decoder_case(
        "all_outputs",
        (("T", U), ("T", D), ("T", "S"), (U,)),
        ("sequences", "sequences", "sequences", None),
        thorough=True,
        **ALL_OUTPUTS,
    ),
    decoder_case(
        "reset_after",
        (("T", U),),
        ("sequences",),
        CELL + 3 * U,
        return_sequences=True,
        cell={"reset_after": True},
    ),
    decoder_case(
        "look_generate_update",
        (("T", U),),
        ("sequences",),
        return_sequences=True,
        zero_output_for_mask=True,
        cell={"step_order": "look_generate_update"},
    ),
    decoder_case(
        "all_cell_options",
        (("T", U + D),),
        ("sequences",),
        CELL - 3 * U + A + 1,
        return_sequences=True,
        cell={
            "use_bias": False,
            "output_context": True,
            "dropout": 0.2,
            "recurrent_dropout": 0.1,
            "context_initializer": GLOROT,
            "context_regularizer": L2,
            "recurrent_constraint": MAX_NORM,
            "seed": 7,
            "attention": {"use_bias": True, "weight_norm": True, "dropout": 0.3},
        },
    ),
]


def decode_by_plain_rnn(layer, tensors):
    states = kb.MemoryStates(layer.cell.attention)
    return layer(
        tensors["sequences"],
        initial_state=states([tensors["state"], tensors["memory"]]),
    )


def build_plain_rnn(layer, shapes):
    layer.cell.attention.build([shapes["state"], shapes["memory"]])
    layer.build(shapes["sequences"])


def plain_rnn_case(name, outputs, weights=CELL, masked=False, **options):
    """The cell in `keras.layers.RNN`; a mask on the sequence would be dropped."""
    thorough = options.pop("thorough", False)
    return Case(
        f"keras.RNN-{name}",
        lambda: keras.layers.RNN(cell(**options), return_sequences=True),
        {**DECODER_INPUTS, "sequences": Spec(("T", M))},
        outputs=outputs,
        weights=weights,
        call=decode_by_plain_rnn,
        build=build_plain_rnn,
        thorough=thorough,
    )


PLAIN_RNNS = [
    plain_rnn_case("default", (("T", U),), thorough=True),
    plain_rnn_case("reset_after", (("T", U),), CELL + 3 * U, reset_after=True),
    plain_rnn_case(
        "all_options",
        (("T", U + D),),
        step_order="look_generate_update",
        output_context=True,
        context_dim=D,
        dropout=0.2,
        recurrent_dropout=0.1,
        seed=7,
    ),
    Case(
        "keras.RNN-fixed_context",
        lambda: keras.layers.RNN(kb.AttentiveGRUDecoderCell(U, kb.FixedContext())),
        {
            "sequences": Spec(("T", M)),
            "memory": Spec((1, D)),
            "state": Spec((U,)),
        },
        outputs=((U,),),
        weights=gru(M) + 3 * U * D,
        call=decode_by_plain_rnn,
        build=build_plain_rnn,
    ),
    Case(
        "MemoryStates",
        lambda: kb.MemoryStates(kb.BahdanauAttention(A)),
        {"state": Spec((U,)), "memory": Spec(("S", D), masked=True)},
        outputs=((U,), ("S", D), ("S", A), ("S",)),
        weights=A * (U + D + 1),
        call=in_list,
        build=build_list,
        masks=(None, "memory", None, None),
        trains=False,
    ),
]

FIXED = Case(
    "FixedContext",
    lambda: kb.FixedContext(),
    {"query": Spec(("T", U), masked=True), "value": Spec((1, D))},
    outputs=(("T", D),),
    weights=0,
    call=in_list,
    build=build_list,
    masks=("query",),
    trains=False,
)

SOURCE_V, TARGET_V = 31, 37
EMBEDDINGS = (SOURCE_V + TARGET_V) * M


def readout_weights(context, units=E):
    return 2 * units * (U + M + context + 1) + TARGET_V * (units + 1)


def model_case(name, model_class, weights, **options):
    thorough = options.pop("thorough", False)
    settings = {"embedding_dim": M, "units": U, "readout_units": E, **options}
    return Case(
        name,
        lambda: model_class(SOURCE_V, TARGET_V, **settings),
        {
            "source_ids": Spec(("S",), below=SOURCE_V, masked=True),
            "target_ids": Spec(("T",), below=TARGET_V, masked=True),
        },
        outputs=(("T", TARGET_V),),
        weights=weights,
        call=lambda layer, tensors: layer(tensors),
        build=lambda layer, shapes: layer.build(shapes),
        masks=("target_ids",),
        thorough=thorough,
    )


def ensemble(source_size, target_size, units, **settings):
    """Two models of different sizes as one."""
    return kb.RNNEnsemble(
        kb.RNNSearch(
            source_size, target_size, units=size, attention_units=A, **settings
        )
        for size in (units, units + 2)
    )


def search_weights(units):
    """The number of weights of such an `RNNSearch`."""
    parts = [
        EMBEDDINGS,
        3 * gru(M, units),
        units * (units + 1),
        3 * units * 2 * units,
        A * (units + 2 * units + 1),
        2 * E * (units + M + 2 * units + 1) + TARGET_V * (E + 1),
    ]
    return sum(parts)


MODELS = [
    model_case(
        "RNNSearch",
        kb.RNNSearch,
        EMBEDDINGS
        + 2 * gru(M)
        + U * (U + 1)
        + gru(M)
        + 3 * U * 2 * U
        + A * (U + 2 * U + 1)
        + readout_weights(2 * U),
        attention_units=A,
        thorough=True,
    ),
    model_case(
        "RNNSearch-all_options",
        kb.RNNSearch,
        EMBEDDINGS
        + 2 * gru(M)
        + 2 * gru(2 * U)
        + U * (2 * U + 1)
        + gru(M)
        + 3 * U * 2 * U
        + U * (U + 2 * U + 1)
        # The embedding is the output matrix; its bias is left.
        + 2 * M * (U + M + 2 * U + 1)
        + TARGET_V,
        readout_units=None,
        num_encoder_layers=2,
        bridge="mean",
        step_order="look_generate_update",
        tie_embeddings=True,
        dropout=0.2,
        recurrent_dropout=0.1,
        kernel_initializer=GLOROT,
        recurrent_initializer=kb.BlockOrthogonal(),
        attention_initializer=keras.initializers.RandomNormal(stddev=0.1),
        score_initializer="ones",
        seed=7,
    ),
    model_case(
        "RNNEncoderDecoder",
        kb.RNNEncoderDecoder,
        EMBEDDINGS + gru(M) + U * (U + 1) + gru(M) + 3 * U * U + readout_weights(U),
    ),
    model_case(
        "RNNEncoderDecoder-bidirectional",
        kb.RNNEncoderDecoder,
        EMBEDDINGS
        + 2 * gru(M)
        + U * (U + 1)
        + gru(M)
        + 3 * U * 2 * U
        + readout_weights(2 * U),
        bidirectional=True,
        bridge="backward",
    ),
    model_case(
        "RNNEnsemble", ensemble, search_weights(U) + search_weights(U + 2), dropout=0.2
    ),
]

FUSED_LOSS = Case(
    "FusedLossModel",
    lambda: kb.FusedLossModel(
        kb.RNNSearch(SOURCE_V, TARGET_V, embedding_dim=M, units=U, readout_units=E)
    ),
    {
        "source_ids": Spec(("S",), below=SOURCE_V, masked=True),
        "target_ids": Spec(("T",), below=TARGET_V, masked=True),
    },
    outputs=(("T", E),),
    weights=sum(
        (
            EMBEDDINGS,
            3 * gru(M),
            U * (U + 1),
            3 * U * 2 * U,
            U * (U + 2 * U + 1),
            readout_weights(2 * U),
        )
    ),
    call=lambda layer, tensors: layer(tensors),
    build=lambda layer, shapes: layer.build(shapes),
    trains=False,
)

OURS = [
    *ATTENTIONS,
    FIXED,
    FUSED_LOSS,
    *ENCODERS,
    *BRIDGES,
    *READOUTS,
    *DECODERS,
    *PLAIN_RNNS,
    *MODELS,
]
