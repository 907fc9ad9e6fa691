"""Two stacked BiGRUs: width, parameters, and what the second layer is good for.

python examples/bidirectional/stacked.py
"""

import keras
import numpy as np
from data import draw_runs, in_longest_run
from studies import (
    classes,
    draw_epochs,
    parse_arguments,
    percent,
    print_table,
    share,
    train,
)

from keras_bahdanau import BidirectionalGRUEncoder


def count(layers, units, inputs=1):
    """Parameters: from the second layer on, the inputs are both halves below."""
    first = 6 * units * (inputs + units + 1)
    return first + (layers - 1) * 6 * units * (2 * units + units + 1)


def wide_units(parameters):
    """The units with which one layer comes closest to a number of parameters."""
    return min(
        range(1, parameters), key=lambda units: abs(count(1, units) - parameters)
    )


def make_model(encoder):
    bits = keras.Input((None, 1))
    states, _ = encoder(bits)
    return keras.Model(bits, keras.layers.Dense(3, "softmax")(states))


def main(arguments=None):
    args = parse_arguments(
        __doc__, arguments, examples=1536, tests=512, length=20, units=12, epochs=10
    )
    rng = np.random.default_rng(args.seed)
    training, test = (
        draw_runs(rng, number, args.length, goes_on=0.6)
        for number in (args.examples, args.tests)
    )
    gold = in_longest_run(test)
    rows, curves = [], {}
    wide = wide_units(count(2, args.units))
    for layers, units in ((1, args.units), (1, wide), (2, args.units)):
        encoder = BidirectionalGRUEncoder(units, num_layers=layers)
        model = make_model(encoder)
        curve = train(
            model,
            training[..., None],
            in_longest_run(training),
            args,
            after_epoch=lambda model=model: share(
                classes(model, test[..., None]) == gold, test == 1
            ),
        )
        if encoder.count_params() != count(layers, units):
            raise SystemExit("The count of the parameters is wrong.")
        right = classes(model, test[..., None]) == gold
        rows.append(
            [
                f"{layers} x {units}",
                2 * units,
                f"{encoder.count_params():,}",
                percent(curve[-1]),
                percent(np.mean(right.all(axis=1))),
            ]
        )
        curves[f"{layers} layer{'s' * (layers > 1)} of {units} units"] = curve
    print("Is this 1 in one of the longest runs of its sequence? (test sequences)")
    print_table(
        ["layers x units", "width", "parameters", "1s right", "all right"], *rows
    )
    most = share(gold == 2, test == 1)
    print(f"Always the same answer: {percent(max(most, 1 - most))} of the 1s right.")
    draw_epochs(curves, "1s wrong, %", args, "stacked.png")


if __name__ == "__main__":
    main()
