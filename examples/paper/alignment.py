"""Word alignments out of attention, against gold links and beside aligners.

python examples/paper/alignment.py EN-FR FR-EN --gold FOLDER --training FOLDER

EN-FR and FR-EN are the folders `translator` of two models, one for each direction.
Both sides of the gold texts are given to them (forced decoding); nothing is trained on
these texts. The alignment error rates (AER) of several ways to read the weights are
printed and written as JSON.
"""

import argparse
import collections
import json
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402

from keras_bahdanau.alignment import (  # noqa: E402
    alignment_error_rate,
    hard_alignment,
    symmetrize,
)
from keras_bahdanau.jumps import chain_weights, learn_jumps  # noqa: E402
from keras_bahdanau.tf import (  # noqa: E402
    Translator,
    load_translator,
    parallel_folder,
    tokenize,
)
from keras_bahdanau.tf.word_alignment import (  # noqa: E402
    joined,
    posterior_align,
    read_gold,
    word_weights,
)

# Measured with other tools on the four stories of Alibi, English and French, AER in
# percent: an English word for each French one, a French word for each English one, the
# intersection. Unseen: it learned from the first 50,000 pairs of Tatoeba alone, and
# knows the stories no more than a translator does.
ALIGNERS = {
    "diagonal": [64.7, None, None],
    "IBM model 1": [50.8, 50.2, 38.8],
    "fast_align, stories unseen": [28.0, 28.4, 23.8],
    "fast_align": [27.3, 25.6, 18.3],
    "eflomal": [10.8, 10.9, 8.7],
}
# The stories on which the power was chosen; the others had no say in it.
TUNED_ON = "ChatBotte_MasterCat", "LaBarbeBleue_BlueBeard"
DIRECTIONS = "forward", "backward"
RULES = "intersection", "grow-diag", "grow-diag-strict"
# Offsets beyond are counted together.
FAR = 3
# Of the first column of a table.
WIDTH = 46


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forward", type=pathlib.Path, help="from source to target")
    parser.add_argument("backward", type=pathlib.Path, help="from target to source")
    parser.add_argument(
        "--gold",
        type=pathlib.Path,
        metavar="FOLDER",
        required=True,
        help="NAME.LANG texts and NAME.LANG-LANG.talp links",
    )
    parser.add_argument(
        "--training",
        type=pathlib.Path,
        metavar="FOLDER",
        required=True,
        help="LANG.train.txt files: how alignments move on is learned from the first "
        "pairs, without links",
    )
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="fr")
    parser.add_argument(
        "--pairs", type=int, default=1000, metavar="N", help="of the training text"
    )
    parser.add_argument(
        "--power",
        type=float,
        default=0.25,
        help="exponent of the attention weights in the posterior ones",
    )
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("runs/paper/alignment.json")
    )
    args = parser.parse_args(arguments)
    try:
        args.texts = read_gold(args.gold, args.source, args.target)
        args.translators = [load(path) for path in (args.forward, args.backward)]
        corpus = parallel_folder(args.training, args.source, args.target, "train")
        args.corpus = corpus.take(args.pairs)
    except (OSError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return args


def load(path):
    translator = load_translator(path)
    if not isinstance(translator, Translator):
        raise ValueError(f"{path} was exported. Name the folder `translator` instead.")
    return translator


def main(arguments=None):
    args = parse(arguments)
    sources, targets, sure, possible = (
        [line for text in args.texts.values() for line in text[part]]
        for part in range(4)
    )
    training = [
        [[word.decode() for word in line] for line in tokenize(side).to_list()]
        for side in (args.corpus.sources, args.corpus.targets)
    ]
    jumps, readings = [], []
    for translator, order in zip(args.translators, (1, -1)):
        jumps.append(jumps_of(translator, *training[::order], args.power))
        readings.append(
            readings_of(translator, *(sources, targets)[::order], jumps[-1], args.power)
        )
    settings = settings_of(*readings)
    stories = [name for name, text in args.texts.items() for _ in text.sources]
    chosen = {"all": [True] * len(stories)}
    chosen.update({name: [name == one for one in stories] for name in args.texts})
    report = {
        "translators": dict(zip(DIRECTIONS, (str(args.forward), str(args.backward)))),
        "power": args.power,
        "training_pairs": len(args.corpus),
        "jumps": {name: list(found) for name, found in zip(DIRECTIONS, jumps)},
        "aer": {
            name: {
                story: rates(links, (sure, possible), rows)
                for story, rows in chosen.items()
            }
            for name, links in settings.items()
        },
        "offsets": {name: offsets(links, possible) for name, links in settings.items()},
        "aligners": ALIGNERS,
    }
    show(report)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"Written to {args.output}")


def jumps_of(translator, sources, targets, power):
    """How the alignments of the training text move on."""
    weights = posterior_align(translator, joined(sources), joined(targets), power)
    weights = word_weights(translator, sources, targets, weights)
    return learn_jumps([matrix[:, :-1] for matrix in weights])


def readings_of(translator, sources, targets, jumps, power):
    """The weights of one direction by name.

    Lists of matrices (target words, source words), the end of the source behind.
    """
    texts = joined(sources), joined(targets)
    attention = translator.align(*texts)
    # Of the step that has the word as its input.
    after = [np.concatenate([rows[1:], rows[-1:]]) for rows in attention]
    judged = posterior_align(translator, *texts, power=0.0)
    tokens = {
        "attention": attention,
        "attention, next row": after,
        "attention, mean of both rows": [
            (one + other) / 2 for one, other in zip(attention, after)
        ],
        "posterior": [posterior(*both, 1.0) for both in zip(attention, judged)],
        "posterior by power": [
            posterior(*both, power) for both in zip(attention, judged)
        ],
    }
    words = {
        name: word_weights(translator, sources, targets, weights)
        for name, weights in tokens.items()
    }
    words["chain"] = [
        chain_weights(matrix[:, :-1], jumps) for matrix in words["posterior by power"]
    ]
    return words


def posterior(attention, judged, power):
    """`posterior_weights` of any power out of those of power 0."""
    weights = attention.astype("float64") ** power * judged
    return weights / weights.sum(axis=1, keepdims=True)


def settings_of(forward, backward):
    """The links of both directions, by the name of the setting.

    For each sentence pair two sets of pairs (source word, target word).
    """
    settings = {name: links_of(forward[name], backward[name]) for name in forward}
    settings["attention, end may win"] = links_of(
        forward["attention"], backward["attention"], allow_end=True
    )
    for name in ("posterior by power", "chain"):
        means = [
            # Each word as the other direction sees it, too.
            np.sqrt(one[:, : len(other)] * other[:, : len(one)].T)
            for one, other in zip(forward[name], backward[name])
        ]
        settings[f"{name}, both directions"] = links_of(
            means, [mean.T for mean in means]
        )
    return settings


def links_of(forward, backward, allow_end=False):
    found = []
    for one, other in zip(forward, backward):
        links = hard_alignment(one, len(other), allow_end=allow_end)
        back = hard_alignment(other, len(one), allow_end=allow_end)
        found.append((links, {(i, j) for j, i in back}))
    return found


def rates(links, gold, chosen):
    """The AER of each direction and of both by each rule, of the chosen pairs."""
    links, *gold = (
        [x for x, use in zip(part, chosen) if use] for part in (links, *gold)
    )
    found = dict(zip(DIRECTIONS, zip(*links)))
    for rule in RULES:
        found[rule] = [symmetrize(*both, rule) for both in links]
    return {name: alignment_error_rate(one, *gold) for name, one in found.items()}


def offsets(links, possible):
    """How far the linked word is from the nearest right one, as shares by direction.

    Positive: further behind. Words without a gold link do not count.
    """
    found = {}
    for side, name in enumerate(DIRECTIONS):
        counts = collections.Counter()
        for both, gold in zip(links, possible):
            for link in both[side]:
                right = [one[side] for one in gold if one[1 - side] == link[1 - side]]
                if right:
                    off = min((link[side] - place for place in right), key=abs)
                    counts[max(-FAR, min(FAR, off))] += 1
        found[name] = {
            off: counts[off] / max(counts.total(), 1) for off in range(-FAR, FAR + 1)
        }
    return found


def show(report):
    """Prints the report as tables."""
    columns = [*DIRECTIONS, *RULES]
    print("AER in percent".ljust(WIDTH), *(name.rjust(16) for name in columns))
    for name, found in report["aer"].items():
        print_row(name, [found["all"][column] for column in columns])
    print("Aligners on the four stories of Alibi, measured with other tools")
    for name, found in report["aligners"].items():
        print_row(name, [None if rate is None else rate / 100 for rate in found])
    last, found = list(report["aer"].items())[-1]
    print(f"By text: {last} (* the power was chosen on these)")
    for story, rates_of in found.items():
        mark = "*" if story in TUNED_ON else ""
        print_row(story + mark, [rates_of[column] for column in columns])
    print(f"Linked words so many places behind the right one, percent; {FAR}: or more")
    print(" " * WIDTH, *(str(off).rjust(6) for off in range(-FAR, FAR + 1)))
    for name, found in report["offsets"].items():
        for direction, shares in found.items():
            shares = " ".join(f"{100 * share:6.1f}" for share in shares.values())
            print(f"{name}, {direction}".ljust(WIDTH), shares)


def print_row(name, rates_of):
    cells = ("" if rate is None else f"{100 * rate:.1f}" for rate in rates_of)
    print(name.ljust(WIDTH), *(cell.rjust(16) for cell in cells))


if __name__ == "__main__":
    main()
