"""Where one way is not enough: labels that depend on the next symbol.

python examples/bidirectional/runs_of_ones.py
"""

import keras
import numpy as np
from data import KINDS, draw_runs, kinds_of_position
from studies import (
    COLORS,
    new_figure,
    parse_arguments,
    percent,
    predict,
    print_table,
    save,
    share,
    train,
)

from keras_bahdanau import BidirectionalGRUEncoder

GOES_ON = 0.7  # How often a 1 follows a 1.
INSIDE, LAST = KINDS.index("inside"), KINDS.index("last")


def make_model(args, two_ways):
    """From bits to the probabilities of the five kinds, at each position."""
    bits = keras.Input((None, 1))
    if two_ways:
        states, _ = BidirectionalGRUEncoder(args.units)(bits)
    else:
        states = keras.layers.GRU(args.units, reset_after=False, return_sequences=True)(
            bits
        )
    return keras.Model(bits, keras.layers.Dense(len(KINDS), "softmax")(states))


def errors_by_kind(found, kinds):
    """How often each kind occurs and how many of these are wrong."""
    wrong = found != kinds
    return [
        (int(np.sum(kinds == kind)), int(np.sum(wrong & (kinds == kind))))
        for kind in range(len(KINDS))
    ]


def draw(errors, args):
    figure = new_figure(7.0, 3.6)
    ax = figure.subplots()
    places = np.arange(len(KINDS))
    looks = {"one way": ("orange", "//", -0.2), "two ways": ("blue", "", 0.2)}
    for name, (color, hatch, shift) in looks.items():
        shares = [100 * wrong / max(count, 1) for count, wrong in errors[name]]
        bars = ax.bar(
            places + shift,
            shares,
            0.38,
            color=COLORS[color],
            edgecolor="black",
            hatch=hatch,
            label=name,
        )
        ax.bar_label(bars, fmt="%.0f", padding=2)
    ax.set_xticks(places, ["no run (0)", *KINDS[1:]])
    ax.set_xlabel("kind of position")
    ax.set_ylabel("errors, %")
    ax.set_ylim(0, 112)
    ax.legend(loc="upper left")
    save(figure, args, "runs_of_ones.png")


def main(arguments=None):
    args = parse_arguments(
        __doc__, arguments, examples=1024, tests=512, length=20, units=12, epochs=10
    )
    if args.length < 2:
        raise SystemExit("--length must be 2 or more: the last label is left out.")
    rng = np.random.default_rng(args.seed)
    parts = {}
    for part, count in (("train", args.examples), ("test", args.tests)):
        # What follows the last bit nobody is shown, so its label is left out.
        bits = draw_runs(rng, count, args.length + 1, GOES_ON)
        parts[part] = bits[:, :-1, None], kinds_of_position(bits)[:, :-1]
    inputs, kinds = parts["train"]
    known = np.ones(kinds.shape)
    known[:, -1] = 0.0
    bits, gold = parts["test"][0], parts["test"][1][:, :-1]
    errors, probabilities = {}, {}
    for name in ("one way", "two ways"):
        model = make_model(args, name == "two ways")
        train(model, inputs, kinds, args, weights=known)
        probabilities[name] = predict(model, bits)[:, :-1]
        errors[name] = errors_by_kind(np.argmax(probabilities[name], -1), gold)
    report(errors, probabilities, gold)
    draw(errors, args)


def report(errors, probabilities, gold):
    print("Errors by kind of position (test sequences)")
    print_table(
        ["kind", "positions", "one way", "two ways"],
        *[
            [name, one[0], one[1], two[1]]
            for name, one, two in zip(KINDS, errors["one way"], errors["two ways"])
        ],
    )
    wrong = sum(count for _, count in errors["one way"])
    at_ends = errors["one way"][LAST][1] + errors["one way"][KINDS.index("alone")][1]
    ends = errors["one way"][LAST][0] + errors["one way"][KINDS.index("alone")][0]
    print(
        f"One way: {at_ends} of its {wrong} errors are at the end of a run, and "
        f"{at_ends} of the {ends} ends of runs are wrong. "
        f"Two ways: {sum(count for _, count in errors['two ways'])} errors."
    )
    within = np.isin(gold, (INSIDE, LAST))
    if not within.any():
        return
    print(
        "At the second or a later 1 of a run, the one-way model gives 'inside' a "
        f"probability of {percent(np.mean(probabilities['one way'][within, INSIDE]))} "
        f"on average; {percent(share(gold == INSIDE, within))} of these runs go on."
    )


if __name__ == "__main__":
    main()
