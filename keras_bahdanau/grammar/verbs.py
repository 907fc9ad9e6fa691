"""Verb groups: tenses, helpers, negation and agreement, in both languages at once."""

from typing import NamedTuple

from keras_bahdanau.grammar import lexicon
from keras_bahdanau.grammar.phrases import Phrase, Word

# French forms for je, il, nous, vous, ils.
_HAVE = ("ai", "a", "avons", "avez", "ont")
_BE = ("suis", "est", "sommes", "êtes", "sont")
_GO = ("vais", "va", "allons", "allez", "vont")
_MODALS = {
    "can": ("peux", "peut", "pouvons", "pouvez", "peuvent"),
    "must": ("dois", "doit", "devons", "devez", "doivent"),
    "want": ("veux", "veut", "voulons", "voulez", "veulent"),
}
_WAS = ("étais", "était", "étions", "étiez", "étaient")
_SELF = ("me", "se", "nous", "vous", "se")
_ELIDED_SELF = {"me": "m'", "se": "s'"}

_WEIGHTS = {
    "present": 26,
    "progressive": 10,
    "past": 26,
    "perfect": 8,
    "future": 8,
    "near": 8,
    "can": 6,
    "must": 4,
    "want": 4,
}
# Tenses that fit in a clause about now, and after "if" or "while".
NOW = ("present", "progressive", "can", "must")
# Tenses with a participle. It agrees with an object before it, in four forms, which
# are kept to the verbs that have a passive, to keep the vocabulary small.
COMPOUND = ("past", "perfect")
# Tenses of the main clause beside an "if".
LATER = ("future", "near", "can", "must")

_NEGATIONS = {
    "not": (("not", "ADV"),),
    "never": (("never", "ADV"),),
    "no longer": (("no", "ADV"), ("longer", "ADV")),
}
_SECOND_NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus"}


class Manner(NamedTuple):
    """How a verb is said: tense, negation, mood."""

    tense: str = "present"
    negation: str | None = None
    question: bool = False


def _slot(subject):
    """Index of the subject's person in the tables of French forms."""
    if subject.plural:
        return {1: 2, 2: 3, 3: 4}[subject.person]
    return 0 if subject.person == 1 else 1


def _is_third(subject):
    return subject.person == 3 and not subject.plural


def tenses(verb, subject):
    """The tenses that the grammar has for the verb and the subject.

    Args:
        verb: A `Verb`.
        subject: A `NounPhrase`.

    Returns:
        Tuple of names.
    """
    slot = _slot(subject)
    lexical = slot in (0, 1, 4) or verb.infinitive == "avoir"
    third = slot in (1, 4)
    dynamic = "state" not in verb.flags
    past = verb.preterite is not None and "clausal" not in verb.flags
    fits = {
        "present": lexical,
        "progressive": lexical and verb.gerund is not None,
        "past": past and (third or verb.past is None),
        "perfect": verb.participle is not None and dynamic,
        "future": third and verb.future is not None,
        "near": dynamic,
        "can": dynamic,
        "must": dynamic,
        "want": dynamic and subject.animate,
    }
    return tuple(tense for tense, fit in fits.items() if fit)


def draw_manner(draw, verb, subject, *, among=None, negatable=True, fronted=False):
    """Draws a tense that the verb has, and seldom a negation.

    Args:
        draw: A `Draw`.
        verb: A `Verb`.
        subject: A `NounPhrase`.
        among: The tenses allowed, or None for all.
        negatable: Whether a negation may come out.
        fronted: Whether the object stands before the verb, so that a participle
            would agree with it.

    Returns:
        A `Manner`, or None if no tense fits.
    """
    fitting = [
        tense
        for tense in tenses(verb, subject)
        if (among is None or tense in among)
        and not (fronted and tense in COMPOUND and "passive" not in verb.flags)
    ]
    if not fitting:
        return None
    weights = {tense: _WEIGHTS[tense] for tense in fitting}
    if subject.is_nominal and "present" in weights:
        weights["present"] *= 3
    tense = draw.weighted(weights)
    negation = None
    sweeping = subject.en and subject.en[0].text in ("every", "all")
    if negatable and not sweeping and draw.chance(0.16):
        kinds = {"not": 8}
        if tense in ("present", "past", "perfect", "future"):
            kinds["never"] = 2
        if tense in ("present", "can"):
            kinds["no longer"] = 2
        negation = draw.weighted(kinds)
    return Manner(tense, negation)


class VerbGroup(NamedTuple):
    """The words of a verb: `front` and `ask` stand before the subject of a question."""

    front: list
    en: list
    fr: list
    ask: list


def _english(verb, subject, manner):
    """The English verb as (helper or None, words after it, the lexical word)."""
    third, tense = _is_third(subject), manner.tense
    simple = verb.third if third else verb.base
    needs_do = manner.question or manner.negation == "not"
    if tense in ("present", "past") and needs_do:
        helper = "did" if tense == "past" else "does" if third else "do"
        main = [(verb.base, "VERB")]
    elif tense in ("present", "past"):
        helper = None
        main = [(verb.preterite if tense == "past" else simple, "VERB")]
    elif tense == "perfect":
        helper, main = "has" if third else "have", [(verb.participle, "VERB")]
    elif tense == "progressive":
        helper, main = be(subject), [(verb.gerund, "VERB")]
    elif tense == "near":
        helper = be(subject)
        main = [("going", "VERB"), ("to", "PART"), (verb.base, "VERB")]
    elif tense == "want":
        helper = ("does" if third else "do") if needs_do else None
        wants = "wants" if third and not needs_do else "want"
        main = [(wants, "VERB"), ("to", "PART"), (verb.base, "VERB")]
    else:
        helper = "will" if tense == "future" else tense
        main = [(verb.base, "VERB")]
    words = [Word(*each) for each in main]
    return (Word(helper, "AUX") if helper else None), words


def be(subject, past=False):
    """The English form of *to be*."""
    if past:
        return "was" if not subject.plural and subject.person != 2 else "were"
    if subject.plural or subject.person == 2:
        return "are"
    return "am" if subject.person == 1 else "is"


def _french(verb, subject, manner, agree):
    """The French verb as (finite word, participle or infinitive or None)."""
    slot, tense = _slot(subject), manner.tense
    if tense in ("past", "perfect") and not (tense == "past" and verb.past):
        agree = subject if verb.takes_be else agree
        feminine = bool(agree) and agree.feminine
        participle = lexicon.inflect_participle(
            verb.french_participle, feminine, bool(agree) and agree.plural
        )
        helper = (_BE if verb.takes_be else _HAVE)[slot]
        return Word(helper, "AUX"), Word(participle, "VERB")
    if tense in ("near", *_MODALS):
        finite = (_GO if tense == "near" else _MODALS[tense])[slot]
        return Word(finite, "VERB"), Word(verb.infinitive, "VERB")
    if tense in ("past", "future"):
        forms = verb.past if tense == "past" else verb.future
        return Word(forms[slot == 4], "VERB"), None
    if verb.infinitive == "avoir":
        return Word(_HAVE[slot], "VERB"), None
    return Word(verb.present[{0: 0, 1: 1, 4: 2}[slot]], "VERB"), None


def _link(tense, helper, main, finite, nonfinite, question):
    """Links the words of the verb, and helpers to what carries their meaning."""
    lexical = main[-1]
    helping = helper.maybe if helper else lambda *targets: None
    if nonfinite is None:
        lexical.to(finite)
        helping(finite)
    elif tense == "past":
        lexical.to(nonfinite)
        if helper and not question:
            helper.to(finite)
            lexical.maybe(finite)
        else:
            helping(finite)
            lexical.to(finite)
    else:
        lexical.to(nonfinite)
        carrier = main[0] if tense in ("near", "want") else helper
        carrier.to(finite)
        if carrier is not helper:
            helping(finite)
            main[1].maybe(nonfinite)


def verb_group(verb, subject, manner, *, adverb=None, clitic=None, agree=None):
    """A verb with its helpers, negation, adverb and French object pronoun.

    Args:
        verb: A `Verb`.
        subject: The `NounPhrase` it agrees with.
        manner: A `Manner` with a tense out of `tenses(verb, subject)`.
        adverb: Phrase of one adverb for the middle of the verb.
        clitic: The object pronoun's `NounPhrase`; its French word goes before the
            verb, its English one is left to the caller.
        agree: The phrase that the participle with *avoir* agrees with: a direct object
            that stands before it.

    Returns:
        A `VerbGroup`.
    """
    helper, main = _english(verb, subject, manner)
    finite, nonfinite = _french(verb, subject, manner, agree)
    _link(manner.tense, helper, main, finite, nonfinite, manner.question)
    negation, ne, pas = _negation(manner.negation)
    if helper and manner.negation == "not":
        if helper.text == "can":
            helper.text = "cannot"
            helper.to(ne, pas)
            negation = []
        elif helper.text in ("do", "does", "did"):
            helper.maybe(ne)
    lead = list(clitic.fr) if clitic else []
    if verb.is_reflexive:
        own = _SELF[_slot(subject)]
        lead.append(Word(own, "PRON", _ELIDED_SELF.get(own)))
        main[-1].to(lead[-1])
    particles = [Word(verb.particle, "ADP")] if verb.particle else []
    rest = [Word(word, "ADP") for word in verb.prepositions]
    _tie_particles(main[-1], particles, rest, nonfinite or finite)
    front = [helper] if manner.question else []
    ask = _ask(helper) if manner.question else []
    en = [] if manner.question or helper is None else [helper]
    en += negation + (adverb.en if adverb else []) + main + particles
    split = nonfinite is not None and manner.tense in ("near", *_MODALS)
    fr = [ne] if ne else []
    fr += [] if split else lead
    fr += [finite] + ([pas] if pas else []) + (adverb.fr if adverb else [])
    fr += (lead if split else []) + ([nonfinite] if nonfinite else []) + rest
    return VerbGroup(front, en, fr, ask)


def _tie_particles(lexical, particles, rest, french):
    """Links English particles (*look at*) and French prepositions (`entrer dans`)."""
    for word in particles:
        word.maybe(french)
    for word in rest:
        if word.text == "besoin":
            word.tag = "NOUN"
        if word.text == "de":
            word.before_vowel = "d'"
            lexical.maybe(word)
        else:
            lexical.to(word)


def _negation(kind):
    """The English words and the two French ones, linked."""
    if kind is None:
        return [], None, None
    ne, pas = Word("ne", "ADV", "n'"), Word(_SECOND_NEGATIONS[kind], "ADV")
    words = [Word(*each) for each in _NEGATIONS[kind]]
    words[0].to(ne)
    words[-1].to(pas)
    return words, ne, pas


def _ask(helper):
    """`Est-ce que` for the helper that opens an English question."""
    words = [Word("est-ce", "AUX"), Word("que", "SCONJ", "qu'")]
    helper.maybe(*words)
    if helper.text in ("do", "does", "did"):
        helper.to(words[0])
    return words


def be_group(subject, manner):
    """*To be* as a verb of its own: present, past, future, *must* or *can*.

    Returns:
        A `VerbGroup`.
    """
    slot, tense = _slot(subject), manner.tense
    negation, ne, pas = _negation(manner.negation)
    if tense in ("present", "past"):
        finite = Word((_WAS if tense == "past" else _BE)[slot], "AUX")
        helper, main = Word(be(subject, tense == "past"), "AUX").to(finite), []
        french = [finite] + ([pas] if pas else [])
    elif tense == "future":
        finite = Word("seront" if subject.plural else "sera", "AUX")
        helper = Word("will", "AUX").maybe(finite)
        main = [Word("be", "AUX").to(finite)]
        french = [finite] + ([pas] if pas else [])
    else:
        finite, infinitive = Word(_MODALS[tense][slot], "VERB"), Word("être", "AUX")
        helper = Word(tense, "AUX").to(finite)
        main = [Word("be", "AUX").to(infinitive)]
        french = [finite] + ([pas] if pas else []) + [infinitive]
    if helper.text == "can" and negation:
        helper.text = "cannot"
        helper.to(ne, pas)
        negation = []
    french = ([ne] if ne else []) + french
    if manner.question:
        return VerbGroup([helper], main, french, _ask(helper))
    return VerbGroup([], [helper] + negation + main, french, [])


def passive_group(verb, subject, negated):
    """The passive of the past: *was not opened*, `n'a pas été ouverte`."""
    finite, been = Word(_HAVE[_slot(subject)], "AUX"), Word("été", "AUX")
    opened = Word(
        lexicon.inflect_participle(
            verb.french_participle, subject.feminine, subject.plural
        ),
        "VERB",
    )
    negation, ne, pas = _negation("not" if negated else None)
    helper = Word(be(subject, past=True), "AUX").to(finite, been)
    en = [helper] + negation + [Word(verb.participle, "VERB").to(opened)]
    fr = [word for word in (ne, finite, pas, been, opened) if word]
    return VerbGroup([], en, fr, [])


def infinitive_group(verb, negated, clitic):
    """A request's verb: *do not open*, `ne pas ouvrir`.

    Returns:
        A `Phrase`.
    """
    main, french = Word(verb.base, "VERB"), Word(verb.infinitive, "VERB")
    main.to(french)
    negation, ne, pas = _negation("not" if negated else None)
    do = [Word("do", "AUX").maybe(ne)] if negated else []
    particles = [Word(verb.particle, "ADP")] if verb.particle else []
    rest = [Word(word, "ADP") for word in verb.prepositions]
    _tie_particles(main, particles, rest, french)
    lead = list(clitic.fr) if clitic else []
    return Phrase(
        do + negation + [main] + particles,
        ([ne, pas] if negated else []) + lead + [french] + rest,
    )
