"""Trains the tagger of NLTK, an averaged perceptron, to compare with.

pip install nltk
python examples/pos_tagging/perceptron.py --data FOLDER
"""

import argparse
import pathlib
import random
import sys
import time

from arguments import count, positive
from baseline import Baseline, MostFrequentTag
from data import load_corpora
from train import measure, print_table


class Perceptron(Baseline):
    """NLTK's tagger, trained on a corpus.

    Args:
        corpus: a `TaggedCorpus`.
        iterations: how often it is gone through.
        seed: of the order in which it is.
    """

    def __init__(self, corpus, iterations, seed):
        from nltk.tag.perceptron import PerceptronTagger

        random.seed(seed)
        self._tagger = PerceptronTagger(load=False)
        self._tagger.train(
            [list(zip(one.words, one.tags)) for one in corpus], nr_iter=iterations
        )

    def __call__(self, words):
        return [tag for _, tag in self._tagger.tag(list(words))]


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--column", choices=["upos", "xpos"], default="upos")
    parser.add_argument("--iterations", type=positive, default=8)
    parser.add_argument("--limit", type=positive, metavar="N")
    parser.add_argument("--seed", type=count, default=1)
    parser.set_defaults(tfds=None, scheme=None)
    args = parser.parse_args(arguments)
    try:
        corpora = load_corpora(args)
        frequent = MostFrequentTag(corpora.train)
        before = time.time()
        perceptron = Perceptron(corpora.train, args.iterations, args.seed)
        seconds = time.time() - before
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"perceptron.py: {error}")
    known_words = corpora.train.words()
    rows = []
    for name, tagger, took in (
        ("most frequent tag", frequent, None),
        ("NLTK's perceptron", perceptron, seconds),
    ):
        found = tagger.tag_corpus(corpora.test, known_words)
        rows.append(measure(name, *found, took, args, corpora.test, frequent.ambiguous))
    print_table(args, rows)


if __name__ == "__main__":
    main()
