"""Questions and requests, in both languages at once."""

from keras_bahdanau.grammar import adverbials, clauses, lexicon, verbs
from keras_bahdanau.grammar.phrases import (
    NounPhrase,
    Phrase,
    pair,
)
from keras_bahdanau.grammar.statements import ACTIONS, be_subject
from keras_bahdanau.grammar.verbs import Manner


def _asked(draw, verb, subject, **options):
    """The verb of a question and what follows, or None if no tense fits."""
    manner = verbs.draw_manner(
        draw, verb, subject, negatable=False, fronted="gap" in options
    )
    if manner is None:
        return None
    manner = manner._replace(question=True)
    return clauses.predicate(draw, verb, subject, manner, **options)


def yes_or_no(draw):
    if draw.chance(0.25):
        manner = Manner(draw.pick(("present", "past")), question=True)
        subject = be_subject(draw, "person", "thing", "drink", "place")
        words = clauses.quality(draw, subject)
        group = verbs.be_group(subject, manner)
        return words and clauses.assemble(subject, group, words)
    verb = draw.pick(ACTIONS)
    subject = clauses.draw_subject(draw, verb)
    parts = _asked(draw, verb, subject)
    return parts and clauses.assemble(subject, parts[0], *parts[1])


def wh_question(draw):
    kind = draw.weighted({"where": 2, "why": 2, "who": 2, "what": 2, "which": 2})
    if kind == "who":
        return _who(draw)
    if kind in ("what", "which"):
        return _what(draw, kind)
    names = ("live", "work", "sleep", "go", "sing")
    choices = [each for each in lexicon.verbs() if each.base in names]
    verb = draw.pick(choices if kind == "where" else ACTIONS)
    subject = clauses.draw_subject(draw, verb)
    parts = _asked(draw, verb, subject, bare=kind == "where")
    if parts is None:
        return None
    french = "où" if kind == "where" else "pourquoi"
    phrase = clauses.assemble(subject, parts[0], *parts[1])
    return pair(kind, "ADV", french).add(phrase)


def _who(draw):
    """*Who opened the door?*: no helper, and the verb in the third person."""
    verb = draw.pick([each for each in ACTIONS if "person" in each.subjects])
    words = pair("who", "PRON", "qui")
    subject = NounPhrase(words.en, words.fr)
    manner = verbs.draw_manner(draw, verb, subject, negatable=False)
    group, rest, _ = clauses.predicate(draw, verb, subject, manner)
    return clauses.assemble(subject, group, *rest)


def _what(draw, kind):
    """*What does he eat?*, *which book did she read?* with its agreement."""
    choices = [
        each
        for each in lexicon.verbs(transitive=True)
        if not each.prepositions
        and "ditransitive" not in each.flags
        and (kind == "which" or not each.objects & {"person"})
    ]
    verb = draw.pick(choices)
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


def request(draw):
    """*Please close the door*: `veuillez fermer la porte`."""
    verb = draw.pick(
        [
            each
            for each in ACTIONS
            if "person" in each.subjects
            and "state" not in each.flags
            and not each.is_reflexive
        ]
    )
    you = NounPhrase([], [], person=2, plural=True)
    manner = Manner("must", "not" if draw.chance(0.2) else None)
    _, clitic, rest = clauses.complements(draw, verb, you, manner)
    phrase = pair("please", "INTJ", "veuillez", "VERB")
    phrase.add(verbs.infinitive_group(verb, manner.negation is not None, clitic))
    how = adverbials.manner_adverb(draw, verb, manner)
    if how and how.fr[0].text != "bien":  # `Veuillez bien` means "kindly".
        phrase.add(Phrase([], how.fr))
        rest = rest + [Phrase(how.en, [])]
    return phrase.add(*rest, adverbials.adjuncts(draw, verb, you, manner, bool(how)))
