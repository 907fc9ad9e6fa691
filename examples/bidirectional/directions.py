"""What each direction has seen: one input changes, and some states with it.

python examples/bidirectional/directions.py
"""

import keras
import numpy as np
from studies import new_figure, parse_arguments, print_table, save

from keras_bahdanau import BidirectionalGRUEncoder


def changes(encoder, inputs):
    """How far each half moves, `(2, S, S)`: changed position, position of the state."""
    found = []
    before = states(encoder, inputs)
    for position in range(inputs.shape[1]):
        changed = inputs.copy()
        changed[0, position] += 1.0
        moved = np.abs(states(encoder, changed) - before)
        found.append([half.max(axis=-1) for half in np.split(moved, 2, axis=-1)])
    return np.array(found).transpose(1, 0, 2)


def states(encoder, inputs):
    return keras.ops.convert_to_numpy(encoder(inputs)[0])[0]


def draw(moved, args):
    figure = new_figure(8.0, 4.2)
    axes = figure.subplots(1, 2, sharey=True)
    shown = np.ma.masked_equal(moved, 0.0)
    for ax, half, name in zip(axes, shown, ("forward", "backward")):
        image = ax.imshow(half, cmap="cividis", norm="log", vmin=1e-3, vmax=1.0)
        ax.set_title(f"{name} half")
        ax.set_xlabel("position of the state")
        ticks = range(0, args.length, 1 + args.length // 12)
        ax.set_xticks(ticks, [tick + 1 for tick in ticks])
        ax.set_yticks(ticks, [tick + 1 for tick in ticks])
    axes[0].set_ylabel("position of the changed input")
    bar = figure.colorbar(image, ax=axes, extend="min")
    bar.set_label("largest change of the half (white: none at all)")
    save(figure, args, "directions.png")


def main(arguments=None):
    args = parse_arguments(__doc__, arguments, length=9, units=16)
    encoder = BidirectionalGRUEncoder(args.units)
    inputs = np.random.default_rng(args.seed).normal(size=(1, args.length, 5))
    moved = changes(encoder, inputs.astype("float32"))
    print("The states that change (#) and that stay as they are (.)")
    print_table(
        ["changed input", "forward half", "backward half"],
        *[
            [
                position + 1,
                *("".join(".#"[int(one > 0)] for one in row) for row in rows),
            ]
            for position, rows in enumerate(moved.transpose(1, 0, 2))
        ],
    )
    position = np.arange(args.length)
    after = position[None, :] >= position[:, None]
    wrong = np.sum((moved > 0) != np.stack([after, after.T]))
    print(
        f"{moved.size - wrong} of {moved.size} halves as the definition says: forward "
        "from the changed input on, backward up to it."
    )
    draw(moved, args)


if __name__ == "__main__":
    main()
