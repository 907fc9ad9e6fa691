"""Statements of one clause or two, in both languages at once."""

from keras_bahdanau.grammar import adverbials, clauses, lexicon, verbs
from keras_bahdanau.grammar.clauses import Clause
from keras_bahdanau.grammar.phrases import (
    Phrase,
    Word,
    it_as_object,
    it_as_subject,
    noun_phrase,
    pair,
    preposition,
    subject_pronoun,
)
from keras_bahdanau.grammar.verbs import Manner

_STATEMENTS = {
    "action": 16,
    "quality": 2.2,
    "where_it_is": 1.2,
    "there_is": 0.9,
    "that_clause": 1.6,
    "passive": 1.2,
    "keep_it": 1.0,
    "because_it": 0.6,
}


def statement(draw, among=None):
    """A statement in one of the tenses `among`; any of them when None."""
    while True:
        kind = draw.weighted(_STATEMENTS)
        phrase = _KINDS[kind](draw, among)
        if phrase is not None:
            return phrase


def draw_clause(draw, among=None):
    """A clause with a full verb: *the man reads a book in the garden*.

    Args:
        draw: A `Draw`.
        among: The tenses allowed, or None.

    Returns:
        A `Clause`, or None if the verb has none of the tenses.
    """
    choices = ACTIONS
    verb = draw.pick(choices)
    subject = clauses.draw_subject(draw, verb)
    manner = verbs.draw_manner(draw, verb, subject, among=among)
    if manner is None:
        return None
    group, rest, target = clauses.predicate(draw, verb, subject, manner)
    phrase = clauses.assemble(subject, group, *rest)
    return Clause(phrase, verb, subject, target, manner)


ACTIONS = tuple(verb for verb in lexicon.verbs() if "clausal" not in verb.flags)


def _action(draw, among):
    clause = draw_clause(draw, among)
    return clause and clause.phrase


def _be_manner(draw, among):
    weights = {"present": 6, "past": 3, "future": 1, "must": 0.5, "can": 0.5}
    fitting = {each: weights[each] for each in weights if not among or each in among}
    if not fitting:
        return None
    return Manner(draw.weighted(fitting), "not" if draw.chance(0.15) else None)


def be_subject(draw, *classes):
    """A subject for *to be*; a pronoun only where people fit."""
    if "person" in classes and draw.chance(0.25):
        return subject_pronoun(draw)
    phrase = noun_phrase(draw, draw.pick(lexicon.nouns(*classes)), specific=True)
    return clauses.qualify(draw, phrase)


def _fits_future(subject, manner):
    return manner.tense != "future" or subject.person == 3


def _quality(draw, among):
    manner = _be_manner(draw, among)
    if manner is None:
        return None
    subject = be_subject(
        draw,
        "person",
        "animal",
        "thing",
        "place",
        "furniture",
        "drink",
        "vehicle",
        "lid",
        "side",
        "dough",
        "tale",
    )
    words = clauses.quality(draw, subject)
    if words is None or not _fits_future(subject, manner):
        return None
    return clauses.assemble(subject, verbs.be_group(subject, manner), words)


def _where_it_is(draw, among):
    manner = _be_manner(draw, among)
    if manner is None:
        return None
    if draw.chance(0.25):
        subject = be_subject(draw, "building", "part", "furniture")
        place = _side(draw)
    else:
        subject = be_subject(draw, "person", "animal", "thing", "food", "vehicle")
        place = adverbials.place_phrase(draw)
    if not _fits_future(subject, manner):
        return None
    return clauses.assemble(subject, verbs.be_group(subject, manner), place)


def _side(draw):
    """*On the left*: `à gauche`."""
    english, french = draw.pick((("left", "gauche"), ("right", "droite")))
    to = Word("à", "ADP")
    side = Word(french, "NOUN")
    return Phrase(
        [
            Word("on", "ADP").to(to),
            Word("the", "DET").maybe(to),
            Word(english, "NOUN").to(side),
        ],
        [to, side],
    )


def _there_is(draw, among):
    """*There is a dog in the garden*: `il y a un chien dans le jardin`."""
    if among and "present" not in among:
        return None
    classes = ("person", "animal", "food", "thing", "vehicle")
    noun = draw.pick(
        [each for each in lexicon.nouns(*classes) if "kin" not in each.classes]
    )
    plural = draw.chance(0.4)
    negated = draw.chance(0.2)
    kind = draw.pick(("some", "two", "several", "three")) if plural else "a"
    il, y, a = Word("il", "PRON"), Word("y", "PRON"), Word("a", "VERB")
    there = Word("there", "PRON").to(il).maybe(y)
    verb = Word("are" if plural else "is", "VERB").to(a)
    if negated:
        return _there_is_no(draw, noun, plural, (there, verb), (il, y, a))
    what = noun_phrase(draw, noun, plural=plural, determiner=kind)
    phrase = Phrase([there, verb], [il, y, a]).add(what)
    return phrase.add(adverbials.place_phrase(draw))


def _there_is_no(draw, noun, plural, english, french):
    il, y, a = french
    ne, pas = Word("ne", "ADV", "n'"), Word("pas", "ADV")
    what = noun_phrase(
        draw, noun, plural=plural, determiner="any" if plural else "a", negated=True
    )
    no = what.en[0]
    no.text, no.before_vowel = "no", None
    no.to(ne, pas)
    phrase = Phrase(english, [il, ne, y, a, pas]).add(what)
    return phrase.add(adverbials.place_phrase(draw))


def _that_clause(draw, among):
    """*The woman says that the dog sleeps*."""
    if among and "present" not in among:
        return None
    verb = draw.pick(lexicon.verbs("clausal"))
    subject = clauses.draw_subject(draw, verb)
    if "present" not in verbs.tenses(verb, subject):
        return None
    # After a negated "think" French wants the subjunctive.
    negatable = verb.base in ("say", "know") and draw.chance(0.12)
    manner = Manner("present", "not" if negatable else None)
    group = verbs.verb_group(verb, subject, manner)
    that = pair("that", "SCONJ", "que", before_vowel="qu'")
    return clauses.assemble(subject, group, that, statement(draw))


def _passive(draw, among):
    """*The door was opened by the man*."""
    if among and "past" not in among:
        return None
    verb = draw.pick(lexicon.verbs("passive"))
    subject = noun_phrase(draw, draw.pick(lexicon.nouns(*sorted(verb.objects))))
    if subject.en[0].text == "every":
        return None
    group = verbs.passive_group(verb, subject, draw.chance(0.15))
    phrase = clauses.assemble(subject, group)
    if draw.chance(0.7):
        agent = noun_phrase(draw, draw.pick(lexicon.nouns("person")))
        return phrase.add(preposition("by", "par"), agent)
    return phrase if draw.timed else phrase.add(adverbials.time_phrase(draw, "past"))


def _keep_it(draw, among):
    """*The girl finds the key and hides it*: the pronoun takes the noun's gender."""
    clause = _thing_clause(draw, among)
    if clause is None or clause.manner.negation:
        return None
    noun = clause.object.noun
    choices = [
        verb
        for verb in ACTIONS
        if verb.objects & noun.classes
        and verb is not clause.verb
        and "person" in verb.subjects
        and not verb.prepositions
        and "passive" in verb.flags
        and "state" not in verb.flags
    ]
    if not choices:
        return None
    verb = draw.pick(choices)
    if clause.manner.tense not in verbs.tenses(verb, clause.subject):
        return None
    it = it_as_object(clause.object)
    manner = Manner(clause.manner.tense)
    group = verbs.verb_group(verb, clause.subject, manner, clitic=it, agree=it)
    words = pair("and", "CCONJ", "et").add(
        clauses.assemble(Phrase(), group, Phrase(it.en, []))
    )
    return clause.phrase.add(words)


def _because_it(draw, among):
    """*He buys the table because it is big*: `il` or `elle` by the noun's gender."""
    clause = _thing_clause(draw, among)
    if clause is None or clause.object.plural:
        return None
    it = it_as_subject(clause.object)
    words = clauses.quality(draw, it)
    if words is None:
        return None
    past = clause.manner.tense in ("past", "perfect")
    group = verbs.be_group(it, Manner("past" if past else "present"))
    clause.phrase.add(joint_phrase(draw, "because"))
    return clause.phrase.add(clauses.assemble(it, group, words))


def _thing_clause(draw, among):
    """A clause whose object is a thing, named in full."""
    verb = draw.pick([each for each in ACTIONS if each.objects & _THINGS])
    if "ditransitive" in verb.flags or verb.prepositions:
        return None
    subject = clauses.draw_subject(draw, verb)
    manner = verbs.draw_manner(draw, verb, subject, among=among)
    if manner is None:
        return None
    things = lexicon.nouns(*sorted(verb.objects & _THINGS))
    target = noun_phrase(
        draw,
        draw.pick(things),
        determiner=draw.pick(("the", "a")),
        plural=False,
        negated=manner.negation is not None,
    )
    group = verbs.verb_group(verb, subject, manner)
    phrase = clauses.assemble(subject, group, target)
    return Clause(phrase, verb, subject, target, manner)


_THINGS = frozenset(("thing", "furniture", "food", "clothes", "text", "vehicle"))

_KINDS = {
    "action": _action,
    "quality": _quality,
    "where_it_is": _where_it_is,
    "there_is": _there_is,
    "that_clause": _that_clause,
    "passive": _passive,
    "keep_it": _keep_it,
    "because_it": _because_it,
}


def comma():
    return pair(",", "PUNCT", ",")


_CONJUNCTIONS = {
    "and": ("CCONJ", "et"),
    "but": ("CCONJ", "mais"),
    "if": ("SCONJ", "si"),
    "when": ("SCONJ", "quand"),
}


def joint_phrase(draw, joint):
    """The words between two clauses."""
    if joint in ("because", "while"):
        first = Word("parce" if joint == "because" else "pendant", "SCONJ")
        que = Word("que", "SCONJ", "qu'")
        return Phrase([Word(joint, "SCONJ").to(first).maybe(que)], [first, que])
    tag, french = _CONJUNCTIONS[joint]
    words = pair(joint, tag, french)
    pause = joint == "but" or (joint == "and" and draw.chance(0.3))
    return comma().add(words) if pause else words
