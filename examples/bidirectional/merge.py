"""Concatenation against sum: what is lost when two directions share their places.

python examples/bidirectional/merge.py
"""

import keras
import numpy as np
from data import draw_symbols, neighbours
from studies import (
    COLORS,
    classes,
    new_figure,
    parse_arguments,
    percent,
    print_table,
    save,
    share,
    train,
)

SIZE = 5  # Symbols; the class is a pair of them, left neighbour and right one.
MEASURES = ("left", "right", "both", "exchanged")


def make_model(units, merge_mode):
    symbols = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(SIZE, 8)(symbols)
    gru = keras.layers.GRU(units, reset_after=False, return_sequences=True)
    states = keras.layers.Bidirectional(gru, merge_mode=merge_mode, name="both_ways")(
        embedded
    )
    return keras.Model(symbols, classifier()(states))


def classifier():
    return keras.layers.Dense(SIZE**2, "softmax")


def with_summed_states(model):
    """The same states, summed, and a classifier that has learned nothing yet."""
    model.trainable = False
    forward, backward = keras.ops.split(model.get_layer("both_ways").output, 2, -1)
    return keras.Model(model.input, classifier()(forward + backward))


def measure(found, gold):
    """Shares of the positions: left right, right right, both, and both exchanged."""
    (left, right), (found_left, found_right) = (divmod(x, SIZE) for x in (gold, found))
    return [
        share(found_left == left),
        share(found_right == right),
        share(found == gold),
        share((found_left == right) & (found_right == left), left != right),
    ]


def draw(rows, args):
    figure = new_figure(7.5, 3.8)
    ax = figure.subplots()
    places = np.arange(len(rows))
    looks = zip(MEASURES[:3], ("blue", "orange", "green"), ("", "//", ".."))
    for index, (name, color, hatch) in enumerate(looks):
        bars = ax.bar(
            places + 0.26 * (index - 1),
            [100 * measures[index] for _, _, measures in rows.values()],
            0.25,
            color=COLORS[color],
            edgecolor="black",
            hatch=hatch,
            label="both" if name == "both" else f"{name} neighbour",
        )
        ax.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
    guessed = "one neighbour, guessed"
    ax.axhline(100 / SIZE, color="black", linestyle=":", label=guessed)
    ax.set_xticks(places, [name.replace(", ", ",\n") for name in rows])
    ax.set_ylabel("positions right, %")
    ax.set_ylim(0, 135)
    ax.set_yticks(range(0, 101, 20))
    ax.legend(loc="upper center", ncols=2, frameon=False)
    save(figure, args, "merge.png")


def main(arguments=None):
    args = parse_arguments(
        __doc__, arguments, examples=1024, tests=512, length=12, units=6, epochs=12
    )
    rng = np.random.default_rng(args.seed)
    parts = []
    for count in (args.examples, args.tests):
        symbols = draw_symbols(rng, count, args.length, SIZE)
        left, right = neighbours(symbols)
        parts.append((symbols, SIZE * left + right))
    (inputs, labels), (tests, gold) = parts
    rows = {}

    def add(name, model, width):
        train(model, inputs, labels, args)
        rows[name] = width, model.count_params(), measure(classes(model, tests), gold)
        return model

    units = args.units
    concatenated = add("concat", make_model(units, "concat"), 2 * units)
    add("concat, summed later", with_summed_states(concatenated), units)
    add("sum", make_model(units, "sum"), units)
    add("sum, twice the units", make_model(2 * units, "sum"), 2 * units)
    print("Which symbols are to the left and to the right? Positions right (test)")
    print_table(
        ["merge", "width", "parameters", *MEASURES],
        *[
            [name, width, f"{parameters:,}", *map(percent, measures)]
            for name, (width, parameters, measures) in rows.items()
        ],
    )
    both = {name: measures[2] for name, (_, _, measures) in rows.items()}
    print(
        f"Both right: {percent(both['concat'])} with the concatenation, "
        f"{percent(both['sum'])} with the sum of as many units, "
        f"{percent(both['concat, summed later'])} when the states of the "
        "concatenation are summed after the training."
    )
    draw(rows, args)


if __name__ == "__main__":
    main()
