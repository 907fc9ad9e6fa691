"""Words as ids, against plain Python; tags and back; files."""

import collections
import json
import random
import re
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from keras_bahdanau.tagged_text import TaggedCorpus
from keras_bahdanau.tf import TagCodec

CORPUS = TaggedCorpus(
    [
        (["The", "dog", "barks", "."], ["DET", "NOUN", "VERB", "PUNCT"]),
        (["the", "Dogs", "bark", "!"], ["DET", "NOUN", "VERB", "PUNCT"]),
        (["THE", "dog", "of", "1984"], ["DET", "NOUN", "ADP", "NUM"]),
    ]
)
# Of one, two, three and four bytes; with and without case; digits that are no
# ASCII; marks that join what stands before them; the dotted and the dotless I.
LETTERS = "aZbdXx0 9'-.éÉßΣσςİıſЖжא中٣²½Ⅷ😀𝐀𐐀𐐨\u0301\u0345\u200d\u00ad\n\0\ufffd"
MARGIN = ("İstanbul", "ΟΔΥΣΣΕΥΣ", "a\0", "\0", "\n", "a\nb", "ﬁ", "ǅ", "x" * 9999)


def random_words(count, seed=3):
    rng = random.Random(seed)
    return ["".join(rng.choices(LETTERS, k=rng.randint(1, 29))) for _ in range(count)]


WORDS = [*random_words(150), *MARGIN]
# TensorFlow's `lower` would stop at NUL.
CLEAN = [word.replace("\0", "\ufffd") for word in WORDS]


def features_of(word):
    """The six features, character by character."""
    shape = ""
    for letter in word:
        kind = unicodedata.category(letter)
        sign = {"Lu": "X", "Ll": "x"}.get(kind, "d" if kind[0] == "N" else letter)
        # Not more than two of a kind in a row.
        if not (sign in "Xxd" and shape[-2:] == 2 * sign):
            shape += sign
    lower = word.lower()
    return [
        shape[:8],
        *(lower[-size:] for size in (2, 3, 4)),
        *(lower[:size] for size in (2, 3)),
    ]


def kept(word, size):
    """The characters that are read: of a long word the first and the last."""
    if len(word) <= size:
        return list(word)
    return [*word[: size // 2], *word[len(word) - (size - size // 2) :]]


def codec_of(words, **options):
    """A codec that knows every second value of each kind."""
    sides = zip(*map(features_of, words))
    features = [sorted(set(side))[::2] for side in sides]
    lower = sorted({word.lower() for word in words})[::2]
    letters = sorted(set("".join(words)))[::2]
    return TagCodec(lower, letters, features, ["A", "B"], **options)


def id_of(value, known):
    return known.index(value) + 2 if value in known else 1


@pytest.mark.parametrize("size", [2, 7, 18])
def test_words_are_encoded_as_plain_python_encodes_them(size):
    codec = codec_of(CLEAN, max_characters=size)
    found = {name: ids.numpy() for name, ids in codec.encode([WORDS]).items()}
    assert {ids.dtype for ids in found.values()} == {np.dtype("int32")}
    for place, word in enumerate(CLEAN):
        assert found["word_ids"][0, place] == id_of(word.lower(), codec.words), word
        ids = [id_of(letter, codec.characters) for letter in kept(word, size)]
        ids += [0] * (size - len(ids))
        assert found["character_ids"][0, place].tolist() == ids, word
        ids = [id_of(*pair) for pair in zip(features_of(word), codec.features)]
        assert found["feature_ids"][0, place].tolist() == ids, word


def test_invalid_bytes_are_the_replacement_character():
    spoilt = [b"\xff", b"a\xffb", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\x80", b"caf\xe9"]
    clean = [one.decode("utf-8", errors="replace") for one in spoilt]
    codec = codec_of([*clean, "\ufffd"])
    found, expected = codec.encode([spoilt]), codec.encode([clean])
    for name, ids in expected.items():
        np.testing.assert_array_equal(found[name], ids)


def test_padding_is_zero_in_every_input():
    codec = TagCodec.train(CORPUS, min_feature_frequency=1)
    rows = [["The", "dog"], [], ["bark"]]
    ragged = codec.encode(tf.ragged.constant(rows, tf.string, ragged_rank=1))
    dense = codec.encode(tf.constant([["The", "dog"], ["", ""], ["bark", ""]]))
    listed = codec.encode(rows)
    for name, ids in ragged.items():
        np.testing.assert_array_equal(ids, dense[name])
        np.testing.assert_array_equal(ids, listed[name])
        real = np.array([[True, True], [False, False], [True, False]])
        ids = ids.numpy().reshape(3, 2, -1)
        assert (ids[~real] == 0).all() and (ids[real][:, 0] > 0).all()
    longer = codec.encode(tf.constant([["bark", "", ""]]))
    assert longer["character_ids"].shape == (1, 3, 4)
    assert longer["feature_ids"].shape == (1, 3, 6)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_nothing_at_all_has_shapes_all_the_same(shape):
    encoded = TagCodec.train(CORPUS).encode(tf.fill(shape, ""))
    assert encoded["word_ids"].shape == shape
    assert encoded["character_ids"].shape == (*shape, 1)
    assert encoded["feature_ids"].shape == (*shape, 6)


def test_entries_stand_by_falling_frequency_then_by_code_point():
    codec = TagCodec.train(CORPUS, min_character_frequency=1, min_feature_frequency=1)
    words = [word for sentence in CORPUS for word in sentence.words]
    counts = collections.Counter(word.lower() for word in words)
    expected = sorted(counts, key=lambda word: (-counts[word], word))
    assert list(codec.words) == expected and expected[:2] == ["the", "dog"]
    counts = collections.Counter("".join(words))
    expected = sorted(counts, key=lambda letter: (-counts[letter], letter))
    assert list(codec.characters) == expected
    for index, found in enumerate(codec.features):
        counts = collections.Counter(features_of(word)[index] for word in words)
        assert list(found) == sorted(counts, key=lambda one: (-counts[one], one))
    assert codec.tags == ("ADP", "DET", "NOUN", "NUM", "PUNCT", "VERB")
    assert codec.model_sizes() == {
        "num_tags": 6,
        "vocabulary_size": 2 + len(codec.words),
        "character_vocabulary_size": 2 + len(codec.characters),
        "feature_sizes": tuple(2 + len(one) for one in codec.features),
    }


def test_what_is_rarer_than_its_limit_is_unknown():
    codec = TagCodec.train(
        CORPUS, min_frequency=2, min_character_frequency=3, min_feature_frequency=3
    )
    assert codec.words == ("the", "dog")
    # "T" is there twice.
    assert "T" not in codec.characters and "o" in codec.characters
    ids = codec.encode([["Dog", "Dogs"]])
    assert ids["word_ids"].numpy().tolist() == [[3, 1]]
    none = TagCodec.train(CORPUS, 99, 99, word_features=False)
    assert none.model_sizes()["vocabulary_size"] == 2
    ids = none.encode([["Dog", "\0"]])
    assert sorted(ids) == ["character_ids", "word_ids"]
    assert max(int(tf.reduce_max(one)) for one in ids.values()) == 1


def test_extra_words_are_known_behind_the_others():
    codec = TagCodec.train(CORPUS, extra_words=["Zebra", "dog", "Ape", "APE", ""])
    known = TagCodec.train(CORPUS).words
    assert codec.words == (*known, "ape", "zebra")


def test_tags_go_to_ids_and_back():
    codec = TagCodec([], [], [], ["NOUN", "VERB"])
    ids = codec.encode_tags([["VERB", "NOUN"], ["X", ""]])
    assert ids.dtype == tf.int32 and ids.numpy().tolist() == [[1, 0], [-1, -1]]
    names = codec.decode(np.array([[1, 0], [-1, 2]], "int64"))
    assert names.numpy().tolist() == [[b"VERB", b"NOUN"], [b"", b""]]


def test_it_is_the_same_in_a_graph_of_open_shapes():
    codec = TagCodec.train(CORPUS, min_feature_frequency=1)
    encode = tf.function(
        codec.encode, input_signature=[tf.TensorSpec([None, None], tf.string)]
    )
    for rows in ([["The", "dog"], ["x", ""]], [["barks"]]):
        expected, found = codec.encode(rows), encode(tf.constant(rows))
        assert sorted(found) == sorted(expected)
        for name, ids in expected.items():
            np.testing.assert_array_equal(found[name], ids)
    assert encode.experimental_get_tracing_count() == 1


def test_a_file_brings_it_back(tmp_path):
    codec = codec_of(random_words(20), max_characters=7)
    codec.save(tmp_path / "codec.json")
    again = TagCodec.load(tmp_path / "codec.json")
    assert again.get_config() == codec.get_config()
    for name, ids in codec.encode([WORDS]).items():
        np.testing.assert_array_equal(again.encode([WORDS])[name], ids)
    content = json.loads((tmp_path / "codec.json").read_text(encoding="utf-8"))
    assert content["format"] == "keras_bahdanau.tag_codec/1"


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\xff",
        b"[1]",
        b"{}",
        b'{"format": "keras_bahdanau.tag_codec/2", "config": {}}',
        b'{"format": "keras_bahdanau.tag_codec/1"}',
        b'{"format": "keras_bahdanau.tag_codec/1", "config": {"words": []}}',
        b'{"format": "keras_bahdanau.tag_codec/1", "config": {"words": 3, '
        b'"characters": [], "features": [], "tags": []}}',
        b'{"format": "keras_bahdanau.tag_codec/1", "config": {"words": [3], '
        b'"characters": [], "features": [], "tags": []}}',
        b'{"format": "keras_bahdanau.tag_codec/1", "config": {"words": [], '
        b'"characters": [], "features": [], "tags": [], "max_characters": "9"}}',
    ],
)
def test_a_broken_file_is_named(content, tmp_path):
    path = tmp_path / "codec.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"Received {path}, which")):
        TagCodec.load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": "abc"}, "`words` must be a list of strings. Received one string"),
        ({"words": ["a", "a"]}, r"`words` must be.*twice. Received: \['a'\]"),
        ({"characters": [""]}, "`characters` must be"),
        ({"tags": [1]}, r"`tags` must be strings.*\[1\]"),
        ({"tags": [b"A"]}, "`tags` must be strings"),
        ({"features": [["a"]] * 5}, "`features` must be 6 lists, or none.*: 5"),
        ({"features": [["a"]] * 5 + [["b", "b"]]}, r"`features\[5\]`"),
        ({"max_characters": 1}, "`max_characters` must be 2 or more. Received: 1"),
    ],
)
def test_wrong_entries_are_refused(options, message):
    good = {"words": ["a"], "characters": ["a"], "features": (), "tags": ["A"]}
    with pytest.raises(ValueError, match=message):
        TagCodec(**{**good, **options})
