"""Beams, lists of the best, and unknown words, from strings to strings."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
import translators
from translators import CODEC

from keras_bahdanau import RNNEncoderDecoder
from keras_bahdanau.search import SearchResult
from keras_bahdanau.tf import SubwordCodec, Translator, WordCodec, load_translator

TEXTS = ["the dog sees the cat, the dog sleeps.", "a dog", "", "is the cat asleep?"]
BEAMS = {
    "num_beams": 3,
    "num_results": 3,
    "length_penalty": "gnmt",
    "coverage_penalty": 0.1,
    "max_length_factor": 1.0,
    "max_length_offset": 3,
}
COVERAGE = {"coverage_penalty": 0.5}
# The same weights each time.
real = functools.partial(translators.real, seed=2)


class Looking:
    """Gives back the ids of the source, and looks at a given place for each."""

    built = True
    variables = ()

    def __init__(self, size, places):
        self.source_vocabulary_size = self.target_vocabulary_size = size
        self.places = places
        self.align = lambda source_ids, target_ids: target_ids

    def generate(self, source_ids, max_length, forbidden_ids=()):
        batch_size, width = tf.unstack(tf.shape(source_ids))
        ids = tf.pad(source_ids, [[0, 0], [0, max_length]])[:, :max_length]
        places = tf.pad(self.places, [[0, max_length]])[:max_length]
        weights = tf.one_hot(places, width)[None] + 0.1
        lengths = tf.reduce_sum(tf.cast(ids > 0, tf.int32), axis=1)
        return SearchResult(
            ids,
            lengths,
            tf.zeros([batch_size]),
            tf.zeros(tf.shape(ids)),
            tf.tile(weights, [batch_size, 1, 1]),
        )


def looking(places, codec=CODEC, **options):
    model = Looking(codec.vocabulary_size, places)
    return Translator(model, codec, codec, replace_unknown=True, **options)


class Saying(Looking):
    """Says given ids whatever the source, and looks at a given place for each."""

    def __init__(self, codecs, ids, places):
        super().__init__(1, places)
        source, target = codecs
        self.source_vocabulary_size = source.vocabulary_size
        self.target_vocabulary_size = target.vocabulary_size
        self.ids = ids

    def generate(self, source_ids, max_length, forbidden_ids=()):
        found = super().generate(source_ids, max_length)
        ids = tf.pad(tf.constant([self.ids]), [[0, 0], [0, max_length]])[:, :max_length]
        lengths = tf.fill([tf.shape(source_ids)[0]], len(self.ids))
        ids = tf.tile(ids, [tf.shape(source_ids)[0], 1])
        return found._replace(token_ids=ids, lengths=lengths)


def saying(tokens, places, source=CODEC, target=CODEC, **options):
    """A translator that says tokens of the target, `"?"` for an unknown one."""
    known = target.ids_to_tokens(
        [[token_id] for token_id in range(target.vocabulary_size)]
    )
    known = [row[0].decode() if row else "" for row in known.to_list()]
    ids = [target.unk_id if token == "?" else known.index(token) for token in tokens]
    model = Saying((source, target), [*ids, target.end_id], places)
    return Translator(model, source, target, replace_unknown=True, **options)


def assert_fits(one, count):
    """One token under each id, none of them empty, and blanks one by one."""
    assert len(one.target_tokens) == count and "" not in one.target_tokens
    assert len(one.log_probs) == count + 1 == len(one.attention_weights)
    assert one.text == " ".join(one.text.split())


def test_the_best_is_the_first_of_the_list_and_what_the_model_finds():
    translator = real(**BEAMS)
    best = translator.translate(TEXTS)
    lists = translator.translate_nbest(TEXTS)
    for text, one, found in zip(TEXTS, best, lists):
        assert one.text == found[0].text and one.score == found[0].score
        scores = [each.score for each in found]
        assert scores == sorted(scores, reverse=True)
        if not text:
            assert one[:4] == ("", 0.0, [], [])
            assert one.attention_weights.shape == (0, 1) and len(one.log_probs) == 0
            assert len(found) == 1
            continue
        ids = CODEC.encode([text]).to_tensor()
        limit = int(ids.shape[1]) - 1 + 3
        options = {name: BEAMS[name] for name in list(BEAMS)[1:4]}
        result = translator.model.beam_search(ids, 3, limit, **options)
        np.testing.assert_allclose(scores, result.scores[0], atol=1e-4)
        for each, token_ids in zip(found, result.token_ids[0]):
            assert each.text.encode() == CODEC.decode(token_ids[None])[0]
            assert each.attention_weights.shape[1] == len(each.source_tokens) + 1


def test_a_beam_finds_what_greedy_search_misses():
    options = {"max_length_factor": 1.0, "max_length_offset": 3}
    greedy = real(**options).translate(TEXTS[:2])
    beams = real(**options, num_beams=40).translate(TEXTS[:2])
    ends = [
        one for one in greedy if len(one.attention_weights) > len(one.target_tokens)
    ]
    for one in ends:
        assert beams[greedy.index(one)].score >= one.score - 1e-5
    assert [one.text for one in beams] != [one.text for one in greedy]


def test_beams_are_saved_exported_and_can_be_changed(tmp_path):
    translator = real(**BEAMS)
    translator.save(tmp_path / "saved")
    translator.export(tmp_path / "exported")
    expected = translator.translate_nbest(TEXTS)
    for name in ("saved", "exported"):
        found = load_translator(tmp_path / name).translate_nbest(TEXTS)
        for mine, other in zip(expected, found, strict=True):
            assert [one.text for one in mine] == [one.text for one in other]
            np.testing.assert_allclose(
                [one.score for one in mine], [one.score for one in other], atol=1e-4
            )
    changed = load_translator(tmp_path / "saved", num_results=1, num_beams=2)
    assert {len(found) for found in changed.translate_nbest(TEXTS)} == {1}
    assert changed.settings == translator.settings._replace(num_results=1, num_beams=2)
    with pytest.raises(ValueError, match="settled.*num_beams"):
        load_translator(tmp_path / "exported", num_beams=2)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    outputs = served.signatures["nbest"](strings=tf.constant(TEXTS))
    assert outputs["translations"].shape == (len(TEXTS), 3)


def test_a_stream_is_read_as_it_is_needed():
    translator, read = real(**BEAMS), []

    def lines():
        for number in itertools.count():
            read.append(number)
            yield TEXTS[number % len(TEXTS)]

    stream = translator.stream(lines(), chunk_size=6)
    found = [next(stream) for _ in range(7)]
    assert len(read) == 12
    texts = [one.text for one in translator.translate(TEXTS)]
    assert [one.text for one in found] == [*texts, *texts][:7]
    assert [len(each) for each in translator.stream(TEXTS, nbest=True)] == [3, 3, 1, 3]
    with pytest.raises(ValueError, match="one string"):
        next(translator.stream("the dog"))
    with pytest.raises(ValueError, match="chunk_size"):
        next(translator.stream(TEXTS, chunk_size=0))


def test_serving_beams_is_traced_once_and_the_batch_changes_nothing():
    translator = real(**BEAMS)
    together = translator.translate(TEXTS)
    for text, one in zip(TEXTS, together):
        (alone,) = translator.translate([text])
        assert alone.text == one.text
        assert alone.score == pytest.approx(one.score, abs=1e-4)
    assert translator.translate([]) == []
    assert translator.serve.experimental_get_tracing_count() == 1


def test_an_unknown_word_becomes_the_word_it_looked_at():
    # The third word looks at the second, the fourth at the end token.
    translator = looking([0, 1, 1, 4])
    found = translator.translate(["the zebra yawns loudly"])[0]
    assert found.target_tokens[:3] == ["the", "zebra", "zebra"]
    # Never at the end token: at the first of the others, which are equal.
    assert found.text == "the zebra zebra the"
    assert translator(["the dog sleeps"]) == ["the dog sleeps"]
    assert translator([""]) == [""]


def test_an_unknown_word_of_a_short_text_is_not_taken_from_its_padding():
    texts = ["zebra", "the dog sees the cat, the dog sleeps."]
    assert looking([5])(texts)[0] == "zebra"


def test_a_dictionary_translates_what_was_looked_at(tmp_path):
    translator = looking([0, 1, 2], dictionary={"zebra": "zèbre", "the": "le"})
    assert translator(["the zebra yawns"]) == ["the zèbre yawns"]
    saved = real(replace_unknown=True, dictionary={"zebra": "zèbre"})
    saved.save(tmp_path / "saved")
    saved.export(tmp_path / "exported")
    texts = ["the zebra yawns", "a zebra"]
    for name in ("saved", "exported"):
        assert load_translator(tmp_path / name)(texts) == saved(texts)
    assert "<unk>" not in "".join(saved(texts))


LINES = ["the dog sees a cat .", "a small dog sleeps here", "the house is big, old"]
PIECES = SubwordCodec.train(LINES, vocabulary_size=28)
LOWER = WordCodec.train(LINES, lowercase=True)


def test_a_copied_word_is_spelled_as_in_the_source(tmp_path):
    translator = saying(["?", "sees", "?"], [0, 1, 2], source=LOWER)
    assert translator(["NATO sees McDonald"]) == ["NATO sees McDonald"]
    for words in ({"mcdonald": "Mac"}, {"McDonald": "Mac", "mcdonald": "no"}):
        translator = saying(["?", "sees", "?"], [0, 1, 2], LOWER, dictionary=words)
        assert translator(["NATO sees McDonald"]) == ["NATO sees Mac"]


# The source is split as "▁ d o g ▁" and so on: piece by piece, unlike its words.
TEXT = "the Żółw-Łódź (Ω)"


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_each_piece_knows_its_whole_word(lowercase, byte_fallback):
    codec = SubwordCodec.train(
        LINES,
        284 if byte_fallback else 28,
        lowercase=lowercase,
        byte_fallback=byte_fallback,
    )
    texts = [TEXT, "", "sleeps? Yes 7", "İİ house"]
    pieces, words = codec.tokenize(texts).to_list(), codec.whole_words(texts).to_list()
    assert list(map(len, pieces)) == list(map(len, words))
    # Without bytes "(Ω)" is one piece.
    ends = ["(", "Ω", ")"] if byte_fallback else ["(", "Ω"]
    expected = [["the", "Żółw-Łódź", *ends], [], ["sleeps", "?", "Yes", "7"]]
    for row, names in zip(words, [*expected, ["İİ", "house"]]):
        merged = [word.decode() for word, _ in itertools.groupby(row)]
        assert [word.strip("\uffed\u2581") for word in merged] == names
    assert codec.whole_words(tf.constant([], tf.string)).nrows() == 0


def test_subwords_copy_the_whole_word_of_the_heaviest_piece():
    whole = [word.decode() for word in PIECES.whole_words([TEXT]).to_list()[0]]
    count = len(whole)
    places = [place for place in range(count) for _ in "▁?"]
    found = saying(["▁", "?"] * count, places, PIECES, PIECES).translate([TEXT])[0]
    assert found.text == " ".join(word.strip("\uffed\u2581") for word in whole)
    assert_fits(found, 2 * count)


@pytest.mark.parametrize(
    "source, target, tokens, expected",
    [
        (CODEC, PIECES, ["?", "?", "▁s", "?"], "zebra zebra s zebra"),
        (PIECES, PIECES, ["▁s", "▁", "?", "▁", "▁s"], "s zebra s"),
        (LOWER, PIECES, ["▁", "?", ",", "?"], "zebra,zebra"),
        (PIECES, CODEC, ["the", "?", ",", "?", "."], "the zebra, zebra."),
        (CODEC, CODEC, ["the", "?", ",", "?", "."], "the zebra, zebra."),
    ],
)
def test_codecs_of_two_kinds_space_their_words(source, target, tokens, expected):
    translator = saying(tokens, [0] * 9, source, target)
    found = translator.translate(["zebra yawns"])[0]
    assert found.text == expected
    assert_fits(found, len(tokens))
    translator = saying(tokens, [0] * 9, source, target, dictionary={"zebra": "le  zo"})
    found = translator.translate(["zebra yawns"])[0]
    assert found.text == expected.replace("zebra", "le zo")
    assert_fits(found, len(tokens))


def test_an_exported_translator_copies_whole_words(tmp_path):
    options = {"replace_unknown": True, "dictionary": {"zebra": "zèbre"}}
    translator = real(PIECES, **options, forbidden_words=["s"], num_beams=2)
    translator.export(tmp_path / "exported")
    texts = ["Zebra yawns, 7 ŻÓŁW", "", "(Ω)"]
    assert load_translator(tmp_path / "exported")(texts) == translator(texts)


def test_no_forbidden_word_comes_back_as_a_copy():
    tokens, text = ["the", "?"], "zebra yawns"
    # It looks at "zebra" most, then at all others alike.
    for target in (CODEC, WordCodec(CODEC.words, lowercase=True)):
        for word in ("zebra", "Zebra")[: 1 + target.lowercase]:
            found = saying(tokens, [0, 0], target=target, forbidden_words=[word])
            assert found([text]) == ["the yawns"]
    found = saying(tokens, [0, 0], forbidden_words=["zebra", "yawns"])
    assert found([text]) == ["the <unk>"]
    assert_fits(found.translate([text])[0], 2)
    for value in ("zèbre", "un zèbre", "zèbre."):
        words = {"zebra": value}
        found = saying(tokens, [0, 0], dictionary=words, forbidden_words=["zèbre"])
        assert found([text]) == ["the yawns"]


def test_subwords_replace_unknown_words_too():
    codec = SubwordCodec.train(TEXTS[:1], vocabulary_size=20)
    translator = looking(list(range(40)), codec)
    assert "<unk>" in codec.decode(codec.encode(["the dog 7"])).numpy()[0].decode()
    assert translator(["the dog 7"])[0].split() == ["the", "dog", "7"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_beams": 0}, "num_beams"),
        ({"num_results": 2}, "num_results=2, num_beams=1"),
        ({"dictionary": {"a": "b"}}, "replace_unknown=True"),
        ({"dictionary": [("a", "b")], "replace_unknown": True}, "`dictionary` must be"),
        ({"dictionary": {1: 2}, "replace_unknown": True}, "strings. Received: {1: 2}"),
        ({"dictionary": {"a": b"b"}, "replace_unknown": True}, "to strings"),
        ({"max_length": 2.5}, "`max_length` must be an integer.*2.5"),
        ({"num_beams": "3"}, "`num_beams` must be an integer.*'3'"),
        ({"no_repeat_ngram": 1.5}, "`no_repeat_ngram` must be an integer.*1.5"),
        ({"max_length_factor": float("nan")}, "`max_length_factor`.*nan"),
        ({"num_beams": 2, "alpha": 1.0}, "alpha=1.0, length_penalty='none'"),
        ({"num_beams": 2, "coverage_penalty": float("nan")}, "coverage_penalty=nan"),
        ({"num_beams": 2, "length_penalty": "long"}, "length_penalty='long'"),
        ({"num_beams": 2, "coverage_penalty": -1}, "coverage_penalty=-1"),
        ({"length_penalty": "average"}, "length_penalty='average'.*num_beams=1"),
        ({"alpha": 0.5}, "alpha=0.5.*num_beams=1"),
        ({"coverage_penalty": 0.5}, "coverage_penalty=0.5 with num_beams=1"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        real(**options)


def test_beams_need_a_model_that_can():
    model = Looking(CODEC.vocabulary_size, [0])
    with pytest.raises(ValueError, match="`beam_search`. Received a Looking"):
        Translator(model, CODEC, CODEC, num_beams=2)


def test_a_model_without_attention_replaces_no_word():
    for options in ({"replace_unknown": True}, {"num_beams": 2, **COVERAGE}):
        with pytest.raises(ValueError, match="attention weights"):
            real(model_class=RNNEncoderDecoder, **options)
    translator = real(model_class=RNNEncoderDecoder, num_beams=2, num_results=2)
    for found in translator.translate_nbest(TEXTS):
        assert all(one.attention_weights is None for one in found)
