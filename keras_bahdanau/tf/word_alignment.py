"""Texts whose words are given: gold links, and the weights of a translator."""

import pathlib
from typing import NamedTuple

import numpy as np

from keras_bahdanau.alignment import parse_alignment, project_weights
from keras_bahdanau.posterior import posterior_weights
from keras_bahdanau.tf.server import batches
from keras_bahdanau.tf.tokenization import normalize


class GoldText(NamedTuple):
    """A text with gold links, sentence pair by sentence pair.

    Attributes:
        sources, targets: Lists of lists of words.
        sure, possible: Lists of sets of links; the sure ones are possible too.
    """

    sources: list
    targets: list
    sure: list
    possible: list


def read_gold(folder, source, target):
    """Reads texts with gold links.

    They are `NAME.LANG` files, a sentence on each line, with single blanks between its
    words, and `NAME.LANG-LANG.talp` files of the links between the words, whichever of
    the two languages comes first there.

    Args:
        folder: Name of the folder.
        source: Language of the source, as `"en"`.
        target: Language of the target.

    Returns:
        Dictionary of `GoldText` by name. The words are in the form in which a codec
        sees them (`normalize`).

    Raises:
        ValueError: If there are no links of the two languages, the files of a text
            differ in their number of lines, or a link cannot be read.
    """
    folder, texts = pathlib.Path(folder), {}
    for one, other in ((source, target), (target, source)):
        for path in sorted(folder.glob(f"*.{one}-{other}.talp")):
            name = path.name.removesuffix(f".{one}-{other}.talp")
            sides = [_read_words(folder / f"{name}.{x}") for x in (source, target)]
            gold = [
                parse_alignment(line, reverse=one == target)
                for line in path.read_text(encoding="utf-8").splitlines()
            ]
            if len({len(part) for part in (*sides, gold)}) > 1:
                raise ValueError(
                    f"The files of {name} in {folder} must have one line for each "
                    f"sentence. They have {len(sides[0])}, {len(sides[1])} and "
                    f"{len(gold)}."
                )
            sure, possible = ([links[kind] for links in gold] for kind in (0, 1))
            texts[name] = GoldText(*sides, sure, possible)
    if not texts:
        raise ValueError(f"{folder} has no links of {source} and {target}.")
    return texts


def _read_words(path):
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    words = [line.split(" ") for line in lines]
    return [[word.decode() for word in normalize(line).numpy()] for line in words]


def word_weights(translator, sources, targets, weights=None):
    """Weights between given words, from weights between the tokens of a translator.

    The codecs may split the same text in another way: see
    `keras_bahdanau.alignment.project_weights`.

    Args:
        translator: A `Translator`.
        sources: List of lists of words.
        targets: The same of their translations.
        weights: List of arrays `(T, S)`, the end tokens counted, for the words joined
            by blanks; by default those of `translator.align`.

    Returns:
        List of arrays (target words, source words + 1). The last column is the end
        token's.

    Raises:
        ValueError: If the lists differ in length, weights do not fit the tokens, or
            the model has no attention.

    Example:

    >>> from keras_bahdanau import RNNSearch
    >>> from keras_bahdanau.tf import Translator, WordCodec
    >>> codec = WordCodec.train(["the cat's dog"])
    >>> model = RNNSearch(*[codec.vocabulary_size] * 2, embedding_dim=5, units=7)
    >>> translator = Translator(model, codec, codec)
    >>> [weights] = word_weights(translator, [["the", "dog"]], [["the", "cat's"]])
    >>> weights.shape
    (2, 3)
    """
    texts = [joined(side) for side in (sources, targets)]
    if weights is None:
        weights = translator.align(*texts)
    tokens = [
        [[token.decode() for token in row] for row in codec.surfaces(side).to_list()]
        for codec, side in zip(_codecs(translator), texts)
    ]
    found = []
    pairs = zip(weights, tokens[0], sources, tokens[1], targets, strict=True)
    for matrix, *parts in pairs:
        # The end token is no word: what it gets of a word's weights stands behind.
        words = project_weights(matrix[:-1, :-1], *parts)
        end = project_weights(matrix[:-1, -1:], ["."], ["."], *parts[2:])
        found.append(np.concatenate([words, end], axis=1))
    return found


def posterior_align(translator, sources, targets, power=1.0, batch_size=32):
    """Aligns given translations by `posterior_weights`.

    Args:
        translator: A `Translator` of an `RNNSearch`.
        sources: List of `str`.
        targets: List of `str`, their translations.
        power: As for `posterior_weights`.
        batch_size: Number of pairs in a batch.

    Returns:
        List of arrays `(T, S)`, the end tokens counted, as `translator.align`.

    Raises:
        ValueError: If the lists differ in length, or as `posterior_weights`.

    Example:

    >>> from keras_bahdanau import RNNSearch
    >>> from keras_bahdanau.tf import Translator, WordCodec
    >>> codec = WordCodec.train(["the cat's dog"])
    >>> model = RNNSearch(*[codec.vocabulary_size] * 2, embedding_dim=5, units=7)
    >>> translator = Translator(model, codec, codec)
    >>> posterior_align(translator, ["the dog"], ["the cat's"])[0].shape
    (4, 3)
    """
    if len(sources) != len(targets):
        raise ValueError(
            "`sources` and `targets` must have the same length. Received "
            f"{len(sources)} and {len(targets)}."
        )
    found = [None] * len(sources)
    for rows in batches([len(text) for text in sources], batch_size):
        ids = [
            codec.encode([side[row] for row in rows])
            for codec, side in zip(_codecs(translator), (sources, targets))
        ]
        weights = posterior_weights(
            translator.model, *(part.to_tensor() for part in ids), power=power
        ).numpy()
        widths, lengths = (part.row_lengths().numpy() for part in ids)
        for index, row in enumerate(rows):
            found[row] = weights[index, : lengths[index], : widths[index]]
    return found


def joined(sentences):
    """Lists of words as texts, with blanks between."""
    return [" ".join(words) for words in sentences]


def _codecs(translator):
    return translator.source_codec, translator.target_codec
