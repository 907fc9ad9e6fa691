"""The English-French grammar: its sentences, links, tags, corpora and splits."""

import collections
import hashlib
import os
import pathlib
import random
import subprocess
import sys

import pytest

from keras_bahdanau import grammar
from keras_bahdanau.grammar import clauses, lexicon, sample_corpus, sample_splits, verbs
from keras_bahdanau.grammar.corpus import finish
from keras_bahdanau.grammar.phrases import (
    Draw,
    NounPhrase,
    Phrase,
    Word,
    noun_phrase,
    pair,
    settle,
)

UPOS = set(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ VERB".split()
)


@pytest.fixture(scope="module")
def corpus():
    return sample_corpus(5003, seed=11)


@pytest.fixture(scope="module")
def long_corpus():
    return sample_corpus(307, seed=5, max_length=60)


def find_noun(english):
    return next(each for each in lexicon.nouns() if each.english == english)


def find_verb(base):
    return next(each for each in lexicon.verbs() if each.base == base)


# ------------------------------------------------------------------ the lexicon


def test_classes_that_words_ask_for_exist():
    classes = set().union(*(noun.classes for noun in lexicon.nouns()))
    for verb in lexicon.verbs():
        assert verb.subjects | verb.objects <= classes, verb.base
    for noun in lexicon.nouns():
        for adjective in lexicon.adjectives(noun):
            assert adjective.classes & noun.classes


def test_readings_of_a_noun_or_adjective_are_told_apart_by_its_company():
    """No verb takes both nouns of one name, no noun both adjectives of one name."""
    by_name = collections.defaultdict(list)
    for noun in lexicon.nouns():
        by_name[noun.english].append(noun)
    for nouns in by_name.values():
        for one in nouns:
            for other in nouns:
                if one is other or one.french == other.french:
                    continue
                for verb in lexicon.verbs():
                    both = verb.objects & one.classes, verb.objects & other.classes
                    assert not all(both), (verb.base, one.english)
    for noun in lexicon.nouns():
        names = [each.english for each in lexicon.adjectives(noun)]
        assert len(names) == len(set(names)), (noun.english, names)


@pytest.mark.parametrize(
    "participle, feminine, plural, expected",
    [
        ("lu", False, False, "lu"),
        ("lu", True, False, "lue"),
        ("lu", False, True, "lus"),
        ("lu", True, True, "lues"),
        ("pris", False, True, "pris"),
        ("pris", True, True, "prises"),
    ],
)
def test_participles_agree(participle, feminine, plural, expected):
    assert lexicon.inflect_participle(participle, feminine, plural) == expected


@pytest.mark.parametrize(
    "word, expected",
    [
        ("eau", True),
        ("Anna", True),
        ("œuf", True),
        ("île", True),
        ("homme", True),
        ("hôtel", True),
        ("héros", False),
        ("chien", False),
        ("y", True),
    ],
)
def test_words_let_the_article_elide_or_not(word, expected):
    assert lexicon.starts_with_vowel(word) is expected


# ------------------------------------------------------------------ phrases


@pytest.mark.parametrize(
    "english, determiner, plural, source, target",
    [
        ("dog", "the", False, "the dog", "le chien"),
        ("hero", "the", False, "the hero", "le héros"),
        ("egg", "a", False, "an egg", "un œuf"),
        ("hotel", "this", False, "this hotel", "cet hôtel"),
        ("island", "that", False, "that island", "cette île"),
        ("actress", "my", False, "my actress", "mon actrice"),
        ("sister", "her", False, "her sister", "sa sœur"),
        ("horse", "two", True, "two horses", "deux chevaux"),
        ("key", "all", True, "all the keys", "toutes les clés"),
        ("bread", "some", False, "some bread", "du pain"),
        ("soup", "some", False, "some soup", "de la soupe"),
        ("water", "some", False, "some water", "de l' eau"),
        ("apple", "some", True, "some apples", "des pommes"),
    ],
)
def test_noun_phrases_agree(english, determiner, plural, source, target):
    phrase = noun_phrase(
        Draw(random.Random(1)),
        find_noun(english),
        determiner=determiner,
        plural=plural,
        plain=True,
    )
    words, groups = settle(phrase)
    assert " ".join(word.text for word in words) == source
    assert " ".join(group[0].text for group in groups) == target


@pytest.mark.parametrize(
    "preposition, determiner, english, plural, expected",
    [
        ("de", "the", "dog", False, "du chien"),
        ("de", "the", "hero", False, "du héros"),
        ("de", "the", "man", False, "de l' homme"),
        ("de", "the", "girl", False, "de la fille"),
        ("de", "the", "girl", True, "des filles"),
        ("de", "a", "dog", False, "d' un chien"),
        ("à", "the", "park", False, "au parc"),
        ("à", "the", "school", False, "à l' école"),
        ("à", "the", "friend", True, "aux amis"),
        ("à", "this", "park", False, "à ce parc"),
    ],
)
def test_prepositions_and_articles_merge(
    preposition, determiner, english, plural, expected
):
    phrase = pair("of", "ADP", preposition, before_vowel="d'" * (preposition == "de"))
    noun = noun_phrase(
        Draw(random.Random(1)),
        find_noun(english),
        determiner=determiner,
        plural=plural,
        plain=True,
    )
    _, groups = settle(phrase.add(noun))
    assert " ".join(group[0].text for group in groups) == expected


def test_a_merged_word_has_the_links_of_both():
    of = pair("of", "ADP", "de", before_vowel="d'")
    noun = noun_phrase(
        Draw(random.Random(1)),
        find_noun("dog"),
        determiner="the",
        plural=False,
        plain=True,
    )
    result = finish(*settle(of.add(noun)))
    assert result.source_tokens == ("Of", "the", "dog")
    assert result.target_tokens == ("Du", "chien")
    assert result.links == ((0, 0), (1, 0), (2, 1))


def test_a_pronoun_is_no_article():
    """`De le voir` stays as it is."""
    phrase = Phrase([Word("to", "PART")], [Word("de", "ADP"), Word("le", "PRON")])
    _, groups = settle(phrase)
    assert [group[0].text for group in groups] == ["de", "le"]


def say(base, subject, tense, negation=None, **kwargs):
    """The words of a verb group in both languages, settled."""
    manner = verbs.Manner(tense, negation)
    group = verbs.verb_group(find_verb(base), subject, manner, **kwargs)
    words, groups = settle(clauses.assemble(subject, group))
    return " ".join(word.text for word in words), " ".join(g[0].text for g in groups)


def person(english):
    """A pronoun, feminine, as the subject of a verb."""
    french, number, plural = {
        "I": ("je", 1, False),
        "she": ("elle", 3, False),
        "we": ("nous", 1, True),
        "they": ("elles", 3, True),
    }[english]
    elided = "j'" if french == "je" else None
    words = pair(english, "PRON", french, before_vowel=elided)
    return NounPhrase(words.en, words.fr, number, plural, feminine=True)


@pytest.mark.parametrize(
    "base, tense, negation, english, french",
    [
        ("eat", "present", None, "she eats", "elle mange"),
        ("eat", "progressive", None, "she is eating", "elle mange"),
        ("eat", "past", None, "she ate", "elle a mangé"),
        ("eat", "perfect", None, "she has eaten", "elle a mangé"),
        ("eat", "future", None, "she will eat", "elle mangera"),
        ("eat", "near", None, "she is going to eat", "elle va manger"),
        ("eat", "can", None, "she can eat", "elle peut manger"),
        ("eat", "want", None, "she wants to eat", "elle veut manger"),
        ("eat", "present", "not", "she does not eat", "elle ne mange pas"),
        ("eat", "past", "not", "she did not eat", "elle n' a pas mangé"),
        ("eat", "past", "never", "she never ate", "elle n' a jamais mangé"),
        ("eat", "present", "no longer", "she no longer eats", "elle ne mange plus"),
        ("eat", "can", "not", "she cannot eat", "elle ne peut pas manger"),
        ("eat", "want", "not", "she does not want to eat", "elle ne veut pas manger"),
        ("come", "past", None, "they came", "elles sont venues"),
        ("get", "past", None, "she got up", "elle s' est levée"),
        ("get", "near", None, "we are going to get up", "nous allons nous lever"),
        ("live", "past", None, "she lived", "elle habitait"),
        ("open", "present", None, "I open", "j' ouvre"),
        ("need", "present", "not", "she does not need", "elle n' a pas besoin de"),
        ("enter", "past", None, "they entered", "elles sont entrées dans"),
    ],
)
def test_verbs_are_conjugated(base, tense, negation, english, french):
    subject = person(english.split()[0])
    assert say(base, subject, tense, negation) == (english, french)


def test_object_pronouns_stand_before_the_verb_and_the_participle_agrees():
    her = pair("her", "PRON", "la", before_vowel="l'")
    her = NounPhrase(her.en, her.fr, feminine=True)
    found = say("find", person("she"), "past", "not", clitic=her, agree=her)
    assert found[1] == "elle ne l' a pas trouvée"
    her.fr[0].text = "la"
    found = say("find", person("she"), "can", clitic=her)
    assert found[1] == "elle peut la trouver"


# ------------------------------------------------------------------ sentences


def test_every_english_sentence_has_one_translation():
    """Also across seeds: what a model learns is a function."""
    translations = {}
    for seed in (1, 2, 3):
        generator = random.Random(seed)
        for _ in range(2003):
            sentence = grammar.draw_pair(generator)
            if sentence is not None:
                known = translations.setdefault(sentence.source, sentence.target)
                assert known == sentence.target, sentence.source


def test_sentences_have_no_gap_and_end_in_a_mark(corpus, long_corpus):
    for sentence in corpus + long_corpus:
        assert sentence.source[0].isupper() and sentence.target[0].isupper()
        assert (
            sentence.source[-1] in ".?" and sentence.source[-1] == sentence.target[-1]
        )
        assert "  " not in sentence.source + sentence.target
        assert len(sentence.source_tokens) == len(sentence.source_tags)
        assert len(sentence.target_tokens) == len(sentence.target_tags)
        assert set(sentence.source_tags) | set(sentence.target_tags) <= UPOS


def test_links_are_sorted_positions_and_cover_the_content_words(corpus):
    for sentence in corpus:
        for links in (sentence.links, sentence.possible_links):
            assert list(links) == sorted(set(links))
            assert all(0 <= i < len(sentence.source_tokens) for i, _ in links)
            assert all(0 <= j < len(sentence.target_tokens) for _, j in links)
        assert not set(sentence.links) & set(sentence.possible_links)
        linked = {i for i, _ in sentence.links}
        for i, tag in enumerate(sentence.source_tags):
            if tag in ("NOUN", "VERB", "ADJ", "PROPN", "NUM", "ADV"):
                assert i in linked, sentence
        linked = {j for _, j in sentence.links}
        for j, tag in enumerate(sentence.target_tags):
            if tag in ("NOUN", "VERB", "ADJ", "PROPN", "NUM"):
                assert j in linked, sentence


def test_every_target_word_has_some_link(corpus):
    for sentence in corpus:
        linked = {j for _, j in sentence.links + sentence.possible_links}
        assert linked == set(range(len(sentence.target_tokens))), sentence


MUST_MERGE = {("de", "les"), ("à", "le"), ("à", "les"), ("si", "il"), ("si", "ils")}


def test_nothing_that_must_elide_or_merge_is_left(corpus, long_corpus):
    for sentence in corpus + long_corpus:
        tokens = [token.lower() for token in sentence.target_tokens]
        for first, second in zip(tokens, tokens[1:]):
            if first in ("je", "ne", "le", "la", "de", "que", "ma", "sa", "ce"):
                assert not lexicon.starts_with_vowel(second), sentence.target
            if first.endswith("'"):
                assert lexicon.starts_with_vowel(second) or first == "s'"
            assert (first, second) not in MUST_MERGE, sentence.target
        english = [token.lower() for token in sentence.source_tokens]
        for first, second in zip(english, english[1:]):
            if first in ("a", "an"):
                assert (first == "an") == (second[0] in "aeiou"), sentence.source


def test_negation_has_two_parts(corpus):
    seconds = {"pas", "jamais", "plus"}
    for sentence in corpus:
        tokens = [token.lower() for token in sentence.target_tokens]
        opens = sum(token in ("ne", "n'") for token in tokens)
        closes = sum(
            token in seconds
            for token, tag in zip(tokens, sentence.target_tags)
            if tag == "ADV"
        )
        compared = sum(
            first == "plus" and "ADJ" in tags
            for first, tags in zip(
                tokens, zip(sentence.target_tags[1:], sentence.target_tags[2:] + ("",))
            )
        )
        assert opens <= closes <= opens + compared + 1, sentence.target


def test_ambiguous_words_have_the_readings_that_context_must_resolve(corpus):
    readings = collections.defaultdict(set)
    for sentence in corpus:
        for token, tag in zip(sentence.source_tokens, sentence.source_tags):
            readings[token.lower()].add(tag)
    assert readings["lead"] == {"NOUN", "VERB", "ADJ"}
    assert readings["light"] == {"NOUN", "VERB", "ADJ"}
    assert readings["that"] == {"DET", "PRON", "SCONJ"}
    for word in "man watch saw book can train park fly ring water cook".split():
        assert len(readings[word]) >= 2, word
    assert {"VERB"} < readings["left"] and {"ADV"} < readings["well"]


@pytest.mark.parametrize(
    "word, tag, translations",
    [
        ("lead", "NOUN", {"laisse", "plomb", "en"}),
        ("light", "ADJ", {"léger", "légère", "légers", "légères"}),
        ("light", "NOUN", {"lumière"}),
        ("watch", "NOUN", {"montre"}),
        ("saw", "NOUN", {"scie"}),
        ("match", "NOUN", {"match", "allumette"}),
        ("bank", "NOUN", {"banque", "rive"}),
        ("well", "NOUN", {"puits"}),
        ("well", "ADV", {"bien"}),
        ("will", "NOUN", {"testament"}),
        ("hard", "ADJ", {"dur", "durs", "difficile", "difficiles"}),
    ],
)
def test_readings_translate_differently(corpus, word, tag, translations):
    found = set()
    for sentence in corpus:
        for i, j in sentence.links:
            if (sentence.source_tokens[i], sentence.source_tags[i]) == (word, tag):
                found.add(sentence.target_tokens[j])
    assert found and found <= translations


def test_the_old_man_the_boats(corpus):
    """The garden path sentence: *old* is the noun, *man* the verb."""
    tags = collections.defaultdict(set)
    for sentence in corpus:
        words = [token.lower() for token in sentence.source_tokens]
        for first, word in enumerate(words):
            if words[first - 2 : first] == ["the", "old"] and word == "man":
                tags[sentence.source_tags[first]].add(sentence.target)
    assert set(tags) == {"NOUN", "VERB"}
    assert all("vieux" in french and "manœuvr" in french for french in tags["VERB"])
    assert all("vieil homme" in french for french in tags["NOUN"])


# ------------------------------------------------------------------ corpora


def test_a_corpus_is_distinct_and_within_its_lengths(corpus, long_corpus):
    for pairs, longest in ((corpus, 16), (long_corpus, 60)):
        assert len({each.source for each in pairs}) == len(pairs)
        assert len({each.target for each in pairs}) == len(pairs)
        lengths = [len(each.source_tokens) for each in pairs]
        lengths += [len(each.target_tokens) for each in pairs]
        assert 4 <= min(lengths) and max(lengths) <= longest


def test_lengths_spread_over_the_range(corpus, long_corpus):
    mean = sum(len(each.source_tokens) for each in corpus) / len(corpus)
    assert 8 < mean < 11
    long = [len(each.source_tokens) for each in long_corpus]
    for low in range(10, 50, 10):
        assert sum(low <= length < low + 10 for length in long) > len(long) / 12


def test_vocabularies_are_modest(corpus):
    source = {token for each in corpus for token in each.source_tokens}
    target = {token for each in corpus for token in each.target_tokens}
    assert 350 < len(source) < 500 and 450 < len(target) < 700


def test_a_larger_corpus_continues_a_smaller_one(corpus):
    assert sample_corpus(101, seed=11) == corpus[:101]
    assert sample_corpus(101, seed=12) != corpus[:101]


# Change the builder's version (keras_bahdanau/tf/grammar_builder.py) with this one.
FINGERPRINT = "bf043dd7a7364615"


def fingerprint():
    pairs = sample_corpus(2003, seed=7) + sample_corpus(101, seed=7, max_length=60)
    return hashlib.sha256(repr(pairs).encode("utf-8")).hexdigest()[:16]


def test_corpora_are_the_same_on_every_machine():
    assert fingerprint() == FINGERPRINT


def test_corpora_do_not_depend_on_the_process_and_need_no_package():
    """Neither on the hash seed of strings nor on the global random state."""
    folder = pathlib.Path(grammar.__file__).parent.parent
    code = f"""
import hashlib, random, sys, types
package = types.ModuleType("keras_bahdanau")
package.__path__ = [{str(folder)!r}]
sys.modules["keras_bahdanau"] = package
random.seed(3)
from keras_bahdanau.grammar import sample_corpus
print(hashlib.sha256(repr(sample_corpus(211, 7)).encode("utf-8")).hexdigest())
print(sorted(set(sys.modules) & {{"keras", "numpy", "tensorflow"}}))
"""
    here = hashlib.sha256(repr(sample_corpus(211, 7)).encode("utf-8")).hexdigest()
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    assert run.stdout.split() == [here, "[]"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(size=0), "`size` must be at least 1. Received: size=0"),
        (dict(size=5, max_length=7), "`max_length` at least 4 above it"),
        (dict(size=5, min_length=2), "`min_length` must be 4 or more"),
    ],
)
def test_bad_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample_corpus(**arguments)


# ------------------------------------------------------------------ splits


@pytest.fixture(scope="module")
def parts():
    return sample_splits(2003, 101, 103, seed=11)


def readings(pairs):
    return {
        (side, *reading)
        for each in pairs
        for side, reading in (
            *(("en", one) for one in zip(each.source_tokens, each.source_tags)),
            *(("fr", one) for one in zip(each.target_tokens, each.target_tags)),
        )
    }


def test_splits_share_no_sentence(parts):
    sizes = {name: len(part) for name, part in parts.items()}
    assert sizes == {"train": 2003, "validation": 101, "test": 103}
    for attribute in ("source", "target"):
        sentences = [
            {getattr(each, attribute) for each in part} for part in parts.values()
        ]
        assert sum(map(len, sentences)) == len(set().union(*sentences)) == 2207


def test_held_out_sentences_have_only_words_and_readings_of_the_training_part(parts):
    assert readings(parts["validation"] + parts["test"]) <= readings(parts["train"])


def test_held_out_sentences_are_as_long_as_the_others(parts):
    means = [
        sum(len(each.source_tokens) for each in part) / len(part)
        for part in parts.values()
    ]
    assert max(means) - min(means) < 1.0


def test_the_training_part_is_the_corpus_of_the_seed(parts, corpus):
    assert parts["train"] == corpus[:2003]


def test_another_seed_splits_differently():
    one, same, other = (sample_splits(101, 13, 17, seed=seed) for seed in (1, 1, 2))
    assert one == same
    for name in one:
        assert len(set(one[name]) & set(other[name])) < len(one[name]) / 2


def test_even_tiny_splits_hold_what_they_promise():
    parts = sample_splits(30, 0, 3, seed=3)
    assert [len(part) for part in parts.values()] == [30, 0, 3]
    assert readings(parts["test"]) <= readings(parts["train"])


@pytest.mark.parametrize(
    "sizes, message",
    [
        ((0, 5, 5), "`train` must be at least 1.*Received: train=0"),
        ((5, -1, 5), "at least 0. Received: train=5, validation=-1"),
        ((1, 0, 500), "Received none that is new in 211 tries"),
    ],
)
def test_splits_that_cannot_be_made_are_refused(sizes, message, monkeypatch):
    monkeypatch.setattr("keras_bahdanau.grammar.corpus._PATIENCE", 211)
    with pytest.raises(ValueError, match=message):
        sample_splits(*sizes)
