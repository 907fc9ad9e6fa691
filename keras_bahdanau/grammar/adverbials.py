"""Where, when, how and with whom: what may follow a verb and its objects."""

from keras_bahdanau.grammar import lexicon
from keras_bahdanau.grammar.phrases import (
    Phrase,
    Word,
    article,
    noun_phrase,
    object_pronoun,
    pair,
    preposition,
)


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


_FREQUENCY = (("often", "souvent"), ("always", "toujours"))
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
NEEDY = frozenset(("home", "motion"))
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
