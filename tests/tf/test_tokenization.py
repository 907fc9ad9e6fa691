"""Tokenisation: what becomes a token, and that text comes back from it."""

import pathlib
import random
import unicodedata

import pytest
import tensorflow as tf

from keras_bahdanau.tf import detokenize, normalize, surface, tokenize
from keras_bahdanau.tf.tokenization import JOINER, SPACER


def tokens_of(text, **options):
    row = tokenize([text], **options)[0].numpy()
    return [token.decode() for token in row]


def texts_of(strings):
    return [text.decode() for text in strings.numpy()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog, a cat.", "A|dog|,|a|cat|."),
        ("L'homme qu’il aime", "L'|homme|qu’|il|aime"),
        ("Jusqu'à ce qu'elle n'y aille", "Jusqu'|à|ce|qu'|elle|n'|y|aille"),
        ("Lorsqu'il puisqu'on quoiqu'un", "Lorsqu'|il|puisqu'|on|quoiqu'|un"),
        (
            "J't'aime aujourd'hui, c'est-à-dire",
            "J'|t'|aime|aujourd'hui|,|c'|est-à-dire",
        ),
        ("Quelqu'un a-t-il peut-être soif", "Quelqu'un|a-t-il|peut-être|soif"),
        ("It's John's; I'd say we're", "It|'s|John|'s|;|I|'d|say|we|'re"),
        ("They don't, can’t and WON'T", "They|do|n't|,|ca|n’t|and|WO|N'T"),
        ("I shouldn't've said o'clock", "I|should|n't|'ve|said|o'clock"),
        ("1,000.50 in 3:30, the 2nd", "1,000.50|in|3:30|,|the|2nd"),
        ("a 10-year-old in the U.S. at 5 a.m.", "a|10-year-old|in|the|U.S.|at|5|a.m."),
        ("Mr. Smith et Mme. Roy, etc.", "Mr.|Smith|et|Mme.|Roy|,|etc."),
        ("Er hat's z.B. in bzw. vor", "Er|hat|'s|z.B.|in|bzw.|vor"),
        ("Příliš žluťoučký kůň, např. můj", "Příliš|žluťoučký|kůň|,|např.|můj"),
        ("Wait... (no) [yes]!?", "Wait|...|(|no|)|[|yes|]|!|?"),
        ("$50, 20% and/or #1", "$|50|,|20|%|and|/|or|#|1"),
        (
            "see https://a.org/b?c=1. or x.y@z.org",
            "see|https://a.org/b?c=1|.|or|x.y@z.org",
        ),
        ("„Ja“ 👍🏽", "„|Ja|￭“|👍|￭🏽"),
    ],
)
def test_words_punctuation_elisions_and_clitics_become_tokens(text, expected):
    assert tokens_of(text) == expected.split("|")
    assert texts_of(detokenize(tokenize([text]))) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ça va ?", "Ça|va|▁?"),
        ("Ça va?", "Ça|va|?"),
        ('He said "no".', 'He|said|"￭|no|￭"|.'),
        ("« Oui », dit-il", "«|Oui|»|,|dit-il"),
        ("«Oui»", "«￭|Oui|￭»"),
        ("R&B", "R|￭&￭|B"),
        ("( a )", "(▁|a|▁)"),
        ("Ein- und Ausgang", "Ein|￭-|und|Ausgang"),
        ("l' ami", "l'▁|ami"),
    ],
)
def test_marks_stand_on_punctuation_only_where_spacing_is_unusual(text, expected):
    assert tokens_of(text) == expected.split("|")
    assert texts_of(detokenize(tokenize([text]))) == [text]


@pytest.mark.parametrize(
    "blank", ["\u00a0", "\u202f", "\u2009", "\u3000", "\t", "\r\n"]
)
def test_every_kind_of_blank_counts_as_a_plain_one(blank):
    text = f"{blank}Quoi{blank}{blank}? {blank}"
    assert texts_of(normalize([text])) == ["Quoi ?"]
    assert tokens_of(text) == ["Quoi", "▁?"]


def test_accents_after_a_letter_are_composed_as_in_normal_form_c():
    letters = (chr(code) for code in range(0xC0, 0x530))
    letters = [letter for letter in letters if unicodedata.category(letter)[0] == "L"]
    spread = [unicodedata.normalize("NFD", f"{x}o{x}") for x in letters]
    expected = [unicodedata.normalize("NFC", text) for text in spread]
    assert texts_of(normalize(spread)) == expected
    assert texts_of(normalize(["Vie\u0323\u0302t", "\u0301x", "q\u0301"])) == [
        "Vi\u1ec7t",
        "\u0301x",
        "q\u0301",
    ]


def test_normalize_keeps_the_shape_and_drops_what_cannot_be_seen():
    text = normalize([["\ufeffa\u200bb", "c\u00add"], ["e\u0301", ""]])
    assert text.shape == (2, 2)
    assert texts_of(tf.reshape(text, [-1])) == ["ab", "cd", "é", ""]


def test_invalid_bytes_become_replacement_characters():
    broken = [b"caf\xe9 noir", b"\xff\xfe", b"\xed\xa0\x80x", b"ok"]
    text = texts_of(normalize(broken))
    assert text[0] == "caf\ufffd noir"
    assert text[1] == "\ufffd\ufffd"
    assert text[2].endswith("x") and set(text[2][:-1]) == {"\ufffd"}
    assert texts_of(detokenize(tokenize(broken))) == text


def test_empty_strings_give_empty_rows():
    rows = tokenize(["", "a", " \u00a0 ", "\u200b"])
    assert rows.row_lengths().numpy().tolist() == [0, 1, 0, 0]
    assert texts_of(detokenize(rows)) == ["", "a", "", ""]
    none = tokenize(tf.constant([], tf.string))
    assert none.nrows() == 0 and detokenize(none).shape == (0,)


@pytest.mark.parametrize(
    "text", ["word " * 2000, "x" * 10000, "?!." * 3334, "é'" * 5000]
)
def test_lines_of_ten_thousand_characters_come_back(text):
    assert texts_of(detokenize(tokenize([text]))) == [text.strip()]


def test_any_mixture_of_characters_comes_back():
    draw = random.Random(7)
    pieces = list("aéБ中1.,'’-\"()/ \u00a0_&$«»…\u0301\u200d\x00�") + [
        *(
            "n't",
            "'s",
            "l'",
            "qu’",
            "Mr.",
            "U.S.",
            "...",
            "--",
            "👍🏽",
            "www.a.b",
            "a@b.c",
        ),
        *(JOINER, SPACER, "<unk>"),
    ]
    texts = [
        "".join(draw.choices(pieces, k=draw.randrange(1, 17))) for _ in range(3001)
    ]
    expected = normalize(texts)
    assert texts_of(detokenize(tokenize(texts))) == texts_of(expected)
    assert texts_of(normalize(expected)) == texts_of(expected)


def test_marks_in_the_text_itself_become_look_alikes():
    assert texts_of(normalize([f"a{JOINER}b{SPACER}"])) == ["a■b_"]


def test_surface_takes_marks_off():
    rows = tf.ragged.constant([['"￭', "no", "￭&￭"], [], ["▁?"]])
    assert surface(rows).to_list() == [[b'"', b"no", b"&"], [], [b"?"]]


def test_lowercase_reaches_letters_with_accents():
    assert tokens_of("L'ÉTÉ", lowercase=True) == ["l'", "été"]


def test_detokenize_takes_lists_and_dense_tensors_padded_with_empty_strings():
    rows = tokenize(["Hello, you!", "No."])
    assert texts_of(detokenize(rows.to_tensor())) == ["Hello, you!", "No."]
    assert texts_of(detokenize([["No", "."], []])) == ["No.", ""]


def test_one_trace_serves_every_batch_size_and_length():
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def there_and_back(strings):
        traces.append(None)
        return detokenize(tokenize(strings))

    for texts in (["a b."], ["", "c", "d?"], ["word " * 97]):
        assert texts_of(there_and_back(tf.constant(texts))) == [
            x.strip() for x in texts
        ]
    assert len(traces) == 1


def test_tokenize_works_in_a_data_pipeline():
    dataset = tf.data.Dataset.from_tensor_slices(["a b.", "c"]).batch(2).map(tokenize)
    assert next(iter(dataset)).to_list() == [[b"a", b"b", b"."], [b"c"]]


def test_strings_without_a_batch_axis_are_refused():
    with pytest.raises(ValueError, match="one axis.*Wrap a single string"):
        tokenize("one sentence")


@pytest.mark.shared
@pytest.mark.parametrize("folder", ["multi30k", "tatoeba-en-fr"])
def test_every_line_of_the_real_corpora_comes_back(shared_dir, folder):
    paths = sorted(pathlib.Path(shared_dir, "data", folder).glob("*.txt"))
    assert paths
    signature = [tf.TensorSpec([None], tf.string)]

    @tf.function(input_signature=signature)
    def wrong(strings):
        text = normalize(strings)
        return tf.boolean_mask(strings, text != detokenize(tokenize(strings)))

    for path in paths:
        lines = path.read_bytes().split(b"\n")[:-1]
        assert wrong(tf.constant(lines)).numpy().tolist() == []
