"""Words, noun phrases and pronouns, built in both languages at once.

A phrase is two lists of `Word`, English and French. The links are kept on the English
words, so they survive any reordering; what depends on the neighbouring word (elision,
contraction, *a* or *an*) is settled once the whole sentence stands, in `settle`.
"""

from keras_bahdanau.grammar import lexicon


class Word:
    """A word in its place.

    Args:
        text: Its form.
        tag: Its universal part of speech (UPOS).
        before_vowel: Its form before a vowel sound, if that differs.

    Attributes:
        links: Words of the other language that it surely corresponds to.
        possible: Words that it may be linked to: helpers, particles, merged articles.
    """

    __slots__ = ("text", "tag", "before_vowel", "links", "possible")

    def __init__(self, text, tag, before_vowel=None):
        self.text = text
        self.tag = tag
        self.before_vowel = before_vowel
        self.links = []
        self.possible = []

    def to(self, *targets):
        """Links it surely to the targets; returns itself."""
        self.links.extend(targets)
        return self

    def maybe(self, *targets):
        """Links it possibly to the targets; returns itself."""
        self.possible.extend(targets)
        return self


class Phrase:
    """Words of both languages that say the same: `en` and `fr`."""

    def __init__(self, en=(), fr=()):
        self.en = list(en)
        self.fr = list(fr)

    def add(self, *phrases):
        """Puts phrases at the end, in both languages; returns itself."""
        for phrase in phrases:
            self.en += phrase.en
            self.fr += phrase.fr
        return self


class NounPhrase(Phrase):
    """A phrase that a verb agrees with.

    Attributes:
        person, plural, feminine: What French agrees with.
        noun: The `Noun` at its head, or None for a pronoun or a name.
        animate: Whether it can want or be able to do something.
        adjectives: The English adjectives in it.
        is_nominal: Whether its head is an adjective (*the old*).
        is_heavy: Whether a relative clause ends it.
    """

    def __init__(
        self, en, fr, person=3, plural=False, feminine=False, noun=None, animate=True
    ):
        super().__init__(en, fr)
        self.person = person
        self.plural = plural
        self.feminine = feminine
        self.noun = noun
        self.animate = animate
        self.adjectives = ()
        self.is_nominal = False
        self.is_heavy = False


class Draw:
    """Seeded choices, the same on every machine.

    Only `random()` is asked for: the one method whose sequence Python promises to keep.

    Args:
        generator: A `random.Random`.
        richness: How readily phrases grow: 1 for ordinary sentences, more for long
            ones.

    Attributes:
        nested: How many relative clauses surround the phrase being drawn.
        timed: Whether the sentence has opened with a time already.
    """

    def __init__(self, generator, richness=1.0):
        self._random = generator.random
        self.richness = richness
        self.nested = 0
        self.timed = False

    def chance(self, probability):
        """True with this probability."""
        return self._random() < probability

    def extra(self, probability):
        """True with a probability that grows with the richness."""
        return self._random() < min(0.9, probability * self.richness)

    def pick(self, items):
        """One of the items, each as likely as the others."""
        return items[int(self._random() * len(items))]

    def weighted(self, weights):
        """A key of the dictionary, as likely as its weight says."""
        point = self._random() * sum(weights.values())
        for key, weight in weights.items():
            point -= weight
            if point < 0:
                return key
        return key


def pair(english, tag, french, french_tag=None, before_vowel=None):
    """A phrase of one word in each language, linked."""
    target = Word(french, french_tag or tag, before_vowel)
    return Phrase([Word(english, tag).to(target)], [target])


def article(feminine, plural):
    """The French definite article."""
    if plural:
        return Word("les", "DET")
    return Word("la" if feminine else "le", "DET", "l'")


def preposition(english, french):
    """A phrase of a preposition, of one or more words in each language.

    *Near* is surely `près` and possibly its `de`; in *in front of*, *front* is surely
    `devant`, the others possibly.
    """
    targets = [
        Word(word, "ADV" if word == "près" else "ADP", "d'" if word == "de" else None)
        for word in french.split()
    ]
    words = [Word(word, "ADP") for word in english.split()]
    if len(words) == 1:
        words[0].to(targets[0]).maybe(*targets[1:])
    else:
        words[1].tag = "NOUN"
        words[1].to(*targets)
        words[0].maybe(*targets)
        words[-1].maybe(*targets)
    return Phrase(words, targets)


# ---------------------------------------------------------------- determiners

_POSSESSIVES = {
    "my": ("mon", "ma", "mes"),
    "your": ("votre", "votre", "vos"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}
_SINGULAR = {"the": 50, "a": 28, "this": 6, "that": 4, "possessive": 12, "every": 4}
_PLURAL = {
    "the": 42,
    "some": 14,
    "these": 6,
    "those": 4,
    "possessive": 12,
    "two": 7,
    "three": 5,
    "several": 5,
    "all": 5,
}
_MASS = {"the": 40, "some": 40, "this": 6, "possessive": 14}
_QUANTITIES = {"two": "deux", "three": "trois", "several": "plusieurs"}


def _choose_determiner(draw, noun, plural, negated, definite, specific):
    """Names a determiner that fits the noun and the place of the phrase."""
    if "sort" in noun.classes:
        kind = draw.pick(("these", "those") if plural else ("this", "that"))
    elif "kin" in noun.classes:
        kind = "possessive" if draw.chance(0.9) else "the"
    elif negated and draw.chance(0.5):
        kind = "any" if plural or noun.is_mass else "a"
    else:
        weights = _PLURAL if plural else _MASS if noun.is_mass else _SINGULAR
        kind = draw.weighted(weights)
        if (definite or negated) and kind in ("some", "every", "several", "all"):
            kind = "the"
        if specific and kind in ("a", "some"):
            kind = "the"
        if kind == "possessive" and "own" not in noun.classes:
            kind = "the"
    return draw.pick(tuple(_POSSESSIVES)) if kind == "possessive" else kind


def _determiner(kind, feminine, plural, mass, adjective_first, negated):
    """The determiner in both languages; `adjective_first` turns `des` into `de`."""
    form = 2 if plural else 1 if feminine else 0
    if kind in _POSSESSIVES:
        mine = _POSSESSIVES[kind]
        clash = mine[0] if mine[0] in ("mon", "son") and form == 1 else None
        target = Word(mine[form], "DET", clash)
        return Phrase([Word(kind, "PRON").to(target)], [target])
    if kind in _QUANTITIES:
        tag = "ADJ" if kind == "several" else "NUM"
        return pair(kind, tag, _QUANTITIES[kind], "DET" if tag == "ADJ" else "NUM")
    if kind in ("this", "that", "these", "those"):
        text = ("ce", "cette", "ces")[form]
        return pair(kind, "DET", text, before_vowel="cet" if form == 0 else None)
    if kind == "every":
        return pair("every", "DET", "chaque")
    if kind == "all":
        return pair("all", "DET", "toutes" if feminine else "tous", "ADJ").add(
            _determiner("the", feminine, plural, mass, adjective_first, negated)
        )
    targets = _indefinite(kind, feminine, mass, adjective_first, negated)
    if kind == "the":
        targets = [article(feminine, plural)]
    english = Word(kind, "DET", "an" if kind == "a" else None)
    return Phrase([english.to(targets[0]).maybe(*targets[1:])], targets)


def _indefinite(kind, feminine, mass, adjective_first, negated):
    """French for *a*, *some* and *any*."""
    if kind == "any" or (kind == "a" and negated):
        return [Word("de", "DET", "d'")]
    if kind == "a":
        return [Word("une" if feminine else "un", "DET")]
    if mass and feminine:
        return [Word("de", "DET"), Word("la", "DET", "l'")]
    if mass:
        return [Word("du", "DET")]
    return [Word("de", "DET", "d'") if adjective_first else Word("des", "DET")]


# ---------------------------------------------------------------- adjectives


def adjective_phrase(adjective, feminine, plural):
    """An adjective that agrees; *wooden* and *lead* become `en bois`, `en plomb`."""
    if adjective.material:
        words = [Word("en", "ADP"), Word(adjective.material, "NOUN")]
        tag = "NOUN" if adjective.english == "lead" else "ADJ"
        return Phrase([Word(adjective.english, tag).to(*words)], words)
    text = adjective.french[2 * plural + feminine]
    changes = not plural and not feminine
    before_vowel = adjective.before_vowel if changes else None
    return pair(adjective.english, "ADJ", text, before_vowel=before_vowel)


def _choose_adjectives(draw, noun):
    """At most one adjective of each place, the one before the noun first."""
    fitting = lexicon.adjectives(noun)
    chosen = []
    if fitting and draw.extra(0.32):
        first = draw.pick(fitting)
        chosen.append(first)
        others = [each for each in fitting if each.precedes != first.precedes]
        if others and draw.extra(0.12):
            chosen.append(draw.pick(others))
    return sorted(chosen, key=lambda each: not each.precedes)


# ---------------------------------------------------------------- noun phrases


def noun_phrase(
    draw,
    noun,
    *,
    plural=None,
    determiner=None,
    negated=False,
    definite=False,
    specific=False,
    plain=False,
):
    """A determiner, adjectives and a noun, or an owner's noun (*Anna's dog*).

    Args:
        draw: A `Draw`.
        noun: The `Noun`.
        plural: The number; drawn when None.
        determiner: The English determiner; drawn when None.
        negated: Whether it is the direct object of a negated verb (`pas de pain`).
        definite: Whether an indefinite plural or mass phrase must not come out.
        specific: Whether *a* and *some* must not come out.
        plain: Whether to leave out adjectives and owners.

    Returns:
        A `NounPhrase`.
    """
    if plural is None:
        plural = not noun.is_mass and draw.chance(0.32)
    adjectives = [] if plain else _choose_adjectives(draw, noun)
    owned = not (plain or determiner or noun.is_mass) and draw.extra(0.07)
    if owned and "own" in noun.classes and "person" not in noun.classes:
        return _owned_phrase(draw, noun, plural, adjectives)
    kind = determiner or _choose_determiner(
        draw, noun, plural, negated, definite, specific
    )
    if determiner is None and any(each.english == "right" for each in adjectives):
        kind = kind if kind in _POSSESSIVES else "the"
    first = any(each.precedes for each in adjectives)
    opening = _determiner(kind, noun.feminine, plural, noun.is_mass, first, negated)
    phrase = _head(opening, noun, plural, adjectives)
    for name in sorted(noun.classes & set(lexicon.COMPLEMENTS)):
        phrase.add(_complement(draw, name, plural))
    return phrase


def _complement(draw, name, plural):
    """*Of the river*, or a bare noun: *a glass of water*, *two kinds of birds*."""
    noun = draw.pick(lexicon.nouns(*lexicon.COMPLEMENTS[name]))
    of = preposition("of", "de")
    if name == "edge":
        return of.add(noun_phrase(draw, noun, plural=False, determiner="the"))
    plural = plural and not noun.is_mass
    return of.add(_head(Phrase(), noun, plural, []))


def _head(opening, noun, plural, adjectives):
    """Puts the determiner, the adjectives and the noun in each language's order."""
    target = Word(noun.french_plural if plural else noun.french, "NOUN")
    source = Word(noun.english_plural if plural else noun.english, "NOUN").to(target)
    source.maybe(*(word for word in opening.fr if word.tag == "DET"))
    en, fr, after = opening.en, opening.fr, []
    for adjective in adjectives:
        phrase = adjective_phrase(adjective, noun.feminine, plural)
        en = en + phrase.en
        if adjective.precedes:
            fr = fr + phrase.fr
        else:
            after = after + phrase.fr
    phrase = NounPhrase(
        en + [source],
        fr + [target] + after,
        plural=plural,
        feminine=noun.feminine,
        noun=noun,
        animate=bool(noun.classes & {"person", "animal", "insect"}),
    )
    phrase.adjectives = tuple(each.english for each in adjectives)
    return phrase


def _owned_phrase(draw, noun, plural, adjectives):
    """*The queen's horse*: `le cheval de la reine`."""
    if draw.chance(0.4):
        owner = name_phrase(draw)
    else:
        kin = draw.pick(lexicon.nouns("person"))
        owner = noun_phrase(draw, kin, plural=False, definite=True, plain=True)
    of = Word("de", "ADP", "d'")
    the = article(noun.feminine, plural)
    clitic = Word("'s", "PART").to(of).maybe(the)
    phrase = _head(Phrase(owner.en + [clitic], [the]), noun, plural, adjectives)
    phrase.fr += [of] + owner.fr
    return phrase


def name_phrase(draw):
    """A first name."""
    name, feminine = draw.pick(lexicon.NAMES)
    phrase = pair(name, "PROPN", name)
    return NounPhrase(phrase.en, phrase.fr, feminine=feminine)


def both(first, second):
    """*The man and the woman*: plural, and feminine only if both are."""
    words = Phrase(first.en, first.fr).add(pair("and", "CCONJ", "et"), second)
    feminine = first.feminine and second.feminine
    return NounPhrase(words.en, words.fr, plural=True, feminine=feminine)


def nominal_phrase(draw):
    """*The old*, *the young*: an adjective that stands for people."""
    names = ("old", "young", "rich")
    man = lexicon.nouns("man")[0]
    adjective = draw.pick(
        [each for each in lexicon.adjectives(man) if each.english in names]
    )
    the = article(False, True)
    old = pair(adjective.english, "ADJ", adjective.french[2], "NOUN")
    english = [Word("the", "DET").to(the), *old.en]
    phrase = NounPhrase(english, [the, *old.fr], plural=True)
    phrase.is_nominal = True
    return phrase


_SUBJECTS = (
    ("I", "je", "j'", 1, False, False),
    ("he", "il", None, 3, False, False),
    ("she", "elle", None, 3, False, True),
    ("we", "nous", None, 1, True, False),
    ("you", "vous", None, 2, True, False),
    ("they", "ils", None, 3, True, False),
)
_OBJECTS = (
    ("me", "me", "me", "moi", False, False),
    ("him", "le", "lui", "lui", False, False),
    ("her", "la", "lui", "elle", False, True),
    ("us", "nous", "nous", "nous", True, False),
    ("you", "vous", "vous", "vous", True, False),
    ("them", "les", "leur", "eux", True, False),
)
_ELIDED = {"me": "m'", "le": "l'", "la": "l'"}


def subject_pronoun(draw):
    """A personal pronoun as subject; groups count as masculine, *you* as plural."""
    english, french, elided, person, plural, feminine = draw.pick(_SUBJECTS)
    phrase = pair(english, "PRON", french, before_vowel=elided)
    return NounPhrase(phrase.en, phrase.fr, person, plural, feminine)


def object_pronoun(draw, case, subject):
    """A personal pronoun as object, never of the subject's person unless third.

    Args:
        draw: A `Draw`.
        case: "direct" (`le`), "indirect" (`lui`) or "strong" (`avec lui`).
        subject: The subject's `NounPhrase`.

    Returns:
        A `NounPhrase` of one word in each language.
    """
    own = {1: ("me", "us"), 2: ("you",), 3: ()}[subject.person]
    choices = [each for each in _OBJECTS if each[0] not in own]
    english, *forms, plural, feminine = draw.pick(choices)
    french = forms[("direct", "indirect", "strong").index(case)]
    elided = None if case == "strong" else _ELIDED.get(french)
    phrase = pair(english, "PRON", french, before_vowel=elided)
    return NounPhrase(phrase.en, phrase.fr, plural=plural, feminine=feminine)


def it_as_object(antecedent):
    """*It* or *them* for a phrase named before: `le`, `la` or `les`."""
    if antecedent.plural:
        phrase = pair("them", "PRON", "les")
    else:
        french = "la" if antecedent.feminine else "le"
        phrase = pair("it", "PRON", french, before_vowel="l'")
    return NounPhrase(
        phrase.en, phrase.fr, plural=antecedent.plural, feminine=antecedent.feminine
    )


def it_as_subject(antecedent):
    """*It* for a singular thing named before: `il` or `elle`."""
    phrase = pair("it", "PRON", "elle" if antecedent.feminine else "il")
    return NounPhrase(
        phrase.en, phrase.fr, feminine=antecedent.feminine, noun=antecedent.noun
    )


# ---------------------------------------------------------------- finish

_MERGED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au"}
_MERGED["à", "les"] = "aux"


def settle(phrase):
    """Settles what depends on the next word: *a/an*, elision, `du`, `des`, `au`, `aux`.

    Args:
        phrase: A whole sentence; its French words may be merged.

    Returns:
        Pair of lists: the English words, and for each French word the list of `Word`
        that it stands for (two for a contraction).
    """
    for word, following in zip(phrase.en, phrase.en[1:]):
        if word.before_vowel and following.text[0].lower() in "aeiou":
            word.text = word.before_vowel
    for word, following in zip(phrase.fr, phrase.fr[1:]):
        if word.before_vowel and lexicon.starts_with_vowel(following.text):
            word.text = word.before_vowel
        elif word.text == "si" and following.text in ("il", "ils"):
            word.text = "s'"
    groups = []
    for word in phrase.fr:
        last = groups[-1][0] if groups else None
        merged = last and _MERGED.get((last.text, word.text))
        if merged and last.tag == "ADP" and word.tag == "DET":
            last.text = merged
            groups[-1].append(word)
        else:
            groups.append([word])
    return phrase.en, groups
