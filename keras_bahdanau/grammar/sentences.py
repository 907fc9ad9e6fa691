"""Sentences: one statement, question or request, or a chain of clauses."""

from keras_bahdanau.grammar import adverbials, verbs
from keras_bahdanau.grammar.phrases import (
    Draw,
    Phrase,
    pair,
)
from keras_bahdanau.grammar.questions import request, wh_question, yes_or_no
from keras_bahdanau.grammar.statements import comma, joint_phrase, statement

_OTHERS = {"statement": 20, "yes_or_no": 1.6, "wh_question": 1.6, "request": 0.8}
_COORDINATIONS = {"and": 5, "but": 3}
# Those that leave the tense of both clauses free, and all of them.
_LOOSE = {**_COORDINATIONS, "because": 3}
_JOINTS = {**_LOOSE, "while": 1.5, "if": 1.5, "when": 1.5}


def draw_sentence(generator, length, richness=1.0):
    """Draws a sentence of about `length` words.

    Args:
        generator: A `random.Random`.
        length: The number of words to reach, roughly, by joining clauses.
        richness: How readily phrases grow.

    Returns:
        A `Phrase` with final punctuation, before `settle`.
    """
    draw = Draw(generator, richness)
    kind = draw.weighted(_OTHERS) if length < 14 else "statement"
    if kind == "yes_or_no":
        return _end(yes_or_no(draw), "?")
    if kind == "wh_question":
        return _end(wh_question(draw), "?")
    if kind == "request":
        return _end(request(draw), ".")
    return _end(_chain(draw, length), ".")


def _end(phrase, text):
    """Puts the last mark; that of a question also stands for `est-ce que`."""
    if phrase is None:
        return None
    mark = pair(text, "PUNCT", text)
    for word, following in zip(phrase.fr, phrase.fr[1:]):
        if word.text == "est-ce":
            mark.en[0].maybe(word, following)
    return phrase.add(mark)


def _chain(draw, length):
    """Statements joined until the length is about reached."""
    phrase = _opening(draw) if draw.extra(0.07) else Phrase()
    joint = draw.weighted(_JOINTS if length > 9 else _LOOSE)
    if joint == "if" and draw.chance(0.6):
        condition = statement(draw, verbs.NOW)
        phrase = pair("if", "SCONJ", "si").add(condition, comma())
        phrase.add(statement(draw, verbs.LATER))
        joint = draw.weighted(_COORDINATIONS)
    elif phrase.en:
        draw.timed = True
        phrase.add(statement(draw, phrase.tenses))
        draw.timed = False
        joint = draw.weighted(_LOOSE)
    else:
        phrase.add(statement(draw, _tenses_before(joint)))
    while len(phrase.en) < length - 4:
        # No chain of if, when and because: a main clause comes next.
        coordinated = joint in _COORDINATIONS
        following = draw.weighted(_JOINTS if coordinated else _COORDINATIONS)
        among = _tenses_before(following) if coordinated else _tenses_after(joint)
        phrase.add(joint_phrase(draw, joint), statement(draw, among))
        joint = following
    return phrase


def _tenses_before(joint):
    """What the first clause may be in; `if` asks for the future, say."""
    if joint == "if":
        return verbs.LATER
    return verbs.NOW if joint == "while" else ("present",) if joint == "when" else None


def _tenses_after(joint):
    if joint in ("if", "when"):
        return ("present",)
    return verbs.NOW if joint == "while" else None


class _Opening(Phrase):
    """A time or place before the sentence, and the tenses that go with it."""

    tenses = None


def _opening(draw):
    tense = draw.pick(("past", "present", "later"))
    when = adverbials.time_phrase(draw, "near" if tense == "later" else tense)
    opening = _Opening(when.en, when.fr).add(comma())
    opening.tenses = {"past": ("past",), "present": ("present",)}.get(
        tense, ("future", "near")
    )
    return opening
