"""What the studies share: the command line, the training, tables and pictures."""

import argparse
import importlib.util
import pathlib

import keras
import numpy as np

# Told apart by who does not see all colours, and in print (Okabe and Ito).
COLORS = {"blue": "#0072B2", "orange": "#E69F00", "green": "#009E73", "red": "#D55E00"}
BATCH = 64
HELP = {
    "examples": "sequences to train on",
    "tests": "sequences to measure on",
    "length": "positions of a sequence",
    "units": "size of the state of each direction",
    "embedding": "size of the vectors of the words",
    "epochs": "times through the sequences to train on",
    "sentence": "number of the test sentence to show",
}


def parse_arguments(description, arguments=None, **defaults):
    """The command line of a study.

    Args:
        description: The docstring of the program.
        arguments: List of strings; None for those that the program was called with.
        **defaults: The whole numbers that may be changed, all 1 or more. All studies
            have `--seed`, `--learning-rate` if they train, and `--output`.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in defaults.items():
        parser.add_argument(
            f"--{name}",
            type=positive,
            default=value,
            metavar="N",
            help=f"{HELP[name]} ({value})",
        )
    if "epochs" in defaults:
        parser.add_argument("--learning-rate", type=rate, default=0.01, metavar="R")
    parser.add_argument("--seed", type=seed, default=1, metavar="N")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("runs/bidirectional"),
        metavar="FOLDER",
        help="where the picture goes (runs/bidirectional)",
    )
    args = parser.parse_args(arguments)
    if args.output.exists() and not args.output.is_dir():
        parser.error(f"argument --output: is a file: {args.output}")
    if importlib.util.find_spec("matplotlib") is None:
        parser.error('the picture needs `pip install "keras-bahdanau[plots]"`')
    keras.utils.set_random_seed(args.seed)
    return args


def positive(text):
    """A whole number of 1 or more."""
    return _within(int(text), 1, float("inf"), "1 or more")


def seed(text):
    return _within(int(text), 0, 2**32, "0 or more, below 2**32")


def rate(text):
    return _within(float(text), 1e-9, 1, "more than 0, below 1")


def _within(value, least, below, rule):
    if not least <= value < below:
        raise argparse.ArgumentTypeError(f"must be {rule}, not {value}")
    return value


def train(model, inputs, labels, args, weights=None, after_epoch=None):
    """Trains a model that ends in a softmax.

    Args:
        model: Keras model.
        inputs, labels: Arrays, one row a sequence; labels are class numbers.
        args: From `parse_arguments`.
        weights: Weights of the labels, of their shape; None for 1.
        after_epoch: Function of nothing, called after each epoch.

    Returns:
        List of what `after_epoch` returned.
    """
    optimizer = keras.optimizers.Adam(args.learning_rate, global_clipnorm=1.0)
    model.compile(optimizer, loss="sparse_categorical_crossentropy")
    found = []
    for _ in range(args.epochs):
        model.fit(inputs, labels, BATCH, verbose=0, sample_weight=weights)
        if after_epoch is not None:
            found.append(after_epoch())
    return found


def predict(model, inputs):
    """What the model returns, as an array."""
    return model.predict(inputs, batch_size=len(inputs), verbose=0)


def classes(model, inputs):
    """The most probable class, at each position that the model has one for."""
    return np.argmax(predict(model, inputs), axis=-1)


def share(right, among=True):
    """The share of `right` where `among` is true; NaN where it is true nowhere."""
    among = np.broadcast_to(among, right.shape)
    return float(np.mean(right[among])) if among.any() else float("nan")


def tagger(tags, embedding, layer):
    """From word numbers to the probabilities of the tags, at each position.

    Args:
        tags: `data.Tags`.
        embedding: Size of the vectors of the words.
        layer: From vectors to states, or to states and something else.
    """
    word_ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(tags.num_words, embedding, mask_zero=True)
    states = layer(embedded(word_ids))
    if isinstance(states, (list, tuple)):
        states = states[0]
    output = keras.layers.Dense(tags.num_tags, "softmax")(states)
    return keras.Model(word_ids, output)


def tagging_accuracy(model, sentences):
    """The share of the words of `data.Tagged` that have their tag."""
    found = classes(model, sentences.word_ids)
    return share(found == sentences.tag_ids, sentences.word_ids > 0)


def percent(value):
    return f"{100 * value:.1f} %"


def print_table(header, *rows):
    """Prints rows in columns, the first to the left and the others to the right."""
    rows = [list(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:])]
        print("  ".join(cells).rstrip())


def new_figure(width, height):
    """An empty picture, its sides in inches; no window opens."""
    from matplotlib.figure import Figure

    return Figure((width, height), layout="constrained", dpi=150)


def save(figure, args, name):
    args.output.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.output / name)
    print(f"Drawn in {args.output / name}")


STYLES = (
    {"color": COLORS["blue"], "marker": "o", "linestyle": "-"},
    {"color": COLORS["orange"], "marker": "s", "linestyle": "--"},
    {"color": COLORS["green"], "marker": "^", "linestyle": "-."},
    {"color": COLORS["red"], "marker": "D", "linestyle": ":"},
    {"color": "black", "marker": "x", "linestyle": "-"},
)


def plot_epochs(ax, curves, label):
    """Errors in percent by epoch, from accuracies; the axis is linear up to 1 %."""
    for (name, accuracies), style in zip(curves.items(), STYLES):
        errors = [100 * (1 - accuracy) for accuracy in accuracies]
        ax.plot(range(1, len(errors) + 1), errors, label=name, **style)
    ax.set_yscale("symlog", linthresh=1)
    ticks = [0, 0.5, 1, 3, 10, 30, 100]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    ax.set_ylim(-0.1, 130)
    ax.set_xlabel("epochs")
    ax.set_ylabel(f"{label} (linear up to 1)")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(axis="y", alpha=0.3)
    # Above the axes, where it covers no curve.
    columns = -(-len(curves) // 2)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, fontsize=8)


def draw_epochs(curves, label, args, name):
    """A picture of `plot_epochs` alone."""
    figure = new_figure(6.5, 4.0)
    plot_epochs(figure.subplots(), curves, label)
    save(figure, args, name)
