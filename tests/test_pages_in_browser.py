"""The HTML page of a test set: what a browser makes of it."""

import re

import numpy as np
import pytest

from keras_bahdanau import pages
from keras_bahdanau.pages import AlignmentExample, write_alignment_page

pytestmark = pytest.mark.browser

SOURCE, TARGET = ["a", "black", "dog"], ["un", "chien", "noir"]
WEIGHTS = [[0.9, 0.08, 0.02], [0.01, 0.19, 0.8], [0.0, 0.7, 0.3]]
EXAMPLE = AlignmentExample(SOURCE, TARGET, WEIGHTS, -1.5, "un chien noir")
HOSTILE = "</script><img src=x onerror='window.hit = 1'><!--<script>"
# Each of them: source, translation, score.
SENTENCES = [
    ("one two three four five", "un deux trois", -3.0),  # -1 per token
    ("one", "un", -1.0),  # -1 per token
    ("three two", "trois deux un deux trois", -5.5),  # -1.1 per token
    ("two three one", "deux trois", -0.5),  # -0.25 per token
    ("one two three two", "un deux trois deux", None),
]


@pytest.fixture
def show(page, tmp_path):
    """Opens the page of examples; whatever the browser complains of fails the test."""
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.set_viewport_size({"width": 1100, "height": 900})

    def open_examples(examples, **options):
        path = tmp_path / "shown.html"
        write_alignment_page(path, examples, **options)
        page.goto(path.as_uri())
        page.locator(".alignment").first.wait_for()
        return page

    yield open_examples
    assert not complaints


def sentences():
    return [
        AlignmentExample(source.split(), target.split(), score=score)
        for source, target, score in SENTENCES
    ]


def labels(page):
    """The numbers of the pairs, from top to bottom."""
    return [
        int(text)
        for text in page.locator(".alignment-label:visible").all_text_contents()
    ]


def token(page, side, index, pair=0):
    line = page.locator(".page-pair").nth(pair).locator(f".alignment-{side}")
    return line.locator(".alignment-token").nth(index)


def lit(page):
    """The chosen tokens, their partners with their weights, and the lit links."""
    chosen = page.locator(".alignment-token.is-chosen").all_text_contents()
    partners = page.locator(".alignment-token.is-partner").evaluate_all(
        "found => found.map(one => [one.textContent, one.dataset.weight])"
    )
    return chosen, dict(partners), page.locator(".alignment-link.is-lit").count()


NOTHING = ([], {}, 0)
DOG = (["dog"], {"un": "0.02", "chien": "0.80", "noir": "0.30"}, 3)


def test_pointing_at_a_token_lights_its_partners(show):
    page = show([EXAMPLE])
    assert lit(page) == NOTHING
    # At rest the weights of 0.15 and more.
    assert page.locator(".alignment-link").count() == 5
    token(page, "source", 2).hover()
    assert lit(page) == DOG
    note = page.locator(".alignment-note")
    assert note.inner_text() == "dog: chien 0.80, noir 0.30, un 0.02"
    assert note.get_attribute("role") == "status"
    token(page, "target", 0).hover()
    assert lit(page) == (["un"], {"a": "0.90", "black": "0.08", "dog": "0.02"}, 3)
    page.mouse.move(2, 2)
    assert lit(page) == NOTHING and note.inner_text() == ""
    assert page.locator(".alignment-link").count() == 5


def test_the_links_that_are_lit_join_the_right_tokens(show):
    """Also the weak ones, which are drawn only then; opacity follows the weight."""
    page = show([EXAMPLE])
    token(page, "source", 2).hover()
    ends = link_ends(page, ".alignment-link.is-lit")
    expected = [
        (middle(token(page, "source", 2), "bottom"), middle(one, "top"))
        for one in (token(page, "target", j) for j in range(3))
    ]
    np.testing.assert_allclose(sorted(ends), sorted(expected), atol=0.2)
    opacity = page.locator(".alignment-link.is-lit").evaluate_all(
        "all => all.map(one => [getComputedStyle(one).getPropertyValue('--weight'),"
        " getComputedStyle(one).opacity].map(Number)).sort()"
    )
    assert [weight for weight, _ in opacity] == [0.02, 0.3, 0.8]
    assert 0 < opacity[0][1] < opacity[1][1] < opacity[2][1] <= 1


def middle(locator, edge):
    """The middle of the upper or lower edge of an element, in the viewport."""
    box = locator.bounding_box()
    y = box["y"] + (box["height"] if edge == "bottom" else 0)
    return box["x"] + box["width"] / 2, y


def link_ends(page, selector):
    """Where the links begin and end, in the viewport, read from their curves."""
    frame = page.locator(".alignment-links").first.bounding_box()
    curves = page.locator(selector).evaluate_all("x => x.map(l => l.getAttribute('d'))")
    ends = []
    for curve in curves:
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", curve)]
        points = np.add(np.reshape(numbers, (-1, 2)), (frame["x"], frame["y"]))
        ends.append((tuple(points[0]), tuple(points[-1])))
    return ends


def test_the_keyboard_walks_along_the_tokens_and_over_the_links(show):
    page = show([EXAMPLE])
    page.locator("#direction").focus()
    page.keyboard.press("Tab")
    assert lit(page)[0] == ["a"]
    page.keyboard.press("End")
    assert lit(page) == DOG
    page.keyboard.press("ArrowDown")
    assert lit(page)[0] == ["chien"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    assert lit(page)[0] == ["black"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert lit(page)[0] == ["a"]
    page.keyboard.press("Escape")
    assert lit(page) == NOTHING
    page.keyboard.press("Tab")
    assert lit(page)[0] == ["noir"]  # The last one that was reached on that side.
    page.keyboard.press("Tab")
    assert lit(page) == NOTHING


def test_a_click_chooses_a_token_and_another_releases_it(show):
    page = show([EXAMPLE])
    for expected in (DOG, NOTHING, DOG):
        token(page, "source", 2).click()
        page.mouse.move(2, 2)
        assert lit(page) == expected
    page.locator("h1").click()
    assert lit(page) == NOTHING


def test_a_tap_chooses_a_token_and_another_releases_it(show):
    page = show([EXAMPLE])
    screen = page.context.browser.new_page(has_touch=True)
    screen.goto(page.url)
    for expected in (DOG, NOTHING, DOG):
        token(screen, "source", 2).tap()
        assert lit(screen) == expected
    token(screen, "target", 0).tap()
    assert lit(screen)[0] == ["un"]


def test_nothing_moves_when_a_token_is_lit(show):
    """Else it would slip away under the pointer, and light and go out in turns."""
    words = [f"averylongword{i}" for i in range(9)]
    page = show([AlignmentExample(words, words, np.full((9, 9), 1 / 9))])
    for width in (1100, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.mouse.move(2, 2)
        before = page.locator(".page-pair").bounding_box()
        place = token(page, "source", 3).bounding_box()
        token(page, "source", 3).hover()
        assert len(lit(page)[1]) == 9
        assert page.locator(".alignment-note").inner_text().endswith(", …")
        assert token(page, "source", 3).bounding_box() == place
        assert page.locator(".page-pair").bounding_box() == before


def test_links_follow_the_lines_of_a_long_sentence_at_any_width(show):
    size = 67
    source = [f"word{i}" for i in range(size)]
    target = [f"mot{j}" for j in range(size)]
    page = show([AlignmentExample(source, target, np.eye(size)[::-1])])
    lines = []
    for width in (1100, 420, 900):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => "
            "requestAnimationFrame(done)))"
        )
        ends = link_ends(page, ".alignment-link")
        assert len(ends) == size
        for j in (0, 31, size - 1):
            start = middle(token(page, "source", size - 1 - j), "bottom")
            np.testing.assert_allclose(ends[j][0], start, atol=0.2)
            stop = middle(token(page, "target", j), "top")
            np.testing.assert_allclose(ends[j][1], stop, atol=0.2)
        lines.append(len({round(y) for (_, y), _ in ends}))
    assert lines[1] > lines[2] >= lines[0] > 1


def test_pairs_are_sorted_both_ways(show):
    """Who has no score comes last both times; equals keep their order."""
    page = show(sentences())
    page.get_by_role("button", name="Ascending").click()
    for order, ascending, descending in (
        ("Source length", [2, 3, 4, 5, 1], [1, 5, 4, 3, 2]),
        ("Score", [3, 1, 2, 4, 5], [4, 2, 1, 3, 5]),
        ("Score per token", [3, 1, 2, 4, 5], [4, 1, 2, 3, 5]),
        ("Translation length", [2, 4, 1, 5, 3], [3, 5, 1, 4, 2]),
        ("Order of the text", [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]),
    ):
        page.locator("#sort").select_option(order)
        assert labels(page) == descending, order
        page.get_by_role("button", name="Descending").click()
        assert labels(page) == ascending, order
        page.get_by_role("button", name="Ascending").click()
        assert labels(page) == descending, order


def test_without_scores_there_is_no_order_by_score(show):
    page = show([one._replace(score=None) for one in sentences()])
    names = page.locator("#sort option").all_text_contents()
    assert names == ["Order of the text", "Source length", "Translation length"]
    assert "score" not in page.locator(".alignment-meta").first.inner_text()


def test_the_filter_keeps_pairs_that_have_all_words(show):
    chinese = AlignmentExample(["我", "爱", "你"], ["I", "love", "you", "."])
    referenced = AlignmentExample(["x"], ["y"], reference="L'Élan, z")
    page = show([*sentences(), chinese, referenced])
    count, box = page.locator("#count"), page.locator("#filter")
    assert count.inner_text() == "7 sentence pairs"
    for query, expected in (
        ("five", [1]),
        ("TROIS  un", [1, 3, 5]),
        ("two deux trois", [1, 3, 4, 5]),
        ("爱你", [6]),
        ("you.", [6]),
        ("l'élan", [7]),
        ("onetwo", []),
        ("", [1, 2, 3, 4, 5, 6, 7]),
    ):
        box.fill(query)
        assert labels(page) == expected, query
        shown = f"{len(expected)} of " if len(expected) < 7 else ""
        assert count.inner_text() == f"{shown}7 sentence pairs"
        assert page.locator("#nothing").is_visible() == (not expected)
    box.fill("trois un")
    page.locator("#sort").select_option("Score")
    assert labels(page) == [3, 1, 5]


def test_a_thousand_pairs_are_drawn_where_they_are_looked_at(show):
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.full(13, 0.2), 11)
    examples = [
        AlignmentExample([f"s{n}"] * 13, ["t"] * 11, weights, -n) for n in range(1000)
    ]
    page = show(examples)
    assert page.locator("#count").inner_text() == "1,000 sentence pairs"
    assert page.locator(".page-pair").count() == 1000
    assert page.locator(".alignment").count() < 60
    page.locator("#sort").select_option("Score")
    page.get_by_text("s999").first.wait_for()
    assert labels(page)[0] == 1000
    page.locator(".page-pair").last.scroll_into_view_if_needed()
    page.get_by_text("s0", exact=True).first.wait_for()
    assert page.locator(".alignment").count() < 120
    page.locator("#filter").fill("s512")
    page.get_by_text("s512").first.wait_for()
    assert labels(page) == [513]


def test_right_to_left_runs_from_the_right(show):
    hebrew = ["Toyota", "היא", "מכונית", "יפה", "."]
    example = AlignmentExample(hebrew, ["a", "car", "."], reference="שלום")
    page = show([example])
    source, target = (
        page.locator(f".alignment-{side}") for side in ("source", "target")
    )
    assert (source.get_attribute("dir"), target.get_attribute("dir")) == ("rtl", "ltr")
    assert page.locator(".alignment-reference").get_attribute("dir") == "rtl"
    lefts = [token(page, "source", i).bounding_box()["x"] for i in range(5)]
    assert lefts == sorted(lefts, reverse=True)
    lefts = [token(page, "target", j).bounding_box()["x"] for j in range(3)]
    assert lefts == sorted(lefts)
    # The lines are as wide as the longer one: no link has to cross the whole page.
    width = source.bounding_box()["width"]
    assert width == target.bounding_box()["width"] < 500


def test_arrow_keys_go_by_the_eye_where_text_runs_from_the_right(show):
    page = show([AlignmentExample(["א", "ב", "ג"], ["a"], [[0.5, 0.25, 0.25]])])
    token(page, "source", 1).focus()
    page.keyboard.press("ArrowRight")
    assert lit(page)[0] == ["א"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert lit(page)[0] == ["ג"]


def test_hostile_text_is_shown_as_text(show):
    tokens = [HOSTILE, "\ud800", "\0", ""]
    example = AlignmentExample(tokens, tokens, np.eye(4), reference=HOSTILE)
    page = show([example], title=HOSTILE, summary=HOSTILE)
    token(page, "source", 0).hover()
    assert token(page, "target", 0).text_content() == HOSTILE
    assert page.locator(".alignment-reference").inner_text() == HOSTILE
    assert page.title() == page.locator("h1").inner_text() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.evaluate("() => 'hit' in window") is False


def test_gold_links_are_shown_until_they_are_not_wanted(show):
    gold = EXAMPLE._replace(links=[(0, 0)], possible_links=[(1, 2)])
    page = show([gold, EXAMPLE])
    sure, possible = page.locator(".gold.sure"), page.locator(".gold.possible")
    assert (sure.count(), possible.count()) == (1, 1)
    [(start, stop)] = link_ends(page, ".gold.possible")
    expected = middle(token(page, "source", 1), "bottom")
    np.testing.assert_allclose(start, expected, atol=0.2)
    np.testing.assert_allclose(stop, middle(token(page, "target", 2), "top"), atol=0.2)
    assert page.locator("#gold-legend").is_visible()
    page.get_by_label("Gold links").uncheck()
    assert not sure.is_visible() and not possible.is_visible()
    page.get_by_label("Gold links").check()
    assert sure.is_visible()
    page = show([EXAMPLE])
    assert not page.get_by_label("Gold links").is_visible()
    assert not page.locator("#gold-legend").is_visible()


def test_on_paper_all_pairs_are_drawn(show):
    page = show([EXAMPLE] * 31)
    page.locator("#filter").fill("dog")
    assert page.locator(".alignment").count() < 31
    assert page.pdf().startswith(b"%PDF")
    assert page.locator(".alignment").count() == 31
    assert page.locator("body.is-printing").count() == 0
    # Before the browser does anything else, the links fit the width of the paper.
    ends = page.evaluate(
        """() => {
          dispatchEvent(new Event("beforeprint"));
          const box = (selector) =>
            document.querySelector(".page-pair " + selector).getBoundingClientRect();
          const token = box(".alignment-source .alignment-token:last-of-type");
          const start = (token.left + token.right) / 2 - box(".alignment-links").left;
          const paths = [...document.querySelectorAll(".page-pair:first-child path")];
          return [start, paths.map((path) => path.getAttribute("d"))];
        }"""
    )
    starts = [float(re.match(r"M([\d.]+) ", curve)[1]) for curve in ends[1]]
    assert max(starts) == pytest.approx(ends[0], abs=0.2)


def test_text_stands_out_in_both_colour_schemes(show):
    """By the ratio of contrast that WCAG asks of text, 4.5."""
    page = show([EXAMPLE])
    names = ["ink", "quiet", "accent", "sure", "possible", "card", "page"]
    read = "name => getComputedStyle(document.body).getPropertyValue(name)"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colors = {name: page.evaluate(read, f"--alignment-{name}") for name in names}
        shown = page.evaluate("() => getComputedStyle(document.body).color")
        expected = [int(colors["ink"][at : at + 2], 16) for at in (1, 3, 5)]
        assert [int(part) for part in re.findall(r"\d+", shown)] == expected
        back = [luminance(colors.pop("card")), luminance(colors.pop("page"))]
        assert (max(back) < 0.1) == (scheme == "dark")
        for color in colors.values():
            for ground in back:
                dark, light = sorted([luminance(color), ground])
                assert (light + 0.05) / (dark + 0.05) >= 4.5, color


def luminance(color):
    parts = [int(color.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_a_page_of_your_own_draws_a_pair(page):
    """What the script and the style do without the rest of the page."""
    page.set_content(
        f"<style>{pages.alignment_style()}</style>"
        f"<script>{pages.alignment_script()}</script>"
    )
    for pair, links in (
        ({"source": SOURCE, "target": TARGET, "weights": WEIGHTS, "score": -1.5}, 5),
        ({"source": SOURCE, "target": TARGET, "weights": None, "links": [[0, 0]]}, 1),
        ({"source": [], "target": [], "weights": []}, 0),
    ):
        page.evaluate("pair => document.body.replaceChildren(renderPair(pair))", pair)
        page.locator(".alignment").wait_for()
        assert page.locator(".alignment-link").count() == links
        tokens = page.locator(".alignment-token").all_text_contents()
        assert tokens == [*pair["source"], *pair["target"]]
        focusable = page.locator(".alignment-token[tabindex]").count()
        assert focusable == (len(tokens) if pair["weights"] else 0)
        assert ("score" in page.locator(".alignment").inner_text()) == ("score" in pair)
