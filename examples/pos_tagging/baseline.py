"""Taggers to compare with; here the one that sees no context."""

import collections

from keras_bahdanau.tag_reports import tag_report


class Baseline:
    """What every tagger to compare with does; called, it tags words."""

    def tag_corpus(self, corpus, known_words):
        """As that of a `Tagger`: the tags of each sentence, and a `TagReport`."""
        gold, words = zip(*((one.tags, one.words) for one in corpus))
        tags = [self(sentence) for sentence in words]
        return tags, tag_report(gold, tags, words, known_words)


class MostFrequentTag(Baseline):
    """Gives each word the tag that it has most often in a corpus.

    A word that is not in it gets the tag that is most frequent among the words which
    occur once, those with a capital letter and those without counted apart.

    Args:
        corpus: a `TaggedCorpus`.

    Attributes:
        ambiguous: the words that have more than one tag.
    """

    def __init__(self, corpus):
        counts = collections.defaultdict(collections.Counter)
        for sentence in corpus:
            for word, tag in zip(sentence.words, sentence.tags):
                counts[word][tag] += 1
        self._tags = {word: _best(tags) for word, tags in counts.items()}
        self.ambiguous = {word for word, tags in counts.items() if len(tags) > 1}
        rare = {False: collections.Counter(), True: collections.Counter()}
        every = collections.Counter()
        for word, tags in counts.items():
            every += tags
            if sum(tags.values()) == 1:
                rare[word[0].isupper()] += tags
        self._others = {kind: _best(tags or every) for kind, tags in rare.items()}

    def __call__(self, words):
        return [
            self._tags.get(word) or self._others[word[0].isupper()] for word in words
        ]


def _best(tags):
    return max(sorted(tags), key=tags.get)
