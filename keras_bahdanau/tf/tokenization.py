"""Tokenisation and detokenisation as TensorFlow string operations.

The rules are regular expressions, so that the same code runs in a `tf.data`
pipeline, eagerly, and inside an exported SavedModel, without custom operations.

A token carries a mark only where the text leaves the default spacing: a full stop
stands against the word before it, so `"dog."` gives `dog` and `.`, while the French
blank before a question mark gives `▁?`. `￭` (the joiner) says "no blank here" and
`▁` (the spacer) "a blank here"; a mark stands on the side of the token that it
speaks of, and on the punctuation rather than on the word next to it. The marks make
`detokenize(tokenize(x))` equal `normalize(x)` for every string `x`.
"""

import functools
import sys
import unicodedata

import tensorflow as tf

JOINER = "\uffed"
SPACER = "\u2581"

# Every blank of Unicode, no-break ones included, line ends too.
_BLANKS = (
    r"[\t-\r\x{1C}-\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}"
    r"\x{202F}\x{205F}\x{3000}]+"
)
# Soft hyphen, zero-width space, word joiner, byte order mark: nothing to see.
_INVISIBLE = r"[\x{AD}\x{200B}\x{2060}\x{FEFF}]+"

# A letter, a mark on it, a digit, or a joiner that holds two letters together.
_CHARACTER = r"[\p{L}\p{M}\p{N}\x{200C}\x{200D}]"
_APOSTROPHE = "['’]"
_ELISION = rf"(?i:l|d|j|n|s|c|m|t|(?:jus|lors|puis|quoi)?qu){_APOSTROPHE}"
_CLITIC = rf"{_APOSTROPHE}(?i:s|m|re|ve|ll|d)"
_NEGATION = rf"(?i:n){_APOSTROPHE}(?i:t)"
_NUMBER = r"\p{N}+(?:[.,:]\p{N}+)+"
_PART = rf"(?:{_NUMBER}{_CHARACTER}*|{_CHARACTER}+)(?:{_APOSTROPHE}{_CHARACTER}+)*"
_ABBREVIATION = (
    r"(?:M|MM|Mr|Mrs|Ms|Mme|Mmes|Mlle|Mlles|Dr|Prof|St|Jr|Sr|Hr|Nr|vs|etc|cf|bzw|usw"
    r"|např|atd|apod|tzv)\."
)
# The first alternative that fits takes the token, as in a hand-written lexer.
_TOKEN = "|".join(
    (
        r"(?i:https?://|www\.)[^ ]*[\p{L}\p{N}/]",
        r"[\p{L}\p{N}._+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+",
        r"\p{L}\.(?:-?\p{L}\.)+",
        _ABBREVIATION,
        _ELISION,
        rf"{_PART}(?:[-‐]{_PART})*",
        r"\.{2,}",
        r"-{2,}",
        r"[^ ][\p{M}\x{200D}]*",
    )
)
# Tokens that stand against the one before them, and against the one after them.
_CLOSING = r"[.,;:!?…‽%‰°)\]}”’/。，、！？：；）】」』]"
_OPENING = r"[(\[{„‘¿¡$£#/（【「『]"
_ATTACHES_LEFT = rf"(?:{_CLOSING}|\.+|{_CLITIC}|{_NEGATION})"
_ATTACHES_RIGHT = rf"(?:{_OPENING}|{_ELISION})"
_WORD = rf"(?s:{_CHARACTER}.*)"


def normalize(strings):
    r"""Gives text its one normal form: clean UTF-8 with single plain blanks.

    Invalid bytes become U+FFFD. Any run of blanks (no-break, thin, ideographic, tabs
    and line ends included) becomes one plain blank, and none is left at either end.
    A letter and the accents after it become one letter where Unicode has it, as in
    its normal form C. Soft hyphens, zero-width spaces and byte order marks are
    dropped. The two marks of `tokenize` become look-alikes: U+FFED a black square,
    U+2581 a low line. Case and punctuation stay as they are.

    Args:
        strings: String tensor of any shape, or what converts to one.

    Returns:
        String tensor of the same shape.

    Example:

    >>> print(normalize(["  Ça va\u202f?\r\n"]).numpy()[0].decode())
    Ça va ?
    """
    strings = tf.convert_to_tensor(strings, tf.string)
    normal = _normalize(strings)
    normal.set_shape(strings.shape)
    return normal


# A function of its own: a graph that normalises in ten places holds it once.
@tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
def _normalize(strings):
    strings = tf.strings.unicode_transcode(
        strings, "UTF-8", "UTF-8", errors="replace", replacement_char=0xFFFD
    )
    strings = tf.strings.regex_replace(strings, _INVISIBLE, "")
    strings = tf.strings.regex_replace(strings, JOINER, "\u25a0")
    strings = tf.strings.regex_replace(strings, SPACER, "_")
    strings = tf.strings.regex_replace(strings, _BLANKS, " ")
    strings = tf.strings.regex_replace(strings, "^ | $", "")
    accents = tf.reduce_any(tf.strings.regex_full_match(strings, r"(?s).*\p{M}.*"))
    return tf.cond(accents, lambda: _compose(strings), lambda: strings)


def tokenize(strings, lowercase=False):
    """Splits sentences into words and punctuation.

    Kept as one token: a French elision with its apostrophe (`l'`, `qu'`), a word with
    inner apostrophes or hyphens (`aujourd'hui`, `est-ce`), a number with inner points
    or commas (`1,000.5`), an abbreviation (`Mr.`, `U.S.`), an address. English
    clitics are split off (`it` `'s`, `do` `n't`). Any other character that is neither
    letter nor digit is a token by itself.

    Args:
        strings: String tensor of shape `(B,)`; normalised first, see `normalize`.
        lowercase: Whether to put the tokens in lower case.

    Returns:
        Ragged string tensor of shape `(B, None)`; an empty row for an empty string.

    Raises:
        ValueError: If `strings` does not have one axis.

    Example:

    >>> row = tokenize(["L'eau est-elle froide ? (Oui.)"])[0]
    >>> print(*(token.decode() for token in row.numpy()))
    L' eau est-elle froide ▁? ( Oui . )
    """
    rows = _tokenize(string_batch(strings))
    if lowercase:
        rows = rows.with_flat_values(tf.strings.lower(rows.flat_values, "utf-8"))
    return rows


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def _tokenize(strings):
    text = normalize(strings)
    text = tf.strings.regex_replace(text, _TOKEN, JOINER + r"\0")
    text = tf.strings.regex_replace(text, f"(^| ){JOINER}", r"\1")
    text = tf.strings.regex_replace(text, JOINER, f" {JOINER}")
    for ending in (_CLITIC, _NEGATION):
        text = tf.strings.regex_replace(
            text, rf"([\p{{L}}\p{{N}}])({ending})( |$)", rf"\1 {JOINER}\2\3"
        )
    rows = tf.strings.split(text)
    pieces = rows.flat_values
    joined = tf.strings.regex_full_match(pieces, f"(?s){JOINER}.*")
    pieces = tf.strings.regex_replace(pieces, f"^{JOINER}", "")
    return rows.with_flat_values(_mark(pieces, joined, _is_first(rows)))


def detokenize(tokens):
    """Joins tokens into sentences; undoes `tokenize`.

    Args:
        tokens: Ragged string tensor of shape `(B, None)`, or what converts to one. In
            a dense tensor, empty strings are padding.

    Returns:
        String tensor of shape `(B,)`.

    Example:

    >>> print(detokenize([["J'", "ai", "faim", "▁!"]]).numpy()[0].decode())
    J'ai faim !
    """
    if tf.is_tensor(tokens) and not isinstance(tokens, tf.RaggedTensor):
        tokens = tf.ragged.boolean_mask(tokens, tf.not_equal(tokens, ""))
    elif not tf.is_tensor(tokens):
        tokens = tf.ragged.constant(tokens, tf.string, ragged_rank=1)
    values = tokens.flat_values
    bare = surface(values)
    joined = _attaches(bare)
    for mark, value in ((SPACER, False), (JOINER, True)):
        before = tf.strings.regex_full_match(values, f"(?s){mark}.*")
        after = _shift(tf.strings.regex_full_match(values, f"(?s).*{mark}"))
        joined = tf.where(before | after, value, joined)
    glue = tf.where(joined | _is_first(tokens), "", " ")
    return tf.strings.unsorted_segment_join(
        glue + bare, tokens.value_rowids(), tf.cast(tokens.nrows(), tf.int64)
    )


def string_batch(strings):
    """Gives `strings` as a string tensor, which must have one axis, the batch."""
    strings = tf.convert_to_tensor(strings, tf.string)
    if strings.shape.rank not in (1, None):
        raise ValueError(
            "`strings` must have one axis, the batch. Received shape "
            f"{strings.shape}. Wrap a single string in a list."
        )
    return strings


def surface(tokens):
    """Takes the spacing marks off tokens: what a reader sees of each.

    Args:
        tokens: String tensor or ragged string tensor of any shape.

    Returns:
        Tensor of the same kind and shape.

    Example:

    >>> surface(["▁?", "dog"]).numpy()
    array([b'?', b'dog'], dtype=object)
    """
    if isinstance(tokens, tf.RaggedTensor):
        return tokens.with_flat_values(surface(tokens.flat_values))
    return tf.strings.regex_replace(
        tokens, f"^[{JOINER}{SPACER}]|[{JOINER}{SPACER}]$", ""
    )


def pieces_for(words, before):
    """Gives words as pieces that continue other pieces, which say what is glued.

    A piece begins with the spacer where a blank goes before it. A blank goes between
    two letters or digits; everything else is as the pieces before have it.

    Args:
        words: String tensor, tokens of `tokenize`.
        before: String tensor of the same shape: the piece before each word.

    Returns:
        String tensor of the same shape.

    Example:

    >>> row = pieces_for(["dog", "dog", "?"], ["▁a", "▁", "dog"])
    >>> print(*(piece.decode() for piece in row.numpy()))
    ▁dog dog ?
    """
    bare = surface(words)
    begins = tf.strings.regex_full_match(bare, _WORD)
    ends = tf.strings.regex_full_match(before, f"(?s).*{_CHARACTER}")
    return tf.where(begins & ends, SPACER, "") + bare


def _compose(strings):
    """Makes one letter of a letter and the accents after it, up to three."""
    keys, composed = (tf.constant(column, tf.int64) for column in _compositions())
    flat = tf.reshape(strings, [-1])
    rows = tf.cast(tf.strings.unicode_decode(flat, "UTF-8"), tf.int64)
    for _ in range(3):
        codes = rows.flat_values
        # The letter before each character; none before the first of a row.
        before = tf.concat([[0], codes], axis=0)[:-1]
        before = tf.where(_is_first(rows), tf.zeros_like(before), before)
        key = _pair_key(before, codes)
        place = tf.minimum(tf.searchsorted(keys, key), tf.size(keys) - 1)
        joins = tf.equal(tf.gather(keys, place), key)
        letters = tf.where(joins, tf.gather(composed, place), codes)
        followed = tf.concat([joins, [False]], axis=0)[1:]
        after = tf.concat([letters, [0]], axis=0)[1:]
        rows = rows.with_flat_values(tf.where(followed, after, codes))
        rows = tf.ragged.boolean_mask(rows, rows.with_flat_values(~joins))
    flat = tf.strings.unicode_encode(tf.cast(rows, tf.int32), "UTF-8")
    return tf.reshape(flat, tf.shape(strings))


@functools.cache
def _compositions():
    """The pairs of a letter and an accent that Unicode composes, by rising key."""
    pairs = {}
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) != 2 or parts[0].startswith("<"):
            continue
        letter, accent = (int(part, 16) for part in parts)
        excluded = unicodedata.normalize("NFC", chr(code)) != chr(code)
        if unicodedata.combining(chr(accent)) and not excluded:
            pairs[_pair_key(letter, accent)] = code
    return tuple(zip(*sorted(pairs.items())))


def _pair_key(letter, accent):
    return letter * 2**21 + accent


def _mark(pieces, joined, first):
    """Marks the pieces whose spacing to the piece before is not the default one."""
    default = _attaches(pieces)
    mark = tf.where(joined & ~default, JOINER, tf.where(~joined & default, SPACER, ""))
    mark = tf.where(first, "", mark)
    # A word stays clean where the piece before it can carry the mark.
    word = tf.strings.regex_full_match(pieces, _WORD) & ~tf.strings.regex_full_match(
        pieces, _ATTACHES_LEFT
    )
    elision = tf.strings.regex_full_match(pieces, _ELISION)
    moves = word & ~_shift(word & ~elision)
    prefix = tf.where(moves, "", mark)
    suffix = tf.concat([tf.where(moves, mark, "")[1:], [""]], axis=0)
    suffix = suffix[: tf.size(pieces)]
    return prefix + pieces + suffix


def _attaches(pieces):
    """Says which pieces by default stand against the piece before them."""
    left = tf.strings.regex_full_match(pieces, _ATTACHES_LEFT)
    right = tf.strings.regex_full_match(pieces, _ATTACHES_RIGHT)
    return left | _shift(right)


def _shift(flags):
    """Moves flags of pieces on to the piece after each."""
    return tf.concat([[False], flags], axis=0)[:-1]


def _is_first(rows):
    """Says which values of a ragged tensor stand first in their row."""
    return tf.equal(tf.ragged.range(rows.row_lengths()).flat_values, 0)
