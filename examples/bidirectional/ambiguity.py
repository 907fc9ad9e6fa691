"""Verb, noun or adjective: the words behind *lead* tell, those before it do not.

python examples/bidirectional/ambiguity.py
"""

import keras
import numpy as np
from data import BEGINNINGS, READINGS, SHOWN, Tags, lead_sentences, split_tags
from studies import (
    COLORS,
    classes,
    new_figure,
    parse_arguments,
    percent,
    predict,
    print_table,
    save,
    share,
    tagger,
    tagging_accuracy,
    train,
)

from keras_bahdanau import BidirectionalGRUEncoder

WAYS = ("one way", "two ways")


def make_model(way, tags, args):
    if way == "two ways":
        layer = BidirectionalGRUEncoder(args.units)
    else:
        layer = keras.layers.GRU(args.units, reset_after=False, return_sequences=True)
    return tagger(tags, args.embedding, layer)


def leads(tags, sentences):
    """True where the word is *lead*: once in each sentence."""
    return sentences.word_ids == tags.words.index("lead") + 1


def draw(probabilities, shown, args):
    figure = new_figure(10.0, 3.6)
    looks = dict(zip(READINGS, (("blue", ""), ("orange", "//"), ("green", ".."))))
    places = np.arange(len(shown.words))[::-1]
    texts = [
        f"{' '.join(words)}  {tags[words.index('lead')]}"
        for words, tags in zip(shown.words, shown.tags)
    ]
    for ax, way in zip(figure.subplots(1, 2, sharey=True), WAYS):
        left = np.zeros(len(places))
        for reading, values in zip(READINGS, probabilities[way].T):
            color, hatch = looks[reading]
            ax.barh(
                places,
                values,
                0.7,
                left,
                color=COLORS[color],
                edgecolor="black",
                hatch=hatch,
                label=reading,
            )
            left += values
        ax.set_title(way)
        ax.set_xlim(0, 1)
        ax.set_yticks(places, texts)
        ax.set_xlabel("probability of the readings of lead")
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, ncols=3, loc="outside upper center", frameon=False)
    save(figure, args, "ambiguity.png")


def main(arguments=None):
    args = parse_arguments(
        __doc__, arguments, examples=576, tests=288, embedding=16, units=16, epochs=10
    )
    rng = np.random.default_rng(args.seed)
    each = len(BEGINNINGS) * len(READINGS)
    if min(args.examples, args.tests) < each:
        raise SystemExit(
            f"--examples and --tests must be {each} or more: one sentence for each of "
            f"{len(BEGINNINGS)} beginnings and {len(READINGS)} readings."
        )
    texts = lead_sentences(rng, args.examples // each, args.tests // each)
    tags = Tags([*texts[0], *texts[1], *map(split_tags, SHOWN)])
    training, test, shown = map(tags.encode, [*texts, list(map(split_tags, SHOWN))])
    found, probabilities, accuracy = {}, {}, {}
    readings = [tags.tag(reading) for reading in READINGS]
    for way in WAYS:
        model = make_model(way, tags, args)
        weights = training.word_ids > 0
        train(model, training.word_ids, training.tag_ids, args, weights=weights)
        found[way] = classes(model, test.word_ids)
        accuracy[way] = tagging_accuracy(model, test)
        at_lead = predict(model, shown.word_ids)[leads(tags, shown)]
        probabilities[way] = at_lead[:, readings]
    report(tags, test, found, accuracy)
    print("\nProbabilities of VERB, NOUN and ADJ in sentences that neither has seen")
    print_table(
        ["sentence", "gold", *WAYS],
        *[
            [
                " ".join(words),
                gold[words.index("lead")],
                *(" ".join(f"{p:.2f}" for p in probabilities[way][i]) for way in WAYS),
            ]
            for i, (words, gold) in enumerate(zip(shown.words, shown.tags))
        ],
    )
    spread = np.ptp(probabilities["one way"], axis=0).max()
    print(f"One way, they are the same in all sentences but for {spread:.6f}.")
    draw(probabilities, shown, args)


def report(tags, test, found, accuracy):
    """Accuracy on *lead* by its reading, and on all words."""
    lead, real = leads(tags, test), test.word_ids > 0
    right = {way: found[way] == test.tag_ids for way in WAYS}
    rows = []
    for reading in READINGS:
        among = lead & (test.tag_ids == tags.tag(reading))
        shares = [percent(share(right[way], among)) for way in WAYS]
        rows.append([f"lead, {reading}", int(among.sum()), *shares])
    shares = [percent(share(right[way], lead)) for way in WAYS]
    rows.append(["lead", int(lead.sum()), *shares])
    rows.append(["all words", int(real.sum()), *(percent(accuracy[x]) for x in WAYS)])
    print("Tagged right (test sentences)")
    print_table(["words", "number", *WAYS], *rows)


if __name__ == "__main__":
    main()
