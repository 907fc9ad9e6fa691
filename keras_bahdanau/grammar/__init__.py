"""An English-French synchronous grammar: as many sentence pairs as one needs.

It draws pairs of sentences that translate each other, with the links between their
words and the part of speech of each word, from a few hundred words of each language.
What makes the two languages differ is in it: gender and number agreement, adjectives
before or after the noun, elision and contraction, negation in two parts, object
pronouns before the verb, compound tenses with agreeing participles, questions, relative
clauses, and words whose translation depends on their context (*lead*, *light*, *saw*).

The corpus is small enough to learn in minutes and hard enough that a word-by-word
lookup fails: what an example, a test or a study of long sentences needs. Pure Python,
without any dependency.
"""

from keras_bahdanau.grammar.corpus import (
    SentencePair,
    draw_pair,
    sample_corpus,
    sample_splits,
)

__all__ = ["SentencePair", "draw_pair", "sample_corpus", "sample_splits"]
