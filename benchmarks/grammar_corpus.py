"""The grammar corpus as ids, without TensorFlow."""

import numpy as np

UNKNOWN, START, END = 1, 2, 3


def make_vocabulary(sentences):
    """Ids of words from 4 on, by falling frequency."""
    words, counts = np.unique(np.concatenate(sentences), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {str(words[place]): 4 + rank for rank, place in enumerate(order)}


def to_ids(sentences, vocabulary, length):
    """Ids `(N, length)`, the end token behind each sentence, then padding."""
    ids = np.zeros((len(sentences), length), "int32")
    for row, words in zip(ids, sentences):
        known = [vocabulary.get(word, UNKNOWN) for word in words]
        row[: len(words) + 1] = [*known, END]
    return ids


def make_corpus(size):
    """Inputs and labels for training, the same held out, and the two vocabularies."""
    from keras_bahdanau import grammar

    count = size["train_pairs"]
    pairs = grammar.sample_corpus(count + size["held_out"], seed=0)
    sides, vocabularies = [], []
    for side in ("source", "target"):
        sentences = [getattr(pair, side).split() for pair in pairs]
        vocabulary = make_vocabulary(sentences[:count])
        length = 1 + max(map(len, sentences))
        sides.append(to_ids(sentences, vocabulary, length))
        vocabularies.append(vocabulary)
    source, labels = sides
    target = np.roll(labels, 1, axis=1)
    target[:, 0] = START
    target[labels == 0] = 0
    inputs = {"source_ids": source, "target_ids": target}

    def part(rows):
        return {key: ids[rows] for key, ids in inputs.items()}, labels[rows]

    return part(slice(0, count)), part(slice(count, None)), vocabularies


def endless(inputs, labels, batch):
    """Batches in random order, of one size."""
    generator = np.random.default_rng(0)
    while True:
        order = generator.permutation(len(labels))
        for start in range(0, len(order) - batch + 1, batch):
            rows = order[start : start + batch]
            yield {key: ids[rows] for key, ids in inputs.items()}, labels[rows]
