"""Kinds of sentences: statements, questions, requests, and chains of clauses."""

from keras_bahdanau.grammar import clauses, lexicon
from keras_bahdanau.grammar.clauses import Clause, Manner
from keras_bahdanau.grammar.phrases import (
    Draw,
    NounPhrase,
    Phrase,
    Word,
    it_as_object,
    it_as_subject,
    noun_phrase,
    pair,
    preposition,
    subject_pronoun,
)

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
        return _end(_yes_or_no(draw), "?")
    if kind == "wh_question":
        return _end(_wh_question(draw), "?")
    if kind == "request":
        return _end(_request(draw), ".")
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


def _comma():
    return pair(",", "PUNCT", ",")


def _chain(draw, length):
    """Statements joined until the length is about reached."""
    phrase = _opening(draw) if draw.extra(0.07) else Phrase()
    joint = draw.weighted(_JOINTS if length > 9 else _LOOSE)
    if joint == "if" and draw.chance(0.6):
        condition = _statement(draw, clauses.NOW)
        phrase = pair("if", "SCONJ", "si").add(condition, _comma())
        phrase.add(_statement(draw, clauses.LATER))
        joint = draw.weighted(_COORDINATIONS)
    elif phrase.en:
        draw.timed = True
        phrase.add(_statement(draw, phrase.tenses))
        draw.timed = False
        joint = draw.weighted(_LOOSE)
    else:
        phrase.add(_statement(draw, _tenses_before(joint)))
    while len(phrase.en) < length - 4:
        # No chain of if, when and because: a main clause comes next.
        coordinated = joint in _COORDINATIONS
        following = draw.weighted(_JOINTS if coordinated else _COORDINATIONS)
        among = _tenses_before(following) if coordinated else _tenses_after(joint)
        phrase.add(_joint(draw, joint), _statement(draw, among))
        joint = following
    return phrase


def _tenses_before(joint):
    """What the first clause may be in; `if` asks for the future, say."""
    if joint == "if":
        return clauses.LATER
    return (
        clauses.NOW if joint == "while" else ("present",) if joint == "when" else None
    )


def _tenses_after(joint):
    if joint in ("if", "when"):
        return ("present",)
    return clauses.NOW if joint == "while" else None


_CONJUNCTIONS = {
    "and": ("CCONJ", "et"),
    "but": ("CCONJ", "mais"),
    "if": ("SCONJ", "si"),
    "when": ("SCONJ", "quand"),
}


def _joint(draw, joint):
    """The words between two clauses."""
    if joint in ("because", "while"):
        first = Word("parce" if joint == "because" else "pendant", "SCONJ")
        que = Word("que", "SCONJ", "qu'")
        return Phrase([Word(joint, "SCONJ").to(first).maybe(que)], [first, que])
    tag, french = _CONJUNCTIONS[joint]
    words = pair(joint, tag, french)
    comma = joint == "but" or (joint == "and" and draw.chance(0.3))
    return _comma().add(words) if comma else words


class _Opening(Phrase):
    """A time or place before the sentence, and the tenses that go with it."""

    tenses = None


def _opening(draw):
    tense = draw.pick(("past", "present", "later"))
    when = clauses.time_phrase(draw, "near" if tense == "later" else tense)
    opening = _Opening(when.en, when.fr).add(_comma())
    opening.tenses = {"past": ("past",), "present": ("present",)}.get(
        tense, ("future", "near")
    )
    return opening


# ---------------------------------------------------------------- statements


def _statement(draw, among=None):
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
    choices = _ACTIONS
    verb = draw.pick(choices)
    subject = clauses.draw_subject(draw, verb)
    manner = clauses.draw_manner(draw, verb, subject, among=among)
    if manner is None:
        return None
    group, rest, target = clauses.predicate(draw, verb, subject, manner)
    phrase = clauses.assemble(subject, group, *rest)
    return Clause(phrase, verb, subject, target, manner)


_ACTIONS = tuple(verb for verb in lexicon.verbs() if "clausal" not in verb.flags)


def _action(draw, among):
    clause = draw_clause(draw, among)
    return clause and clause.phrase


def _be_manner(draw, among):
    weights = {"present": 6, "past": 3, "future": 1, "must": 0.5, "can": 0.5}
    fitting = {each: weights[each] for each in weights if not among or each in among}
    if not fitting:
        return None
    return Manner(draw.weighted(fitting), "not" if draw.chance(0.15) else None)


def _be_subject(draw, *classes):
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
    subject = _be_subject(
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
    return clauses.assemble(subject, clauses.be_group(subject, manner), words)


def _where_it_is(draw, among):
    manner = _be_manner(draw, among)
    if manner is None:
        return None
    if draw.chance(0.25):
        subject = _be_subject(draw, "building", "part", "furniture")
        place = _side(draw)
    else:
        subject = _be_subject(draw, "person", "animal", "thing", "food", "vehicle")
        place = clauses.place_phrase(draw)
    if not _fits_future(subject, manner):
        return None
    return clauses.assemble(subject, clauses.be_group(subject, manner), place)


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
    return phrase.add(clauses.place_phrase(draw))


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
    return phrase.add(clauses.place_phrase(draw))


def _that_clause(draw, among):
    """*The woman says that the dog sleeps*."""
    if among and "present" not in among:
        return None
    verb = draw.pick(lexicon.verbs("clausal"))
    subject = clauses.draw_subject(draw, verb)
    if "present" not in clauses.tenses(verb, subject):
        return None
    # After a negated "think" French wants the subjunctive.
    negatable = verb.base in ("say", "know") and draw.chance(0.12)
    manner = Manner("present", "not" if negatable else None)
    group = clauses.verb_group(verb, subject, manner)
    that = pair("that", "SCONJ", "que", before_vowel="qu'")
    return clauses.assemble(subject, group, that, _statement(draw))


def _passive(draw, among):
    """*The door was opened by the man*."""
    if among and "past" not in among:
        return None
    verb = draw.pick(lexicon.verbs("passive"))
    subject = noun_phrase(draw, draw.pick(lexicon.nouns(*sorted(verb.objects))))
    if subject.en[0].text == "every":
        return None
    group = clauses.passive_group(verb, subject, draw.chance(0.15))
    phrase = clauses.assemble(subject, group)
    if draw.chance(0.7):
        agent = noun_phrase(draw, draw.pick(lexicon.nouns("person")))
        return phrase.add(preposition("by", "par"), agent)
    return phrase if draw.timed else phrase.add(clauses.time_phrase(draw, "past"))


def _keep_it(draw, among):
    """*The girl finds the key and hides it*: the pronoun takes the noun's gender."""
    clause = _thing_clause(draw, among)
    if clause is None or clause.manner.negation:
        return None
    noun = clause.object.noun
    choices = [
        verb
        for verb in _ACTIONS
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
    if clause.manner.tense not in clauses.tenses(verb, clause.subject):
        return None
    it = it_as_object(clause.object)
    manner = Manner(clause.manner.tense)
    group = clauses.verb_group(verb, clause.subject, manner, clitic=it, agree=it)
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
    group = clauses.be_group(it, Manner("past" if past else "present"))
    clause.phrase.add(_joint(draw, "because"))
    return clause.phrase.add(clauses.assemble(it, group, words))


def _thing_clause(draw, among):
    """A clause whose object is a thing, named in full."""
    verb = draw.pick([each for each in _ACTIONS if each.objects & _THINGS])
    if "ditransitive" in verb.flags or verb.prepositions:
        return None
    subject = clauses.draw_subject(draw, verb)
    manner = clauses.draw_manner(draw, verb, subject, among=among)
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
    group = clauses.verb_group(verb, subject, manner)
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


# ---------------------------------------------------------------- questions, requests


def _asked(draw, verb, subject, **options):
    """The verb of a question and what follows, or None if no tense fits."""
    manner = clauses.draw_manner(
        draw, verb, subject, negatable=False, fronted="gap" in options
    )
    if manner is None:
        return None
    manner = manner._replace(question=True)
    return clauses.predicate(draw, verb, subject, manner, **options)


def _yes_or_no(draw):
    if draw.chance(0.25):
        manner = Manner(draw.pick(("present", "past")), question=True)
        subject = _be_subject(draw, "person", "thing", "drink", "place")
        words = clauses.quality(draw, subject)
        group = clauses.be_group(subject, manner)
        return words and clauses.assemble(subject, group, words)
    verb = draw.pick(_ACTIONS)
    subject = clauses.draw_subject(draw, verb)
    parts = _asked(draw, verb, subject)
    return parts and clauses.assemble(subject, parts[0], *parts[1])


def _wh_question(draw):
    kind = draw.weighted({"where": 2, "why": 2, "who": 2, "what": 2, "which": 2})
    if kind == "who":
        return _who(draw)
    if kind in ("what", "which"):
        return _what(draw, kind)
    names = ("live", "work", "sleep", "go", "sing")
    verbs = [each for each in lexicon.verbs() if each.base in names]
    verb = draw.pick(verbs if kind == "where" else _ACTIONS)
    subject = clauses.draw_subject(draw, verb)
    parts = _asked(draw, verb, subject, bare=kind == "where")
    if parts is None:
        return None
    french = "où" if kind == "where" else "pourquoi"
    phrase = clauses.assemble(subject, parts[0], *parts[1])
    return pair(kind, "ADV", french).add(phrase)


def _who(draw):
    """*Who opened the door?*: no helper, and the verb in the third person."""
    verb = draw.pick([each for each in _ACTIONS if "person" in each.subjects])
    words = pair("who", "PRON", "qui")
    subject = NounPhrase(words.en, words.fr)
    manner = clauses.draw_manner(draw, verb, subject, negatable=False)
    group, rest, _ = clauses.predicate(draw, verb, subject, manner)
    return clauses.assemble(subject, group, *rest)


def _what(draw, kind):
    """*What does he eat?*, *which book did she read?* with its agreement."""
    verbs = [
        each
        for each in lexicon.verbs(transitive=True)
        if not each.prepositions
        and "ditransitive" not in each.flags
        and (kind == "which" or not each.objects & {"person"})
    ]
    verb = draw.pick(verbs)
    subject = clauses.draw_subject(draw, verb, pronouns=True)
    if kind == "what":
        # `Quoi` has no gender: the participle stays as it is.
        parts = _asked(draw, verb, subject, gap=NounPhrase([], []), bare=True)
        opening = pair("what", "PRON", "que", before_vowel="qu'")
    else:
        nouns = [
            noun
            for noun in lexicon.nouns(*sorted(verb.objects))
            if not noun.is_mass and noun.classes.isdisjoint(lexicon.COMPLEMENTS)
        ]
        if not nouns:
            return None
        noun = draw.pick(nouns)
        opening = _which(noun, draw.chance(0.3))
        parts = _asked(draw, verb, subject, gap=opening, bare=True)
    return parts and opening.add(clauses.assemble(subject, parts[0], *parts[1]))


def _which(noun, plural):
    text = "quel" + ("le" if noun.feminine else "") + ("s" if plural else "")
    words = pair("which", "DET", text)
    words.add(
        pair(
            noun.english_plural if plural else noun.english,
            "NOUN",
            noun.french_plural if plural else noun.french,
        )
    )
    return NounPhrase(
        words.en, words.fr, plural=plural, feminine=noun.feminine, noun=noun
    )


def _request(draw):
    """*Please close the door*: `veuillez fermer la porte`."""
    verb = draw.pick(
        [
            each
            for each in _ACTIONS
            if "person" in each.subjects
            and "state" not in each.flags
            and not each.is_reflexive
        ]
    )
    you = NounPhrase([], [], person=2, plural=True)
    manner = Manner("must", "not" if draw.chance(0.2) else None)
    _, clitic, rest = clauses.complements(draw, verb, you, manner)
    phrase = pair("please", "INTJ", "veuillez", "VERB")
    phrase.add(clauses.infinitive_group(verb, manner.negation is not None, clitic))
    how = clauses.manner_adverb(draw, verb, manner)
    if how and how.fr[0].text != "bien":  # `Veuillez bien` means "kindly".
        phrase.add(Phrase([], how.fr))
        rest = rest + [Phrase(how.en, [])]
    return phrase.add(*rest, clauses.adjuncts(draw, verb, you, manner, bool(how)))
