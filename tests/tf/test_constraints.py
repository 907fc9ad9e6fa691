"""What a translation must or must not say, given words, and words drawn at random."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import translators
from translators import CODEC

from keras_bahdanau import RNNEncoderDecoder, RNNEnsemble, RNNSearch
from keras_bahdanau.tf import (
    ExportedTranslator,
    SubwordCodec,
    Translator,
    WordCodec,
    load_translator,
)

TEXTS = ["the dog sees the cat, the dog sleeps.", "a dog", "", "is the cat asleep?"]
LIMITS = {"max_length_factor": 1.0, "max_length_offset": 3}
# The same weights each time.
real = functools.partial(translators.real, seed=2, **LIMITS)


@functools.cache
def mild(codec=CODEC, seed=3, model_class=RNNSearch, **options):
    """A translator whose model is sure of nothing: its words differ. Made once."""
    import keras

    keras.utils.set_random_seed(seed)
    sizes = codec.vocabulary_size, codec.vocabulary_size
    model = model_class(*sizes, embedding_dim=5, units=7)
    return Translator(model, codec, codec, **{**LIMITS, **options})


def words(one):
    return [token.strip("\uffed\u2581") for token in one.target_tokens]


def is_ended(one):
    return len(one.log_probs) == len(one.target_tokens) + 1


@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_results": 2}])
def test_a_translation_begins_as_it_must(options):
    translator = mild(**options)
    # The third source is empty: nothing translates it, however it begins.
    prefixes = ["the cat", "", "the", "is"]
    found = translator.translate(TEXTS, prefixes=prefixes)
    assert [words(one)[:2] for one in found[:1]] == [["the", "cat"]]
    assert words(found[3])[0] == "is" and found[2].text == ""
    assert found[1].text == translator.translate(TEXTS)[1].text
    # As they are scored when they are given.
    forced = translator.score(TEXTS, [one.text for one in found])
    ended = [row for row in (0, 1, 3) if is_ended(found[row])]
    assert ended
    for row in ended:
        assert found[row].score == pytest.approx(forced[row].score, abs=1e-3)
    lists = translator.translate_nbest(TEXTS, prefixes=prefixes)
    assert [one.text for one in found] == [each[0].text for each in lists]


@pytest.mark.parametrize("codec", [CODEC, SubwordCodec.train(TEXTS, 22)])
def test_an_unknown_word_of_the_beginning_stays_as_it_was_given(codec):
    found = mild(codec).translate(TEXTS[:1], prefixes=["the zebra 7"])[0]
    assert found.text.startswith("the zebra 7")
    assert "<unk>" not in found.text[:11]


def test_each_translation_has_its_own_largest_length():
    translator = mild(num_beams=2, min_length=4)
    found = translator.translate(TEXTS, max_lengths=[2, 0, 3, 1])
    free = translator.translate(TEXTS)
    assert len(found[0].log_probs) <= 2 and len(found[3].log_probs) <= 1
    assert found[1].text == free[1].text and len(free[0].log_probs) > 2
    same = translator.translate(TEXTS, max_lengths=2)
    assert same[0].text == found[0].text
    # A beginning fits in any case.
    prefixed = translator.translate(TEXTS[:1], prefixes=["a cat sees"], max_lengths=1)
    assert words(prefixed[0])[:3] == ["a", "cat", "sees"]


@pytest.mark.parametrize(
    "constraints, message",
    [
        ({"prefixes": ["a"]}, "`prefixes` must have one for each text. Received 1"),
        ({"prefixes": "a"}, "`prefixes` must be a list"),
        ({"max_lengths": [1, 2]}, "`max_lengths` must have one.*Received 2 for 4"),
        ({"max_lengths": -1}, "0 or more. Received: -1"),
        ({"max_lengths": [2.7, 1, 1, 1]}, "must be integers. Received: 2.7"),
        ({"max_lengths": True}, "must be integers. Received: True"),
    ],
)
def test_wrong_constraints_are_refused(constraints, message):
    with pytest.raises(ValueError, match=message):
        mild().translate(TEXTS, **constraints)


def test_no_text_under_constraints_is_no_translation():
    assert mild().translate([], prefixes=[], max_lengths=3) == []


@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_results": 2}])
def test_serving_no_text_gives_no_translation(options, tmp_path):
    translator = mild(**options)
    translator.export(tmp_path / "exported")
    none, numbers = tf.constant([], tf.string), tf.constant([], tf.int32)
    for served in (translator, tf.saved_model.load(str(tmp_path / "exported"))):
        for found in (served.serve(none), served.serve_greedy(none)):
            assert found["translations"].shape == (0,)
        constrained = served.serve_constrained(none, none, numbers)
        for found in (served.serve_nbest(none), constrained):
            assert found["translations"].shape == (0, options.get("num_results", 1))


def test_each_text_needs_its_own_constraints_in_the_graph(tmp_path):
    mild().export(tmp_path / "exported")
    one, three = ["the"], ["a dog"] * 3
    for served in (mild(), tf.saved_model.load(str(tmp_path / "exported"))):
        served = served.serve_constrained
        for prefixes, limits, name in (
            (one, [3] * 3, "prefixes"),
            (three, [3], "max_lengths"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"`{name}` must"):
                served(*map(tf.constant, (three, prefixes, limits)))


def test_a_very_large_limit_is_none():
    found = mild().translate(TEXTS, max_lengths=2**40)
    assert [one.text for one in found] == mild()(TEXTS)


@pytest.mark.parametrize("beams", [1, 3])
def test_no_translation_is_shorter_than_the_least_length(beams):
    # Of the source's tokens, the end token counted, at least so many.
    translator = mild(num_beams=beams, min_length=4, min_length_factor=0.7)
    for text, one in zip(TEXTS, translator.translate(TEXTS)):
        count = int(CODEC.encode([text]).row_lengths()[0]) - 1
        limit = count + 3 if count else 0
        least = min(limit, max(4, int(np.ceil(0.7 * count))))
        assert least <= len(one.log_probs) <= limit
    assert any(len(one.log_probs) < 4 for one in mild_ending().translate(TEXTS[:1]))


@functools.cache
def mild_ending(model_class=RNNSearch):
    """One that ends at once, if it may."""
    translator = mild(seed=4, model_class=model_class)
    bias = 4.0 * np.eye(CODEC.vocabulary_size)[CODEC.end_id]
    translator.model.readout.output_bias.assign(bias)
    return translator


def test_no_words_come_twice_and_forbidden_ones_never():
    free = mild(min_length=8).translate(TEXTS[:1])[0]
    assert len(set(words(free))) < len(words(free))
    once = mild(min_length=8, no_repeat_ngram=1).translate(TEXTS[:1])[0]
    assert len(set(words(once))) == len(words(once))
    forbidden = sorted(set(words(free)) & set(CODEC.words))
    assert forbidden
    found = mild(min_length=8, forbidden_words=(*forbidden, "zebra"))
    assert not set(words(found.translate(TEXTS[:1])[0])) & set(forbidden)


def test_a_forbidden_word_is_one_with_all_its_spacings():
    codec = WordCodec.train(['"a" " a "" (a" a-"a'])
    marked = [word for word in codec.words if '"' in word]
    assert len(marked) > 2
    ids = codec.ids_of_word('"')
    assert [codec.words[token_id - 4] for token_id in ids] == marked
    options = {"min_length": 30, "max_length_offset": 90}
    for text in ('"a" a', "a"):
        assert '"' in mild(codec, **options)([text])[0]
        assert '"' not in mild(codec, forbidden_words=('"',), **options)([text])[0]


def test_a_forbidden_subword_is_one_at_the_beginning_and_inside_of_a_word():
    codec = SubwordCodec.train(["a dog a cat"], 12, model_type="bpe")
    pieces = [
        codec.ids_to_tokens([[i]]).to_list()[0][0] for i in codec.ids_of_word("a")
    ]
    assert sorted(piece.decode() for piece in pieces) == ["a", "▁a"]


@pytest.mark.parametrize("codec", [CODEC, SubwordCodec.train(TEXTS, 22)])
def test_an_unknown_word_of_a_given_translation_is_the_unknown_token(codec):
    translator = mild(codec)
    model = translator.model
    text = "the <unk> sees the <unk>."
    found = translator.score(TEXTS[:1], [text])[0]
    assert found.text == text and "<unk>" in "".join(found.target_tokens)
    ids = codec.encode(["the \u4e00 sees the \u4e00."])
    assert ids.to_list()[0].count(codec.unk_id) == 2
    source = codec.encode(TEXTS[:1]).to_tensor()
    expected = model.score(source, ids.to_tensor()).scores[0]
    assert found.score == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"forbidden_words": ["the dog"]}, "'the dog', which is 2"),
        ({"forbidden_words": "the"}, "must be a list of words"),
        ({"min_length": 0}, "min_length"),
        ({"min_length_factor": -1.0}, "min_length_factor"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        real(**options)


def test_an_ensemble_and_constraints_are_saved_and_exported(tmp_path):
    members = [mild(seed=seed) for seed in (3, 5)]
    for index, member in enumerate(members):
        member.save(tmp_path / str(index))
    options = {"num_beams": 2, "no_repeat_ngram": 2, "forbidden_words": ("cat",)}
    folders = [tmp_path / "0", tmp_path / "1"]
    translator = load_translator(folders, **options, num_results=2)
    both = RNNEnsemble([member.model for member in members])
    expected = Translator(both, CODEC, CODEC, **LIMITS, **options)(TEXTS)
    assert translator(TEXTS) == expected != members[0](TEXTS)

    translator.save(tmp_path / "saved")
    translator.export(tmp_path / "exported")
    given = {"prefixes": ["the", "", "a", "zebra"], "max_lengths": [3, 0, 0, 9]}
    expected = translator.translate_nbest(TEXTS, **given)
    saved = load_translator(tmp_path / "saved")
    assert isinstance(saved.model, RNNEnsemble)
    assert saved.settings == translator.settings
    for other in (saved, ExportedTranslator(tmp_path / "exported")):
        for mine, theirs in zip(expected, other.translate_nbest(TEXTS, **given)):
            assert [one.text for one in mine] == [one.text for one in theirs]
            for one, two in zip(mine, theirs):
                np.testing.assert_allclose(one.log_probs, two.log_probs, atol=1e-4)
    # And greedy search is there beside the beams.
    served = tf.saved_model.load(str(tmp_path / "exported"))
    names = {"constrained", "greedy", "nbest", "serving_default"}
    assert set(served.signatures) == names
    found = served.signatures["greedy"](strings=tf.constant(TEXTS))["translations"]
    greedy = Translator(both, CODEC, CODEC, **LIMITS, forbidden_words=["cat"])(TEXTS)
    assert [text.decode() for text in found.numpy()] == greedy


@pytest.mark.parametrize("model_class", [RNNSearch, RNNEncoderDecoder])
def test_a_given_translation_has_the_score_of_the_one_that_was_found(model_class):
    translator = mild_ending(model_class)
    texts = [TEXTS[0], TEXTS[3], TEXTS[1]]
    found = translator.translate(texts)
    forced = translator.score(texts, [one.text for one in found], batch_size=2)
    for one, other in zip(found, forced):
        assert other.text == one.text and other.source_tokens == one.source_tokens
        if is_ended(one):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-4)
        assert other.score == pytest.approx(other.log_probs.sum(), abs=1e-4)
        if model_class is RNNEncoderDecoder:
            assert other.attention_weights is None
        else:
            shape = len(other.log_probs), len(other.source_tokens) + 1
            assert other.attention_weights.shape == shape
    assert any(map(is_ended, found))


def test_samples_differ_and_a_seed_gives_them_again():
    translator = mild()
    found = translator.sample(TEXTS, 6, seed=1, batch_size=2)
    assert [len(each) for each in found] == [6] * 4
    assert len({one.text for one in found[0]}) > 3
    assert {one.text for one in found[2]} == {""}
    again = translator.sample(TEXTS, 6, seed=1, batch_size=2)
    texts = [[one.text for one in each] for each in found]
    assert texts == [[one.text for one in each] for each in again]
    other = translator.sample(TEXTS, 6, seed=2, batch_size=2)
    assert texts != [[one.text for one in each] for each in other]
    # The batches are drawn apart, though they are traced once.
    twins = translator.sample([TEXTS[0]] * 2, 1, seed=1, batch_size=1)
    assert twins[0][0].text != twins[1][0].text


def test_the_likeliest_sample_is_the_greedy_translation():
    translator = mild()
    found = translator.sample(TEXTS, top_k=1, seed=1)
    for (one,), other in zip(found, translator.translate(TEXTS)):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_translators_that_do_not_fit_are_no_ensemble(tmp_path):
    mild().save(tmp_path / "one")
    mild().export(tmp_path / "exported")
    mild(WordCodec(CODEC.words, lowercase=True)).save(tmp_path / "other")
    with pytest.raises(ValueError, match="exported, which was exported"):
        load_translator([tmp_path / "one", tmp_path / "exported"])
    with pytest.raises(ValueError, match="same codecs. Those of .*one and .*other"):
        load_translator([tmp_path / "one", tmp_path / "other"])
    with pytest.raises(ValueError, match="empty list"):
        load_translator([])
