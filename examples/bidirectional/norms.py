"""How large the state of each direction is, position by position, in a tagger.

python examples/bidirectional/norms.py
"""

import keras
import numpy as np
from data import grammar_sentences
from studies import (
    COLORS,
    classes,
    new_figure,
    parse_arguments,
    percent,
    predict,
    print_table,
    save,
    tagger,
    tagging_accuracy,
    train,
)

from keras_bahdanau import BidirectionalGRUEncoder

READ = 8  # Words read, at most, in the averages.
LOOKS = {"forward": ("blue", "o", "-"), "backward": ("red", "s", "--")}


def norms_of(states, units):
    """Euclidean norms of both halves: a dictionary of two arrays `(B, S)`."""
    halves = states[..., :units], states[..., units:]
    return {name: np.linalg.norm(half, axis=-1) for name, half in zip(LOOKS, halves)}


def by_words_read(norms, lengths):
    """The mean norm after 1, 2, … words, in the sentences that have as many."""
    means = {name: [] for name in norms}
    for read in range(1, min(READ, lengths.max()) + 1):
        rows = np.flatnonzero(lengths >= read)
        last = {"forward": read - 1, "backward": lengths[rows] - read}
        for name, values in norms.items():
            means[name].append(float(np.mean(values[rows, last[name]])))
    return means


def draw(words, norms, means, args):
    figure = new_figure(9.5, 3.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1), sharey=True)
    for name, (color, marker, line) in LOOKS.items():
        style = {"color": COLORS[color], "marker": marker, "linestyle": line}
        left.plot(norms[name], label=f"{name} half", **style)
        right.plot(range(1, len(means[name]) + 1), means[name], **style)
    left.set_xticks(range(len(words)), words, rotation=40, ha="right")
    left.set_ylabel("norm of the half")
    left.set_title("one test sentence", fontsize=10)
    left.set_ylim(bottom=0)
    left.legend(loc="best")
    right.set_title("mean of the test sentences", fontsize=10)
    right.set_xlabel("words that the half has read")
    save(figure, args, "norms.png")


def main(arguments=None):
    args = parse_arguments(
        __doc__,
        arguments,
        examples=1024,
        tests=512,
        embedding=24,
        units=24,
        epochs=5,
        sentence=1,
    )
    if args.sentence > args.tests:
        raise SystemExit(f"--sentence must be {args.tests} or less, as --tests is.")
    tags, training, test = grammar_sentences(args.examples, args.tests, args.seed)
    encoder = BidirectionalGRUEncoder(args.units)
    model = tagger(tags, args.embedding, encoder)
    weights = training.word_ids > 0
    train(model, training.word_ids, training.tag_ids, args, weights=weights)
    states = keras.Model(model.input, model.layers[-1].input)
    norms = norms_of(predict(states, test.word_ids), args.units)
    row = args.sentence - 1
    words = test.words[row]
    found = classes(model, test.word_ids)[row]
    shown = {name: values[row, : len(words)] for name, values in norms.items()}
    print(f"{percent(tagging_accuracy(model, test))} of the test words tagged right")
    print_table(
        ["word", "tag", "found", *LOOKS],
        *[
            [word, tag, tags.tags[found[i] - 1], *(f"{shown[x][i]:.3f}" for x in LOOKS)]
            for i, (word, tag) in enumerate(zip(words, test.tags[row]))
        ],
    )
    means = by_words_read(norms, (test.word_ids > 0).sum(axis=1))
    print("\nMean norm by the number of words that a half has read (test sentences)")
    print_table(
        ["words read", *range(1, len(means["forward"]) + 1)],
        *[[name, *(f"{value:.3f}" for value in means[name])] for name in means],
    )
    print(
        "After one word, and at most after more: "
        + "; ".join(
            f"{name} {values[0]:.2f}, {max(values[1:]):.2f}"
            for name, values in means.items()
        )
    )
    draw(words, shown, means, args)


if __name__ == "__main__":
    main()
