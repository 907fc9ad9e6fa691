"""Clauses: a subject, a verb with its objects, relative clauses and qualities."""

from typing import NamedTuple

from keras_bahdanau.grammar import lexicon, verbs
from keras_bahdanau.grammar.adverbials import (
    NEEDY,
    adjuncts,
    frequency_adverb,
    manner_adverb,
)
from keras_bahdanau.grammar.phrases import (
    Phrase,
    Word,
    article,
    both,
    name_phrase,
    nominal_phrase,
    noun_phrase,
    object_pronoun,
    pair,
    preposition,
    subject_pronoun,
)
from keras_bahdanau.grammar.verbs import Manner


def draw_subject(draw, verb, pronouns=True):
    """A subject that fits the verb: a noun phrase, a pronoun or a name."""
    if "person" in verb.subjects:
        if pronouns and draw.chance(0.2):
            return subject_pronoun(draw)
        if draw.chance(0.07):
            return name_phrase(draw)
    if draw.chance(_NOMINAL.get(verb.base, 0.03 if "person" in verb.subjects else 0)):
        return nominal_phrase(draw)
    noun = draw.pick(lexicon.nouns(*sorted(verb.subjects)))
    phrase = noun_phrase(draw, noun)
    if "person" in noun.classes and draw.extra(0.04):
        other = draw.pick(lexicon.nouns("person"))
        return both(phrase, noun_phrase(draw, other, plain=True))
    return qualify(draw, phrase)


# Verbs whose bare form reads like a noun after *the old*: *the old man the boat*.
_NOMINAL = {"man": 0.4, "lead": 0.12, "water": 0.08, "train": 0.08, "book": 0.08}


def qualify(draw, phrase):
    """Adds a relative clause to a noun phrase, seldom; two deep at the most."""
    allowed = 1 if draw.richness <= 1 else 2
    if phrase.noun is None or draw.nested >= allowed or not draw.extra(0.09):
        return phrase
    draw.nested += 1
    clause = relative_clause(draw, phrase)
    draw.nested -= 1
    if clause:
        phrase.add(clause)
        phrase.is_heavy = True
    return phrase


def draw_object(draw, verb, negated=False):
    """A direct object that fits the verb; without a relative clause if more follows."""
    classes = sorted(verb.objects)
    noun = draw.pick(lexicon.nouns(*classes))
    if "person" in verb.objects and draw.chance(0.1):
        return nominal_phrase(draw) if draw.chance(0.3) else name_phrase(draw)
    indirect = bool(verb.prepositions)
    phrase = noun_phrase(
        draw, noun, negated=negated and not indirect, definite=indirect
    )
    return phrase if "ditransitive" in verb.flags else qualify(draw, phrase)


class Clause(NamedTuple):
    """A clause with what a longer sentence needs to know about it."""

    phrase: Phrase
    verb: lexicon.Verb
    subject: object
    object: object
    manner: Manner


def assemble(subject, group, *rest):
    """Puts the subject among the words of the verb, and the rest after it.

    Args:
        subject: The subject's phrase, empty where a relative pronoun stands for it.
        group: A `VerbGroup`.
        *rest: Phrases that follow.

    Returns:
        A `Phrase`.
    """
    en = group.front + list(subject.en) + group.en
    fr = group.ask + list(subject.fr) + group.fr
    return Phrase(en, fr).add(*rest)


def predicate(draw, verb, subject, manner, *, gap=None, bare=False):
    """A verb with its object and adjuncts, the subject left out.

    Args:
        draw: A `Draw`.
        verb: A `Verb` of any frame but the clausal one.
        subject: What the verb agrees with.
        manner: The `Manner`.
        gap: The antecedent if the object has gone to the front (*that he reads*).
        bare: Whether to leave out adjuncts.

    Returns:
        Tuple of the `VerbGroup`, the phrases after it, and the object or None.
    """
    target, clitic, rest = complements(draw, verb, subject, manner, gap)
    agree = gap or (clitic if clitic is target else None)
    heavy = target is not None and target.is_heavy
    how = None if heavy else manner_adverb(draw, verb, manner)
    middle = None if how else frequency_adverb(draw, verb, manner)
    brief = bool(how or middle)
    early = how is not None and how.fr[0].text == "bien"
    if early:  # before a participle or an infinitive
        middle = Phrase([], how.fr)
    group = verbs.verb_group(
        verb, subject, manner, adverb=middle, clitic=clitic, agree=agree
    )
    if how:  # French puts it right after the verb, English after the object
        group.fr.extend([] if early else how.fr)
        rest = rest + [Phrase(how.en, [])]
    if not bare:
        rest = rest + [adjuncts(draw, verb, subject, manner, brief)]
    return group, rest, target


def complements(draw, verb, subject, manner, gap=None):
    """The objects of a verb.

    Args:
        draw: A `Draw`.
        verb: A `Verb`.
        subject: The subject's `NounPhrase`; no pronoun repeats its person.
        manner: The `Manner` of the verb.
        gap: The antecedent if the direct object has gone to the front.

    Returns:
        Tuple of the direct object or None, the pronoun whose French word goes before
        the verb or None, and the list of phrases after the verb.
    """
    negated = manner.negation is not None
    if "ditransitive" in verb.flags:
        return _give(draw, verb, subject, negated, gap)
    if not verb.objects or gap is not None:
        return None, None, []
    agrees = manner.tense in verbs.COMPOUND and "passive" not in verb.flags
    fits = "person" in verb.objects and not (verb.prepositions or agrees)
    if fits and draw.chance(0.16):
        pronoun = object_pronoun(draw, "direct", subject)
        return pronoun, pronoun, [Phrase(pronoun.en, [])]
    target = draw_object(draw, verb, negated)
    return target, None, [target]


def _give(draw, verb, subject, negated, gap):
    """The two objects of *give*: in either English order, or one a pronoun."""
    target = None if gap else draw_object(draw, verb, negated)
    pieces = [] if gap else [target]
    if draw.chance(0.35):
        clitic = object_pronoun(draw, "indirect", subject)
        if gap:
            to = Word("to", "ADP").maybe(*clitic.fr)
            return target, clitic, [Phrase([to, *clitic.en], [])]
        return target, clitic, [Phrase(clitic.en, []), *pieces]
    noun = draw.pick(lexicon.nouns("person"))
    if draw.chance(0.15):
        receiver = name_phrase(draw)
    else:
        receiver = noun_phrase(draw, noun, definite=True, plain=draw.chance(0.6))
    to = Word("à", "ADP")
    if gap or draw.chance(0.6):
        return target, None, [*pieces, preposition("to", "à").add(receiver)]
    receiver.en[-1].maybe(to)
    return (
        target,
        None,
        [Phrase(receiver.en + target.en, target.fr + [to] + receiver.fr)],
    )


def relative_clause(draw, antecedent):
    """A relative clause: *who*, *that*, *whose* or *where*.

    Args:
        draw: A `Draw`.
        antecedent: The `NounPhrase` before it, with a noun at its head.

    Returns:
        A `Phrase`, or None if nothing fits.
    """
    kinds = {"subject": 5, "object": 4}
    if "person" in antecedent.noun.classes:
        kinds["whose"] = 1
    if "place" in antecedent.noun.classes:
        kinds["where"] = 3
    kind = draw.weighted(kinds)
    makers = {
        "subject": _subject_relative,
        "object": _object_relative,
        "whose": _whose_relative,
        "where": _where_relative,
    }
    return makers[kind](draw, antecedent)


def _fitting(noun, role):
    """Verbs that take the noun as subject or object; French `de` + noun included."""
    return [
        verb
        for verb in lexicon.verbs()
        if getattr(verb, role) & noun.classes
        and "clausal" not in verb.flags
        and "dans" not in verb.prepositions
    ]


def _subject_relative(draw, antecedent):
    choices = _fitting(antecedent.noun, "subjects")
    who = "who" if "person" in antecedent.noun.classes else "that"
    link = pair(who, "PRON", "qui")
    if not choices or draw.chance(0.15):
        return _quality(draw, antecedent, link)
    verb = draw.pick(choices)
    manner = verbs.draw_manner(draw, verb, antecedent)
    bare = draw.chance(0.6) and not verb.flags & NEEDY
    group, rest, _ = predicate(draw, verb, antecedent, manner, bare=bare)
    return link.add(assemble(Phrase(), group, *rest))


def _quality(draw, subject, link):
    """*That is empty*, or None if no adjective fits."""
    tense = draw.weighted({"present": 3, "past": 1})
    manner = Manner(tense, "not" if draw.chance(0.15) else None)
    words = quality(draw, subject)
    return words and link.add(
        assemble(Phrase(), verbs.be_group(subject, manner), words)
    )


def _object_relative(draw, antecedent):
    choices = _fitting(antecedent.noun, "objects")
    if not choices:
        return None
    verb = draw.pick(choices)
    subject = draw_subject(draw, verb)
    manner = verbs.draw_manner(draw, verb, subject, fronted=True)
    if manner is None:
        return None
    group, rest, _ = predicate(
        draw, verb, subject, manner, gap=antecedent, bare=draw.chance(0.75)
    )
    if verb.prepositions:  # avoir besoin de: the preposition merges into dont
        link = pair("that", "PRON", "dont")
        of = group.fr[-1]
        group.fr.pop()
        for word in group.en:
            if of in word.possible:
                word.possible.remove(of)
    else:
        link = pair("that", "PRON", "que", before_vowel="qu'")
    return link.add(assemble(subject, group, *rest))


def _whose_relative(draw, antecedent):
    noun = draw.pick(lexicon.nouns("pet", "kin"))
    the = article(noun.feminine, False)
    source, target = Word(noun.english, "NOUN"), Word(noun.french, "NOUN")
    dont = Word("dont", "PRON")
    whose = Word("whose", "PRON").to(dont).maybe(the)
    owned = Phrase([whose, source.to(target).maybe(the)], [dont, the, target])
    features = noun_phrase(draw, noun, plural=False, plain=True, determiner="the")
    choices = [verb for verb in lexicon.verbs() if verb.subjects & noun.classes]
    verb = draw.pick([each for each in choices if "clausal" not in each.flags])
    manner = verbs.draw_manner(draw, verb, features)
    group, rest, _ = predicate(draw, verb, features, manner, bare=True)
    if verb.flags & NEEDY:
        rest = rest + [adjuncts(draw, verb, features, manner)]
    return owned.add(assemble(Phrase(), group, *rest))


def _where_relative(draw, antecedent):
    names = ("live", "work", "sleep", "sing")
    verb = draw.pick([each for each in lexicon.verbs() if each.base in names])
    subject = draw_subject(draw, verb)
    manner = verbs.draw_manner(draw, verb, subject, negatable=False)
    if manner is None:
        return None
    group = verbs.verb_group(verb, subject, manner)
    return pair("where", "ADV", "où", "PRON").add(assemble(subject, group))


_OPPOSITES = {
    "old": {"young", "new"},
    "young": {"old"},
    "new": {"old"},
    "big": {"small"},
    "small": {"big"},
    "black": {"white", "orange"},
    "white": {"black", "orange"},
}
_INTENSITIES = (("very", "très"), ("too", "trop"))


def quality(draw, subject):
    """An adjective after *to be*, alone, after *very*, or compared.

    Args:
        draw: A `Draw`.
        subject: The `NounPhrase` that it agrees with.

    Returns:
        A `Phrase`, or None if no adjective goes with the noun.
    """
    noun = subject.noun or lexicon.nouns("child")[0]
    choices = [
        each
        for each in lexicon.adjectives(noun)
        if not each.material
        and each.english not in ("right", "left", "lead", "close", "orange")
        and each.english not in subject.adjectives
        and not _OPPOSITES.get(each.english, set()) & set(subject.adjectives)
        and (subject.noun or each.english not in ("small", "old", "beautiful"))
    ]
    if not choices:
        return None
    adjective = draw.pick(choices)
    feminine, plural = subject.feminine, subject.plural
    if adjective.comparative and draw.chance(0.3):
        return _comparison(draw, adjective, subject)
    words = Phrase()
    if draw.chance(0.25) and adjective.english not in ("open", "empty"):
        english, french = draw.pick(_INTENSITIES)
        words.add(pair(english, "ADV", french))
    text = adjective.french[2 * plural + feminine]
    return words.add(pair(adjective.english, "ADJ", text))


def _comparison(draw, adjective, subject):
    """*Bigger than the dog*, *as big as the dog*."""
    text = adjective.french[2 * subject.plural + subject.feminine]
    target = Word(text, "ADJ")
    classes = sorted(adjective.classes & (subject.noun or _PERSON).classes)
    others = [each for each in lexicon.nouns(*classes) if each is not subject.noun]
    if not others:
        return None
    other = draw.pick(others)
    standard = noun_phrase(draw, other, plain=True)
    if draw.chance(0.3):
        aussi = Word("aussi", "ADV")
        words = Phrase(
            [Word("as", "ADV").to(aussi), Word(adjective.english, "ADJ").to(target)],
            [aussi, target],
        )
        than = "as"
    else:
        more = Word("plus", "ADV")
        compared = Word(adjective.comparative, "ADJ").to(more, target)
        words, than = Phrase([compared], [more, target]), "than"
    return words.add(pair(than, "ADP", "que", "SCONJ", before_vowel="qu'"), standard)


_PERSON = lexicon.nouns("child")[0]
