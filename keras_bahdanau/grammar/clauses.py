"""Verb groups, complements and clauses, built in both languages at once."""

from typing import NamedTuple

from keras_bahdanau.grammar import lexicon
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
_COMPOUND = ("past", "perfect")
# Tenses of the main clause beside an "if".
LATER = ("future", "near", "can", "must")

_NEGATIONS = {
    "not": (("not", "ADV"),),
    "never": (("never", "ADV"),),
    "no longer": (("no", "ADV"), ("longer", "ADV")),
}
_SECOND_NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus"}
_FREQUENCY = (("often", "souvent"), ("always", "toujours"))


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
        and not (fronted and tense in _COMPOUND and "passive" not in verb.flags)
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


# ---------------------------------------------------------------- complements


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


def place_phrase(draw, places=None):
    """Where something happens: *in the garden*, *behind the tree*, *at the station*.

    Args:
        draw: A `Draw`.
        places: Choices of (English preposition, French one, classes of nouns...);
            all of them when None.

    Returns:
        A `Phrase`.
    """
    english, french, *classes = draw.pick(places or _PLACES)
    noun = draw.pick(lexicon.nouns(*classes))
    phrase = noun_phrase(draw, noun, definite=True, plural=_seldom_plural(draw, noun))
    return preposition(english, french).add(phrase)


_HOMES = (
    ("in", "dans", "house", "hotel", "boat"),
    ("on", "sur", "island", "edge"),
    ("near", "près de", "river", "station", "park", "school"),
    ("behind", "derrière", "building"),
)
# Places with room for people.
_AROUND = (
    ("in", "dans", "place"),
    ("in", "dans", "place"),
    ("at", "à", "spot"),
    ("on", "sur", "island", "edge"),
    ("near", "près de", "place", "water_", "tall"),
    ("in front of", "devant", "building"),
)
_PLACES = _AROUND + (
    ("in", "dans", "place"),
    ("in", "dans", "side"),
    ("on", "sur", "furniture"),
    ("on", "sur", "furniture"),
    ("under", "sous", "table", "tree", "bed"),
    ("behind", "derrière", "building", "tree", "part"),
    ("near", "près de", "part", "furniture"),
    ("in front of", "devant", "part", "car"),
)


def _seldom_plural(draw, noun):
    return not noun.is_mass and draw.chance(0.12)


def direction_phrase(draw, verb):
    """Where to, or for *come* where from."""
    noun = draw.pick(lexicon.nouns("spot" if "spot" in verb.flags else "goal"))
    phrase = noun_phrase(draw, noun, definite=True, plural=False)
    link = ("from", "de") if "source" in verb.flags else ("to", "à")
    link = ("at", "à") if "spot" in verb.flags else link
    return preposition(*link).add(phrase)


def company_phrase(draw, subject):
    """*With the girl*, *without him*."""
    link = preposition(*draw.pick((("with", "avec"), ("without", "sans"))))
    if draw.chance(0.3):
        return link.add(object_pronoun(draw, "strong", subject))
    noun = draw.pick(lexicon.nouns("person", "pet"))
    return link.add(noun_phrase(draw, noun, definite=True))


_TIMES = {
    "past": ("yesterday", "in the morning", "in the evening"),
    "present": ("every day", "in the morning", "today", "in the spring"),
    "later": ("tomorrow", "today", "in the evening", "in the spring"),
    "progressive": ("now", "today"),
}


def time_phrase(draw, tense):
    """When something happens, as fits the tense; None if nothing does.

    Returns:
        A `Phrase` or None.
    """
    group = "later" if tense in ("future", "near", "can", "must", "want") else tense
    if group not in _TIMES:
        return None
    return _time(draw.pick(_TIMES[group]))


def _time(name):
    simple = {
        "yesterday": ("NOUN", "hier"),
        "today": ("NOUN", "aujourd'hui"),
        "tomorrow": ("NOUN", "demain"),
        "now": ("ADV", "maintenant"),
    }
    if name in simple:
        tag, french = simple[name]
        return pair(name, tag, french, "ADV")
    if name == "every day":
        tous, les = Word("tous", "ADJ"), article(False, True)
        jours = Word("jours", "NOUN")
        return Phrase(
            [Word("every", "DET").to(tous).maybe(les), Word("day", "NOUN").to(jours)],
            [tous, les, jours],
        )
    if name == "in the spring":
        the = article(False, False)
        return preposition("in", "à").add(
            Phrase([Word("the", "DET").to(the)], [the]),
            pair("spring", "NOUN", "printemps"),
        )
    the, noun = article(False, False), name.split()[-1]
    target = Word({"morning": "matin", "evening": "soir"}[noun], "NOUN")
    return Phrase(
        [
            Word("in", "ADP").maybe(the),
            Word("the", "DET").to(the),
            Word(noun, "NOUN").to(target),
        ],
        [the, target],
    )


_MANNERS = {
    "sing": (("well", "bien"),),
    "sleep": (("well", "bien"),),
    "work": (("hard", "dur"), ("well", "bien"), ("slowly", "lentement")),
    "fly": (("quickly", "vite"), ("slowly", "lentement")),
    "eat": (("slowly", "lentement"), ("quickly", "vite")),
    "open": (("slowly", "lentement"),),
    "close": (("slowly", "lentement"),),
    "read": (("slowly", "lentement"), ("quickly", "vite")),
}


def manner_adverb(draw, verb, manner):
    """An adverb of manner (*well*, *slowly*) that goes with the verb, or None.

    Args:
        draw: A `Draw`.
        verb: A `Verb`.
        manner: The `Manner` of the verb.

    Returns:
        A `Phrase` of one word in each language, or None.
    """
    choices = _MANNERS.get(verb.base)
    if not choices or manner.negation or not draw.chance(0.3):
        return None
    english, french = draw.pick(choices)
    if french == "bien" and manner.tense in ("can", "want"):
        return None  # `Peut bien` and `veut bien` say something else.
    return pair(english, "ADV", french)


def adjuncts(draw, verb, subject, manner, brief=False):
    """What follows the verb and its objects: where, with whom, when.

    Args:
        draw: A `Draw`.
        verb: A `Verb`.
        subject: Its subject.
        manner: The `Manner` of the verb.
        brief: Whether the clause has an adverb already, and needs no more.

    Returns:
        A `Phrase`, often empty.
    """
    phrase = Phrase()
    if "motion" in verb.flags or (verb.flags & _DIRECTED and draw.chance(0.6)):
        phrase.add(direction_phrase(draw, verb))
    elif "home" in verb.flags:
        phrase.add(place_phrase(draw, _HOMES))
    if brief or "state" in verb.flags:
        return phrase
    if not verb.objects and "être" not in verb.flags and draw.chance(0.45):
        phrase.add(place_phrase(draw, _AROUND))
    elif not verb.objects and subject.animate and draw.extra(0.12):
        phrase.add(company_phrase(draw, subject))
    elif verb.objects and not verb.prepositions and draw.extra(0.1):
        phrase.add(place_phrase(draw, _AROUND))
    if draw.extra(0.16) and not (draw.timed or manner.negation == "never"):
        when = time_phrase(draw, manner.tense)
        if when:
            phrase.add(when)
    return phrase


# Verbs that are not complete without a place.
_NEEDY = frozenset(("home", "motion"))
# Verbs that often say where from or where to.
_DIRECTED = frozenset(("source", "spot", "guide"))


def frequency_adverb(draw, verb, manner):
    """An adverb of frequency for the middle of the verb, or None."""
    fits = manner.tense in ("present", "past", "perfect", "future")
    fits = fits and "state" not in verb.flags and not manner.negation
    if not fits or not draw.extra(0.09):
        return None
    english, french = draw.pick(_FREQUENCY)
    return pair(english, "ADV", french)


# ---------------------------------------------------------------- clauses


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
    group = verb_group(verb, subject, manner, adverb=middle, clitic=clitic, agree=agree)
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
    agrees = manner.tense in _COMPOUND and "passive" not in verb.flags
    fits = "person" in verb.objects and not (verb.prepositions or agrees)
    if fits and draw.chance(0.16):
        pronoun = object_pronoun(draw, "direct", subject)
        return pronoun, pronoun, [Phrase(pronoun.en, [])]
    target = draw_object(draw, verb, negated)
    return target, None, [target]


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
    verbs = lexicon.verbs()
    return [
        verb
        for verb in verbs
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
    manner = draw_manner(draw, verb, antecedent)
    bare = draw.chance(0.6) and not verb.flags & _NEEDY
    group, rest, _ = predicate(draw, verb, antecedent, manner, bare=bare)
    return link.add(assemble(Phrase(), group, *rest))


def _quality(draw, subject, link):
    """*That is empty*, or None if no adjective fits."""
    tense = draw.weighted({"present": 3, "past": 1})
    manner = Manner(tense, "not" if draw.chance(0.15) else None)
    words = quality(draw, subject)
    return words and link.add(assemble(Phrase(), be_group(subject, manner), words))


def _object_relative(draw, antecedent):
    choices = _fitting(antecedent.noun, "objects")
    if not choices:
        return None
    verb = draw.pick(choices)
    subject = draw_subject(draw, verb)
    manner = draw_manner(draw, verb, subject, fronted=True)
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
    manner = draw_manner(draw, verb, features)
    group, rest, _ = predicate(draw, verb, features, manner, bare=True)
    if verb.flags & _NEEDY:
        rest = rest + [adjuncts(draw, verb, features, manner)]
    return owned.add(assemble(Phrase(), group, *rest))


def _where_relative(draw, antecedent):
    names = ("live", "work", "sleep", "sing")
    verb = draw.pick([each for each in lexicon.verbs() if each.base in names])
    subject = draw_subject(draw, verb)
    manner = draw_manner(draw, verb, subject, negatable=False)
    if manner is None:
        return None
    group = verb_group(verb, subject, manner)
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
