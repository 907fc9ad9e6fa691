"""Codecs: ids and back, files, and the same ids in a process of its own."""

import base64
import collections
import json
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from keras_bahdanau.tf import (
    SubwordCodec,
    WordCodec,
    load_codec,
    normalize,
    surface,
    tokenize,
)

TEXTS = [
    "L'homme voit le chien.",
    "Le chien voit l'homme !",
    "La femme dit qu'elle n'a pas vu le petit chien noir.",
    "« Où est-il ? », dit la petite femme.",
]
UNSEEN = ["Le chat voit l'homme, 3 fois\u202f!", "", "😀 été", b"\xff noir"]


@pytest.fixture(scope="module")
def words():
    return WordCodec.train(TEXTS, max_size=17)


@pytest.fixture(scope="module")
def subwords():
    return SubwordCodec.train(TEXTS, vocabulary_size=43)


@pytest.fixture(scope="module", params=["words", "subwords"])
def codec(request):
    return request.getfixturevalue(request.param)


def texts_of(strings):
    return [text.decode() for text in strings.numpy()]


def test_words_are_ranked_by_frequency_then_by_code_point():
    codec = WordCodec.train(["b a c.", "c b", "é c"])
    assert codec.words == ("c", "b", ".", "a", "é")
    assert codec.vocabulary_size == 9
    assert codec.encode(["c b . é z"]).to_list() == [[4, 5, 1, 8, 1, 3]]
    assert codec.encode(["c b. é z"], add_end=False).to_list() == [[4, 5, 6, 8, 1]]


def test_vocabulary_agrees_with_a_count_by_hand(words):
    counts = collections.Counter()
    for text in TEXTS:
        counts.update(token.decode() for token in tokenize([text])[0].numpy())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    assert list(words.words) == ranked[:17]


def test_rare_words_and_words_beyond_the_largest_size_are_left_out():
    texts = ["a a a b b c"]
    assert WordCodec.train(texts, min_frequency=2).words == ("a", "b")
    assert WordCodec.train(texts, max_size=1).words == ("a",)
    assert WordCodec.train(["A a B"], lowercase=True).words == ("a", "b")


@pytest.mark.parametrize("codec_class", [WordCodec, SubwordCodec])
def test_lists_bytes_iterators_and_datasets_train_the_same_codec(codec_class):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    options = {} if codec_class is WordCodec else {"vocabulary_size": 43}
    expected = codec_class.train(TEXTS, **options).get_config()
    for texts in (
        [text.encode() for text in TEXTS],
        iter(TEXTS),
        dataset,
        dataset.batch(3),
    ):
        assert codec_class.train(texts, **options).get_config() == expected


def test_ids_zero_to_three_are_special_in_every_codec(codec):
    specials = (codec.pad_id, codec.unk_id, codec.start_id, codec.end_id)
    assert specials == (0, 1, 2, 3)
    ids = codec.encode(TEXTS)
    assert ids.dtype == tf.int32
    for row in ids.to_list():
        assert row[-1] == 3 and not {0, 2, 3} & {*row[:-1]}
        assert max(row) < codec.vocabulary_size


def test_decode_undoes_encode_for_known_tokens(subwords):
    for codec in (WordCodec.train(TEXTS), subwords):
        ids = codec.encode(TEXTS)
        expected = texts_of(normalize(TEXTS))
        assert texts_of(codec.decode(ids)) == expected
        assert texts_of(codec.decode(ids.to_tensor())) == expected
        assert texts_of(codec.decode(tf.cast(ids.to_tensor(), tf.int64))) == expected
        assert texts_of(codec.detokenize(codec.tokenize(TEXTS))) == expected


def test_decode_stops_at_the_end_and_skips_padding_and_start(codec):
    a, b = codec.encode(["le chien"], add_end=False)[0].numpy()[:2].tolist()
    whole = texts_of(codec.decode([[a, b]]))
    rows = [[2, a, b, 3, a], [a, 0, b, 0, 0], [2, a, b, 3, 3]]
    assert texts_of(codec.decode(rows)) == whole * 3
    assert texts_of(codec.decode([[3, a], [0, 0], [2, 3]])) == ["", "", ""]
    assert codec.decode(tf.zeros([0, 5], tf.int32)).shape == (0,)
    assert texts_of(codec.decode(tf.zeros([2, 0], tf.int32))) == ["", ""]


def test_an_id_outside_the_vocabulary_counts_as_unknown(codec):
    rows = [[1], [-5], [codec.vocabulary_size], [10**6]]
    assert [text.strip() for text in texts_of(codec.decode(rows))] == ["<unk>"] * 4


def test_decode_refuses_ids_without_a_batch_axis(codec):
    with pytest.raises(ValueError, match=r"\(batch, time\).*ids\[None\]"):
        codec.decode([4, 5])


def test_tokens_stand_one_to_one_with_ids_and_keep_unknown_text(codec):
    tokens, ids = codec.tokenize(UNSEEN), codec.encode(UNSEEN, add_end=False)
    assert tokens.row_lengths().numpy().tolist() == ids.row_lengths().numpy().tolist()
    unknown = tf.ragged.boolean_mask(surface(tokens), ids == codec.unk_id)
    assert "😀".encode() in unknown[2].numpy().tolist()
    assert codec.surfaces(UNSEEN).to_list() == surface(tokens).to_list()
    assert ids.row_lengths()[1] == 0
    known = tf.where(ids.flat_values == 1, tf.constant("<unk>"), tokens.flat_values)
    named = codec.ids_to_tokens(codec.encode(UNSEEN))
    assert named.to_list() == tokens.with_flat_values(known).to_list()


def test_strings_without_a_batch_axis_are_refused(codec):
    for method in (codec.encode, codec.tokenize, codec.surfaces):
        with pytest.raises(ValueError, match="one axis.*Wrap a single string"):
            method("one sentence")


def test_a_codec_survives_a_new_seed_and_a_cleared_session(codec):
    encode = tf.function(
        codec.encode, input_signature=[tf.TensorSpec([None], tf.string)]
    )
    expected = encode(tf.constant(UNSEEN)).to_list()
    keras.utils.set_random_seed(5)
    keras.backend.clear_session()
    assert encode(tf.constant(UNSEEN)).to_list() == expected
    assert codec.encode(UNSEEN).to_list() == expected


def test_codecs_of_different_models_stand_side_by_side():
    first, second = (SubwordCodec.train(TEXTS, size) for size in (41, 43))
    again = SubwordCodec(first.model)
    text = TEXTS[2:3]
    assert first.encode(text).to_list() == again.encode(text).to_list()
    assert first.encode(text).to_list() != second.encode(text).to_list()
    assert second.vocabulary_size == 43


def test_lowercase_is_part_of_the_codec():
    for codec in (
        WordCodec.train(TEXTS, lowercase=True),
        SubwordCodec.train(TEXTS, 37, lowercase=True),
    ):
        assert (
            codec.encode(["LE CHIEN"]).to_list() == codec.encode(["le chien"]).to_list()
        )
        assert texts_of(codec.decode(codec.encode(["LE CHIEN"]))) == ["le chien"]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_bytes_stand_in_for_characters_outside_the_subwords(model_type):
    codec = SubwordCodec.train(TEXTS, 293, model_type, byte_fallback=True)
    ids = codec.encode(UNSEEN)
    assert 1 not in ids.flat_values.numpy()
    assert texts_of(codec.decode(ids)) == texts_of(normalize(UNSEEN))


def test_long_lines_train_and_encode():
    codec = SubwordCodec.train([*TEXTS, "zyx " * 2500], 43)
    text = "yx zyx " * 1429
    ids = codec.encode([text])
    assert 1 not in ids.flat_values.numpy()
    assert texts_of(codec.decode(ids)) == [text.strip()]


def test_a_codec_is_saved_as_one_file_and_loaded(codec, tmp_path):
    path = tmp_path / "codec.json"
    codec.save(path)
    for loaded in (load_codec(path), type(codec).load(str(path))):
        assert type(loaded) is type(codec)
        assert loaded.get_config() == codec.get_config()
        assert loaded.encode(UNSEEN).to_list() == codec.encode(UNSEEN).to_list()


def test_a_codec_goes_through_keras_serialization(codec):
    config = keras.saving.serialize_keras_object(codec)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again.encode(UNSEEN).to_list() == codec.encode(UNSEEN).to_list()


def test_load_refuses_other_files_and_classes(words, tmp_path):
    path = tmp_path / "codec.json"
    words.save(path)
    with pytest.raises(ValueError, match="must hold a SubwordCodec.*WordCodec"):
        SubwordCodec.load(path)
    path.write_text('{"format": "other"}')
    with pytest.raises(ValueError, match="format 'other'"):
        load_codec(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(class_name="OtherCodec"), "'OtherCodec'"),
        (lambda content: content.update(class_name=["WordCodec"]), "TypeError"),
        (lambda content: content.pop("class_name"), "'class_name'"),
        (lambda content: content.pop("config"), "'config'"),
        (lambda content: content.pop("format"), "'format'"),
        (lambda content: content.update(config=[1]), "TypeError"),
        (lambda content: content["config"].pop("vocabulary"), "'vocabulary'"),
        (lambda content: content["config"].update(size=3), "'size'"),
        (lambda content: content["config"].update(vocabulary=3), "TypeError"),
        (lambda content: content["config"].update(vocabulary="words"), "one string"),
        (lambda content: content["config"].update(vocabulary=["a", "a"]), "different"),
    ],
)
def test_what_is_wrong_in_the_file_of_a_codec_is_named(change, message, tmp_path):
    path = tmp_path / "codec.json"
    WordCodec(["one", "two"]).save(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"codec.json, which does not: .*{message}"):
        load_codec(path)


@pytest.mark.parametrize(
    "model", ["", "AAAA", "no base64!", base64.b64encode(b"garbage").decode()]
)
def test_what_is_no_subword_model_is_named(model, tmp_path):
    path = tmp_path / "codec.json"
    config = {"model": model, "lowercase": False}
    content = {"format": "keras_bahdanau.codec/1", "class_name": "SubwordCodec"}
    path.write_text(json.dumps({**content, "config": config}))
    with pytest.raises(ValueError, match="codec.json, which does not: .*"):
        load_codec(path)
    with pytest.raises(ValueError):
        SubwordCodec(model)


@pytest.mark.parametrize("content", [b"not json", b"[1]", b"3", b"\xff", b"", b"null"])
def test_a_file_that_is_no_codec_is_named(content, tmp_path):
    path = tmp_path / "codec.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="codec.json, which does not"):
        load_codec(path)
    path.unlink()
    for missing in (path, tmp_path):
        with pytest.raises(ValueError, match=f"Received {missing}, which does not"):
            load_codec(missing)


@pytest.mark.parametrize("vocabulary", [["a", ""], ["a", "a"], ["<unk>"], ["<start>"]])
def test_empty_repeated_and_special_words_are_refused(vocabulary):
    with pytest.raises(ValueError, match="different words.*Leave them out"):
        WordCodec(vocabulary)


def test_training_names_what_is_wrong():
    with pytest.raises(ValueError, match="`max_size` must be 1 or more. Received: 0"):
        WordCodec.train(TEXTS, max_size=0)
    with pytest.raises(ValueError, match="0 different words"):
        WordCodec.train([])
    with pytest.raises(ValueError, match="Wrap it in a list"):
        WordCodec.train("one text")
    with pytest.raises(ValueError, match="`vocabulary`.*Wrap it in a list"):
        WordCodec("word")
    with pytest.raises(ValueError, match="must be a serialised.*Received 7 bytes"):
        SubwordCodec(b"garbage")
    with pytest.raises(ValueError, match="`model_type`.*'word'"):
        SubwordCodec.train(TEXTS, 43, "word")
    with pytest.raises(ValueError, match="vocabulary_size=9999.*<= "):
        SubwordCodec.train(TEXTS, 9999)
    with pytest.raises(ValueError, match="fill `vocabulary_size`"):
        SubwordCodec.train([], 43)


def test_a_model_with_other_special_ids_is_refused(tmp_path):
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_prefix=str(tmp_path / "other"),
        vocab_size=43,
        minloglevel=2,
    )
    with pytest.raises(ValueError, match="Ids 0 to 3.*Received: .*<unk>"):
        SubwordCodec((tmp_path / "other.model").read_bytes())


@pytest.mark.parametrize("module", ["tensorflow_text", "sentencepiece"])
def test_a_missing_package_is_named_with_its_extra(module, subwords, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "keras-bahdanau\[text\]"'):
        SubwordCodec.train(TEXTS, 43)
    if module == "sentencepiece":
        assert SubwordCodec(subwords.model).vocabulary_size == 43
        text = base64.b64encode(subwords.model).decode()
        assert SubwordCodec(text).vocabulary_size == 43


class Service(tf.Module):
    """What an application exports: it only holds a codec."""

    def __init__(self, codec):
        super().__init__()
        self.codec = codec

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(self, strings):
        ids = self.codec.encode(strings)
        return {
            "ids": ids.to_tensor(),
            "texts": self.codec.decode(ids),
            "tokens": self.codec.tokenize(strings).to_tensor(),
        }


CLIENT = """
import json, sys
sys.modules["keras_bahdanau"] = None
import tensorflow as tf
answers = {}
strings = tf.constant([bytes(codes) for codes in json.loads(sys.argv[2])], tf.string)
for name in ("words", "subwords"):
    if name == "subwords":
        import tensorflow_text
    answer = tf.saved_model.load(f"{sys.argv[1]}/{name}").serve(strings)
    answers[name] = {
        "ids": answer["ids"].numpy().tolist(),
        "texts": [text.decode() for text in answer["texts"].numpy()],
        "tokens": [[x.decode() for x in row] for row in answer["tokens"].numpy()],
    }
print(json.dumps(answers))
"""


def test_an_exported_codec_answers_the_same_in_a_fresh_process(
    words, subwords, tmp_path
):
    strings = [*TEXTS, *UNSEEN, "mot " * 2500]
    strings = [text.encode() if isinstance(text, str) else text for text in strings]
    expected = {}
    for name, codec in (("words", words), ("subwords", subwords)):
        service = Service(codec)
        tf.saved_model.save(service, str(tmp_path / name))
        answer = service.serve(tf.constant(strings))
        expected[name] = {
            "ids": answer["ids"].numpy().tolist(),
            "texts": texts_of(answer["texts"]),
            "tokens": [[x.decode() for x in row] for row in answer["tokens"].numpy()],
        }
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, tmp_path, json.dumps([[*x] for x in strings])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert client.returncode == 0, client.stderr
    assert json.loads(client.stdout) == expected


@pytest.mark.shared
def test_real_text_comes_back_from_subwords(shared_dir):
    path = shared_dir / "data" / "multi30k" / "fr.val.txt"
    lines = path.read_bytes().split(b"\n")[:-1]
    for model_type in ("unigram", "bpe"):
        codec = SubwordCodec.train(lines, 997, model_type)
        assert texts_of(codec.decode(codec.encode(lines))) == texts_of(normalize(lines))
