"""BiLSTM against BiGRU: parameters, and accuracy by number of epochs.

python examples/bidirectional/cells.py
"""

import keras
from data import grammar_sentences
from studies import (
    draw_epochs,
    parse_arguments,
    percent,
    print_table,
    tagger,
    tagging_accuracy,
    train,
)

CELLS = {"BiGRU": keras.layers.GRU, "BiLSTM": keras.layers.LSTM}


def recurrent(cell, units):
    options = {"reset_after": False} if cell == "BiGRU" else {}
    layer = CELLS[cell](units, return_sequences=True, **options)
    return keras.layers.Bidirectional(layer)


def count(cell, units, inputs):
    """Parameters of both directions; each block sees input, state and a bias."""
    blocks = {"BiGRU": 3, "BiLSTM": 4}[cell]
    return 2 * blocks * units * (inputs + units + 1)


def units_for(cell, parameters, inputs):
    """The units with which a cell comes closest to a number of parameters."""
    return min(
        range(1, parameters),
        key=lambda units: abs(count(cell, units, inputs) - parameters),
    )


def main(arguments=None):
    args = parse_arguments(
        __doc__, arguments, examples=1024, tests=512, embedding=24, units=24, epochs=6
    )
    tags, training, test = grammar_sentences(args.examples, args.tests, args.seed)
    parameters = count("BiGRU", args.units, args.embedding)
    smaller = units_for("BiLSTM", parameters, args.embedding)
    rows, curves = [], {}
    for cell, units in (
        ("BiGRU", args.units),
        ("BiLSTM", args.units),
        ("BiLSTM", smaller),
    ):
        layer = recurrent(cell, units)
        model = tagger(tags, args.embedding, layer)
        accuracies = train(
            model,
            training.word_ids,
            training.tag_ids,
            args,
            weights=training.word_ids > 0,
            after_epoch=lambda model=model: tagging_accuracy(model, test),
        )
        if layer.count_params() != count(cell, units, args.embedding):
            raise SystemExit(f"{cell}: the count of its parameters is wrong.")
        curves[f"{cell}, {units} units"] = accuracies
        rows.append([cell, units, f"{layer.count_params():,}", *accuracies])
    print("Words tagged right after each epoch (test sentences of the grammar)")
    print_table(
        ["cell", "units", "parameters", *range(1, args.epochs + 1)],
        *[[*row[:3], *map(percent, row[3:])] for row in rows],
    )
    print(
        f"With as many units the BiLSTM has 4/3 of the parameters of the BiGRU; with "
        f"{smaller} units it has about as many."
    )
    draw_epochs(curves, "words tagged wrong, %", args, "cells.png")


if __name__ == "__main__":
    main()
