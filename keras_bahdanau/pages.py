"""Attention weights of a whole test set as one HTML page, links drawn on hover.

The page is a file that needs nothing else: no network, no server, no library. To write
it takes Python and NumPy; nothing needs a backend.
"""

import base64
import functools
import hashlib
import html
import json
import math
import pathlib
import re
import string
from typing import NamedTuple

import numpy as np

from keras_bahdanau.alignment import link_set

_WEB = pathlib.Path(__file__).parent / "web"
_LEAST = 0.015  # As in alignment.js: what is less is neither drawn nor named.
_SURROGATE = re.compile("[\ud800-\udfff]")
# In JSON inside of HTML: no end of a script, no comment, no line end of old JavaScript.
_IN_SCRIPT = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


class AlignmentExample(NamedTuple):
    """One sentence pair of `write_alignment_page`.

    What a `keras_bahdanau.tf.Translation` has fits, its weights as they are and its
    tokens through `keras_bahdanau.tf.surface`, which takes the spacing marks off.

    Args:
        source_tokens: `S` strings, as a reader should see them.
        target_tokens: `T` strings, the translation.
        weights: Array of shape `(T, S)`, between 0 and 1, or None. A row or a column
            more is that of the end token and is not shown.
        score: Number to show and to sort by, or None.
        reference: Text of the right translation, or None.
        links: Gold links, pairs (source position, target position).
        possible_links: Gold links that are possible, not sure.

    Example:

    >>> example = AlignmentExample(["a", "dog"], ["un", "chien"], score=-0.25)
    >>> example.score
    -0.25
    """

    source_tokens: list
    target_tokens: list
    weights: np.ndarray | None = None
    score: float | None = None
    reference: str | None = None
    links: tuple = ()
    possible_links: tuple = ()


def write_alignment_page(path, examples, *, title="Alignments", summary=""):
    """Writes the sentence pairs of a test set as one HTML page.

    The page shows source, translation and reference of each pair and draws the links
    between their tokens by weight. Pointing at a token, tapping it or moving to it with
    the keyboard shows its links alone, with their weights. The pairs are sorted by
    their order, score, score per target token or length, and filtered by words. Weights
    are rounded to hundredths, and those below 0.015 left out.

    Args:
        path: File to write, such as `page.html`; one that is there is overwritten.
        examples: Iterable of `AlignmentExample`, or tuples of its parts.
        title: Heading of the page.
        summary: Text under the heading.

    Raises:
        ValueError: If there are no examples, or one of them does not fit; nothing is
            written then.

    Example:

    >>> example = AlignmentExample(
    ...     ["a", "dog"], ["un", "chien"], [[0.9, 0.1], [0.2, 0.8]], score=-0.25
    ... )
    >>> write_alignment_page("page.html", [example], title="Two words")
    >>> import pathlib
    >>> "<title>Two words</title>" in pathlib.Path("page.html").read_text("utf-8")
    True
    """
    pairs = [_pair(example, index) for index, example in enumerate(examples)]
    if not pairs:
        raise ValueError(
            "`examples` must hold one sentence pair or more. Received none."
        )
    style = alignment_style() + _text("page.css")
    script = alignment_script() + _text("page.js")
    page = string.Template(_text("page.html")).substitute(
        title=_escaped(title),
        summary=_escaped(summary),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_json(pairs),
    )
    pathlib.Path(path).write_text(page, encoding="utf-8", newline="\n")


def alignment_script():
    """Gives the JavaScript that draws one sentence pair, for a page of your own.

    It defines `renderPair(pair)`, which returns an `HTMLElement`; the top of the text
    says what `pair` holds. What it draws needs the style `alignment_style`.

    Returns:
        String, the text for a `script` element.

    Example:

    >>> "renderPair" in alignment_script()
    True
    """
    return _text("alignment.js")


def alignment_style():
    """Gives the style of what `renderPair` of `alignment_script` draws.

    Its colours, light and dark, are custom properties of `:root` whose names start with
    `--alignment-`: a page may use them too, or set others.

    Returns:
        String, the text for a `style` element.

    Example:

    >>> ".alignment-token" in alignment_style()
    True
    """
    return _text("alignment.css")


@functools.cache
def _text(name):
    return (_WEB / name).read_text(encoding="utf-8")


# ---------------------------------------------------------------- checks


def _pair(example, index):
    """Checks an example, and gives what the page knows of it."""
    name = f"examples[{index}]"
    if not isinstance(example, tuple) or not 2 <= len(example) <= 7:
        raise ValueError(
            "An example must be an `AlignmentExample`, or a tuple of its parts. "
            f"Received a {type(example).__name__} as {name}."
        )
    example = AlignmentExample(*example)
    source = _tokens(example.source_tokens, f"{name}.source_tokens")
    target = _tokens(example.target_tokens, f"{name}.target_tokens")
    pair = {"source": source, "target": target}
    if example.weights is not None:
        pair["weights"] = _weights(example.weights, len(target), len(source), name)
    if example.score is not None:
        pair["score"] = _score(example.score, name)
    if example.reference is not None:
        pair["reference"] = _string(example.reference)
    sure, possible = (
        _links(getattr(example, kind), len(source), len(target), f"{name}.{kind}")
        for kind in ("links", "possible_links")
    )
    gold = {"links": sure, "possible_links": possible - sure}
    pair.update({kind: sorted(links) for kind, links in gold.items() if links})
    return pair


def _tokens(tokens, name):
    if isinstance(tokens, (str, bytes)):
        raise ValueError(
            f"{name} must be a list of strings. Received one string. Split it."
        )
    return [_string(token) for token in tokens]


def _string(text):
    if isinstance(text, bytes):
        return text.decode("utf-8", errors="replace")
    return str(text)


def _weights(weights, rows, columns, name):
    """Positions and hundredths of a row in turn, for each target token."""
    try:
        weights = np.asarray(weights, dtype="float64")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The weights of {name} must be a matrix of numbers. Received a "
            f"{type(weights).__name__} that is none: {error}"
        ) from error
    if weights.shape == (0,):
        # A list without rows does not tell how many columns it lacks.
        weights = weights.reshape(0, columns)
    height, width = weights.shape if weights.ndim == 2 else (-1, -1)
    if height not in (rows, rows + 1) or width not in (columns, columns + 1):
        raise ValueError(
            f"The weights of {name} must have shape (target tokens, source tokens), or "
            "one row or column more for the end token. Received shape "
            f"{weights.shape} for {rows} target and {columns} source tokens. Cut off "
            "padding."
        )
    if not (weights >= -1e-3).all() or not (weights <= 1 + 1e-3).all():
        raise ValueError(
            f"The weights of {name} must lie between 0 and 1. Received values between "
            f"{weights.min()} and {weights.max()}. Pass the weights after the softmax, "
            "not the scores before it."
        )
    packed = []
    for row in weights[:rows, :columns]:
        places = np.flatnonzero(row >= _LEAST)
        hundredths = np.rint(100 * row[places]).astype(int)
        packed.append(np.stack([places, hundredths], axis=1).ravel().tolist())
    return packed


def _score(score, name):
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"The score of {name} must be a finite number or None. Received: {score!r}."
        )
    return float(f"{value:.6g}")


def _links(links, columns, rows, name):
    """A set of pairs of plain integers, within the tokens."""
    result = link_set(links, name)
    for i, j in sorted(result):
        if i >= columns or j >= rows:
            raise ValueError(
                f"`{name}` must hold pairs (source position, target position) of "
                f"{columns} source and {rows} target tokens. Received: {(i, j)}."
            )
    return result


# ---------------------------------------------------------------- text in a page


def _escaped(text):
    return html.escape(_SURROGATE.sub("\ufffd", _string(text)))


def _json(value):
    """JSON that cannot end the script element it stands in, nor fail as UTF-8."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _IN_SCRIPT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _hash(text):
    """What a content security policy calls a text that it allows."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
