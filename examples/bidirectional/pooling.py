"""One class for a whole sequence, from its states: five ways of pooling.

python examples/bidirectional/pooling.py
"""

import keras
import numpy as np
from data import draw_marked
from keras import ops
from studies import (
    classes,
    new_figure,
    parse_arguments,
    percent,
    plot_epochs,
    predict,
    print_table,
    save,
    share,
    train,
)

from keras_bahdanau import BahdanauAttention, BidirectionalGRUEncoder

SIZE = 6  # Symbols besides the mark, and classes.
SHOWN = 8


def attend(states, units):
    """Attention with a learned query: that of a constant is a row of its kernel."""
    query = ops.ones_like(states[:, 0, :1])
    return BahdanauAttention(units, name="attention")(
        [query, states], return_attention_scores=True
    )


def make_model(pooling, args):
    """The model, and the one that gives the weights of the attention."""
    symbols = keras.Input((args.length,), dtype="int32")
    embedded = keras.layers.Embedding(SIZE + 1, 8)(symbols)
    states, ends = BidirectionalGRUEncoder(args.units)(embedded)
    weights = None
    if pooling == "last position":
        pooled = states[:, -1]
    elif pooling == "both ends":
        # Forward at the last position and backward at the first.
        pooled = ends
    elif pooling == "mean":
        pooled = ops.mean(states, axis=1)
    elif pooling == "max":
        pooled = ops.max(states, axis=1)
    else:
        pooled, weights = attend(states, args.units)
    output = keras.layers.Dense(SIZE, "softmax")(pooled)
    looking = None if weights is None else keras.Model(symbols, weights)
    return keras.Model(symbols, output), looking


def draw(curves, weights, symbols, places, args):
    figure = new_figure(9.5, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    plot_epochs(left, curves, "sequences wrong, %")
    image = right.imshow(weights, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    for row, (line, place) in enumerate(zip(symbols, places)):
        for column, symbol in enumerate(line):
            right.text(
                column,
                row,
                "!" if symbol == 0 else "abcdef"[symbol - 1],
                ha="center",
                va="center",
                fontsize=7,
                color="black" if weights[row, column] > 0.5 else "white",
                weight="bold" if column == place else "normal",
            )
    right.set_title("what attention pooling looks at", fontsize=10)
    right.set_xlabel("position")
    ticks = range(0, args.length, 1 + args.length // 12)
    right.set_xticks(ticks, [tick + 1 for tick in ticks])
    right.set_yticks([])
    right.set_ylabel("test sequences")
    figure.colorbar(image, ax=right).set_label("weight")
    save(figure, args, "pooling.png")


def main(arguments=None):
    args = parse_arguments(
        __doc__, arguments, examples=1024, tests=512, length=24, units=12, epochs=8
    )
    if args.length < 2:
        raise SystemExit("--length must be 2 or more: a mark and what is behind it.")
    rng = np.random.default_rng(args.seed)
    inputs, labels, _ = draw_marked(rng, args.examples, args.length, SIZE)
    tests, gold, places = draw_marked(rng, args.tests, args.length, SIZE)
    rows, curves = [], {}
    for pooling in ("last position", "both ends", "mean", "max", "attention"):
        model, looking = make_model(pooling, args)
        curves[pooling] = train(
            model,
            inputs,
            labels,
            args,
            after_epoch=lambda model=model: share(classes(model, tests) == gold),
        )
        rows.append(
            [pooling, f"{model.count_params():,}", *map(percent, curves[pooling])]
        )
    print("Which symbol is behind the mark? Sequences right after each epoch (test)")
    print_table(["pooling", "parameters", *range(1, args.epochs + 1)], *rows)
    weights = predict(looking, tests)
    near = np.abs(np.arange(args.length) - (places[:, None] - 0.5)) < 1
    print(
        "The attention's weight on the mark and the symbol behind it: "
        f"{percent(np.mean(np.sum(weights * near, axis=1)))} on average, "
        f"{percent(2 / args.length)} if it looked everywhere alike."
    )
    draw(curves, weights[:SHOWN], tests[:SHOWN], places[:SHOWN], args)


if __name__ == "__main__":
    main()
