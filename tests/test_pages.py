"""The HTML page of a test set: what is in its file."""

import base64
import configparser
import fnmatch
import hashlib
import html.parser
import json
import pathlib
import re

import numpy as np
import pytest

from keras_bahdanau import pages
from keras_bahdanau.pages import AlignmentExample, write_alignment_page

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE, TARGET = ["a", "black", "dog"], ["un", "chien", "noir"]
WEIGHTS = [[0.9, 0.08, 0.02], [0.01, 0.19, 0.8], [0.0, 0.7, 0.3]]
EXAMPLE = AlignmentExample(SOURCE, TARGET, WEIGHTS, -1.5, "un chien noir")
HOSTILE = "</script><img src=x onerror='window.hit = 1'><!--<script>"


class Elements(html.parser.HTMLParser):
    """The elements of a page: their tags, attributes and text; checks the nesting."""

    EMPTY = {"meta", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.found = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.found.append(element)
        if tag not in self.EMPTY:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        if self.open:
            self.open[-1]["text"] += data

    def all(self, **wanted):
        return [one for one in self.found if wanted.items() <= one.items()]

    def one(self, **wanted):
        [element] = self.all(**wanted)
        return element


def written(tmp_path, examples, **options):
    path = tmp_path / "page.html"
    write_alignment_page(path, examples, **options)
    return Elements(path.read_bytes().decode("utf-8"))


def data(elements):
    return json.loads(elements.one(id="data")["text"])


def dense(pair):
    weights = np.zeros((len(pair["target"]), len(pair["source"])))
    for j, row in enumerate(pair["weights"]):
        weights[j, row[::2]] = np.array(row[1::2]) / 100
    return weights


def test_the_file_is_html_that_holds_the_pairs(tmp_path):
    pair = EXAMPLE._replace(links=[(0, 0)], possible_links=[(0, 0), (2, 1), (1, 2)])
    elements = written(tmp_path, [pair, (SOURCE, [])], title="Dogs", summary="two")
    assert elements.found[0]["tag"] == "html"
    assert elements.one(tag="title")["text"] == "Dogs"
    assert elements.one(tag="h1")["text"] == "Dogs"
    assert elements.one(tag="p", **{"class": "page-summary"})["text"] == "two"
    full, bare = data(elements)
    assert (full["source"], full["target"]) == (SOURCE, TARGET)
    assert (full["score"], full["reference"]) == (-1.5, "un chien noir")
    assert full["links"] == [[0, 0]]
    assert full["possible_links"] == [[1, 2], [2, 1]]
    assert bare == {"source": SOURCE, "target": []}


def test_weights_are_rounded_and_the_smallest_left_out(tmp_path):
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.full(17, 0.2), 13)
    example = AlignmentExample(["w"] * 17, ["mot"] * 13, weights)
    found = dense(data(written(tmp_path, [example]))[0])
    kept = weights >= 0.015
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(found[kept], weights[kept], rtol=0, atol=0.005 + 1e-9)
    assert (found[~kept] == 0).all()
    least = re.search(r"const LEAST = ([\d.]+);", pages.alignment_script())
    assert float(least[1]) == 0.015


def test_the_end_token_is_not_shown(tmp_path):
    wider = np.full((4, 4), 0.5)
    wider[:3, :3] = WEIGHTS
    for weights in (wider, wider[:3], wider[:, :3]):
        pair = data(written(tmp_path, [EXAMPLE._replace(weights=weights)]))[0]
        np.testing.assert_allclose(dense(pair), WEIGHTS, rtol=0, atol=0.0101)


def test_arrays_bytes_and_generators_write_the_same_file(tmp_path):
    write_alignment_page(tmp_path / "a.html", [EXAMPLE])
    other = (
        np.array([word.encode() for word in SOURCE], dtype=object),
        iter(TARGET),
        np.array(WEIGHTS, dtype="float32"),
        np.float64(-1.5),
        b"un chien noir",
    )
    write_alignment_page(str(tmp_path / "b.html"), (one for one in [other]))
    first, second = (tmp_path / name for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()


def test_a_side_may_be_empty(tmp_path):
    for source, target, weights in (
        (SOURCE, [], []),
        (SOURCE, [], np.ones((1, 4))),
        ([], TARGET, [[], [], []]),
        ([], [], np.zeros((0, 0))),
        ([], [], np.zeros((0, 1))),
    ):
        pair = data(written(tmp_path, [(source, target, weights)]))[0]
        assert pair["weights"] == [[] for _ in target]


def test_no_text_becomes_markup(tmp_path):
    tokens = [HOSTILE, "&lt;", "$title", "\u2028"]
    example = AlignmentExample(tokens, tokens, np.eye(4), reference=HOSTILE)
    elements = written(tmp_path, [example], title=HOSTILE, summary=HOSTILE)
    assert len(elements.all(tag="script")) == 2 and not elements.all(tag="img")
    assert elements.one(tag="title")["text"] == HOSTILE
    assert elements.one(tag="h1")["text"] == HOSTILE
    pair = data(elements)[0]
    assert pair["source"] == pair["target"] == tokens
    assert pair["reference"] == HOSTILE
    text = elements.one(id="data")["text"]
    assert not set("<>&\u2028") & set(text)


def test_any_character_is_written(tmp_path):
    tokens = [
        "\ud800",
        "a\udfffb",
        "\0",
        "\x85\r\n",
        "\ufeff",
        "\U0010ffff",
        "日本",
        "",
    ]
    example = AlignmentExample(tokens, tokens)
    elements = written(tmp_path, [example], title="\ud800!")
    assert data(elements)[0]["source"] == tokens
    assert elements.one(tag="title")["text"] == "\ufffd!"


def test_the_page_allows_its_own_script_and_style_only(tmp_path):
    elements = written(tmp_path, [EXAMPLE])
    policy = elements.one(**{"http-equiv": "Content-Security-Policy"})["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    script = elements.all(tag="script")[-1]["text"]
    style = elements.one(tag="style")["text"]
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    addresses = set(re.findall(r"https?://[^\s\"']+", (script + style)))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(", style)
    for element in elements.found:
        assert not {"src", "href", "onclick", "style"} & set(element)


def test_a_thousand_pairs_take_less_than_a_megabyte(tmp_path):
    """Those of 20 words, three of them with a weight; in full, 400 weights a pair."""
    weights = np.full((20, 20), 0.001)
    for j in range(20):
        weights[j, [j, (j + 1) % 20, (j + 3) % 20]] = 0.7, 0.2, 0.08
    example = AlignmentExample(["something"] * 20, ["quelque"] * 20, weights, -9.25)
    path = tmp_path / "page.html"
    write_alignment_page(path, [example] * 1000)
    assert path.stat().st_size < 1e6


def test_the_web_files_are_part_of_the_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = setup["options.package_data"]["keras_bahdanau"].split()
    folder = pathlib.Path(pages.__file__).parent
    files = [path.relative_to(folder) for path in (folder / "web").iterdir()]
    assert len(files) == 5
    for path in files:
        assert any(fnmatch.fnmatch(path.as_posix(), one) for one in patterns), path


@pytest.mark.parametrize(
    "change, message",
    [
        ({"weights": np.ones((2, 3))}, r"shape \(2, 3\) for 3 target and 3 source"),
        ({"weights": np.zeros((3, 5))}, r"shape \(3, 5\) for 3 target and 3 source"),
        ({"weights": np.zeros((1, 3, 3))}, r"examples\[1\] must have shape"),
        ({"weights": []}, r"Received shape \(0, 3\) for 3 target"),
        ({"weights": [[1.0], [1.0, 0.0]]}, r"examples\[1\] must be a matrix"),
        ({"weights": "many"}, "Received a str that is none"),
        ({"weights": np.full((3, 3), np.nan)}, "between nan and nan"),
        ({"weights": np.full((3, 3), 2.0)}, "between 2.0 and 2.0. Pass the weights"),
        ({"weights": np.full((3, 3), -0.5)}, "must lie between 0 and 1"),
        ({"score": np.inf}, r"score of examples\[1\] must be a finite number"),
        ({"score": "good"}, "finite number or None. Received: 'good'"),
        ({"source_tokens": "a dog"}, r"\[1\].source_tokens must be a list .* Split it"),
        ({"target_tokens": b"un chien"}, r"examples\[1\].target_tokens must be a list"),
        ({"links": [(3, 0)]}, r"\[1\].links` must hold pairs .* Received: \(3, 0\)"),
        ({"links": [(0, -1)]}, r"Received: \(0, -1\)"),
        ({"links": "0-0"}, "goes through `parse_alignment`"),
        ({"possible_links": [(0.5, 0)]}, r"examples\[1\].possible_links` must hold"),
    ],
)
def test_an_example_that_does_not_fit_is_refused(change, message, tmp_path):
    path = tmp_path / "page.html"
    with pytest.raises(ValueError, match=message):
        write_alignment_page(path, [EXAMPLE, EXAMPLE._replace(**change)])
    assert not path.exists()


@pytest.mark.parametrize("example", [[SOURCE, TARGET], (SOURCE,), (1,) * 8, "text"])
def test_what_is_no_example_is_refused(example, tmp_path):
    message = rf"Received a {type(example).__name__} as examples\[0\]"
    with pytest.raises(ValueError, match=message):
        write_alignment_page(tmp_path / "page.html", [example])


def test_no_examples_are_refused(tmp_path):
    with pytest.raises(ValueError, match="one sentence pair or more. Received none"):
        write_alignment_page(tmp_path / "page.html", [])
