"""The configurations of what tags words, for the contract of all layers."""

from cases import GLOROT, L2, MAX_NORM, SOURCE_V, TARGET_V, A, D, E, M, U, V, gru
from contract import Case, Spec

import keras_bahdanau as kb

N, C = 3, 41  # Tags; characters.


def crf_case(name, weights, features=D, **options):
    thorough = options.pop("thorough", False)
    return Case(
        f"CRF-{name}",
        lambda: kb.CRF(N, **options),
        {"inputs": Spec(("T", features), masked=True)},
        outputs=(("T",), ("T", N, N)),
        weights=weights,
        masks=("inputs", None),
        dtypes=("int32", "float32"),
        thorough=thorough,
    )


def characters_case(name, weights, **options):
    thorough = options.pop("thorough", False)
    return Case(
        f"CharacterEncoder-{name}",
        lambda: kb.CharacterEncoder(C, U - 1, embedding_dim=M, **options),
        # One word a row.
        {"character_ids": Spec(("S",), below=C, masked=True)},
        outputs=((2 * (U - 1),),),
        weights=C * M + weights,
        thorough=thorough,
    )


def tagger_case(name, weights, inputs, **options):
    """A tagger of 31 words; 41 characters and two features by option."""
    thorough = options.pop("thorough", False)
    auxiliary = options.get("num_frequencies")
    is_crf = options.get("output") == "crf"
    scores, dtype = (("T", N, N), "float32") if is_crf else (("T", N), None)
    settings = {"embedding_dim": M, "units": U, **options}
    return Case(
        f"SequenceTagger-{name}",
        lambda: kb.SequenceTagger(N, SOURCE_V, **settings),
        {"word_ids": Spec(("T",), below=SOURCE_V, masked=True), **inputs},
        # By the names of the outputs: frequencies, scores, tags.
        outputs=(*((("T", auxiliary),) if auxiliary else ()), scores, ("T",)),
        weights=SOURCE_V * M + weights,
        call=lambda layer, tensors: layer(tensors),
        build=lambda layer, shapes: layer.build(shapes),
        masks=(None, "word_ids")
        if is_crf
        else (*["word_ids"] * (1 + bool(auxiliary)), None),
        dtypes=(*((None,) if auxiliary else ()), dtype, "int32"),
        attributes={"output": "output_kind"},
        thorough=thorough,
    )


TAGGING = [
    crf_case("default", N * (D + 1) + N * N + 2 * N, thorough=True),
    crf_case(
        "no_projection",
        N * N,
        features=N,
        use_projection=False,
        use_boundaries=False,
        transition_initializer=GLOROT,
        transition_regularizer=L2,
    ),
    crf_case(
        "constrained",
        N * D + N * N + 2 * N,
        use_bias=False,
        allowed=(
            [True, True, False],
            [[True, True, False], [True, True, True], [True, False, True]],
            None,
        ),
        kernel_constraint=MAX_NORM,
    ),
    characters_case("gru", 2 * gru(M, U - 1), thorough=True, dropout=0.2, seed=7),
    characters_case("cnn", 2 * (U - 1) * (1 + 3 * M), kind="cnn", widths=[2, 4]),
    Case(
        "TokenDropout",
        lambda: kb.TokenDropout(0.3, seed=7),
        {"ids": Spec(("T",), below=C, masked=True)},
        outputs=(("T",),),
        weights=0,
        dtypes=("int32",),
        trains=False,
    ),
    tagger_case(
        "softmax",
        # Characters and features; scores and frequencies.
        C * E
        + 2 * gru(E, A)
        + (V + TARGET_V) * D
        + 2 * gru(M + 2 * A + 2 * D, biases=2)
        + (N + 5) * (2 * U + 1),
        {
            "character_ids": Spec(("T", "C"), below=C, masked=True),
            "feature_ids": Spec(("T", 2), below=V, masked=True),
        },
        character_vocabulary_size=C,
        character_embedding_dim=E,
        character_units=A,
        feature_sizes=[V, TARGET_V],
        feature_dim=D,
        num_frequencies=5,
        num_layers=1,
        seed=7,
        thorough=True,
    ),
    tagger_case(
        "one_way_crf",
        gru(M) + N * (U + 1) + N * N + 2 * N,
        {},
        num_layers=1,
        bidirectional=False,
        output="crf",
        allowed=(None, [[True, True, False], [True] * 3, [True] * 3], None),
        reset_after=False,
    ),
]
