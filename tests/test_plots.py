"""Pictures of attention weights, and of confused tags."""

import pathlib
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

from keras_bahdanau import plots

WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.0, 0.25, 0.75]])
SOURCE, TARGET = ["a", "black", "dog"], ["un", "chien"]


def texts(labels):
    return [label.get_text() for label in labels]


def test_source_runs_along_the_top_and_target_down_the_left_side():
    figure = plots.plot_attention(WEIGHTS, SOURCE, TARGET, title="A dog")
    [axes] = figure.axes
    assert texts(axes.get_xticklabels()) == SOURCE
    assert texts(axes.get_yticklabels()) == TARGET
    assert axes.xaxis.get_tick_params()["labeltop"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first target word on top
    [image] = axes.get_images()
    np.testing.assert_array_equal(image.get_array(), WEIGHTS)
    assert image.get_clim() == (0.0, 1.0)
    assert texts(figure.texts) == ["A dog"]


def test_white_is_one_and_black_is_zero(tmp_path):
    """Read from the pixels of the file, at the middle of each cell."""
    path = tmp_path / "picture.png"
    figure = plots.plot_attention([[1.0, 0.0]], ["yes", "no"], ["oui"], path, dpi=100)
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    height, width = pixels.shape[:2]
    assert (width, height) == tuple(
        int(round(side * 100)) for side in figure.get_size_inches()
    )
    box = figure.axes[0].get_position()
    row = int(height * (1 - (box.y0 + box.y1) / 2))
    left = int(width * (box.x0 + 0.25 * box.width))
    right = int(width * (box.x0 + 0.75 * box.width))
    assert pixels[row, left].min() > 0.99 and pixels[row, right].max() < 0.01


@pytest.mark.parametrize("sizes", [(1, 1), (2, 17), (17, 2), (61, 59), (151, 5)])
def test_any_size_fits_its_figure(sizes):
    rows, columns = sizes
    figure = plots.plot_attention(
        np.full(sizes, 1 / columns),
        [f"word{i}" for i in range(columns)],
        [f"a-rather-long-word{j}" for j in range(rows)],
        title="A title that is longer than a small picture is wide",
    )
    renderer = figure.canvas.get_renderer()
    box = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert -0.01 <= box.x0 and box.x1 <= width + 0.01
    assert -0.01 <= box.y0 and box.y1 <= height + 0.01
    assert max(width, height) < 50


def test_links_are_framed():
    figure = plots.plot_attention(
        WEIGHTS, SOURCE, TARGET, links=[(0, 0), (2, 1)], possible_links=[(1, 1)]
    )
    frames = [patch.get_xy() for patch in figure.axes[0].patches]
    centres = [tuple(int(round(side + 0.42)) for side in frame) for frame in frames]
    assert centres == [(0, 0), (2, 1), (1, 1)]


def test_a_grid_has_one_part_per_example_and_they_do_not_overlap(tmp_path):
    rng = np.random.default_rng(1)
    examples = []
    for rows, columns in ((2, 3), (7, 5), (11, 13), (1, 1), (3, 2)):
        weights = rng.dirichlet(np.ones(columns), rows)
        examples.append((weights, ["w"] * columns, ["mot"] * rows))
    path = tmp_path / "grid.png"
    figure = plots.plot_attention_grid(examples, path, columns=2, titles=list("abcde"))
    assert path.stat().st_size > 1000 and len(figure.axes) == 5
    assert texts(figure.texts) == list("abcde")
    renderer = figure.canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            assert not one.overlaps(other)
    lefts = [round(axes.get_position().x0, 2) for axes in figure.axes]
    assert len(set(lefts)) > 1


def test_strange_tokens_are_drawn_as_they_are():
    """No formulas, no line breaks, no labels without end; bytes are decoded."""
    tokens = ["$x^2$", "a\nb", "w" * 100, "été".encode(), ""]
    figure = plots.plot_attention(np.full((5, 5), 0.2), tokens, tokens)
    labels = figure.axes[0].get_xticklabels()
    assert texts(labels) == ["$x^2$", "a b", "w" * 29 + "…", "été", ""]
    assert not any(label.get_parse_math() for label in labels)
    figure.canvas.draw()


def test_right_to_left_labels_are_drawn_without_warnings(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.plot_attention(
            np.full((2, 3), 1 / 3), ["שלום", "لكم", "،"], ["a", "b"], tmp_path / "a.png"
        )


def test_what_no_font_has_is_warned_of_once_and_drawn_anyway(tmp_path, monkeypatch):
    fonts = [path for path in plots._installed() if "DejaVuSans.ttf" in path][:1]
    monkeypatch.setattr(plots, "_installed", lambda: tuple(fonts))
    monkeypatch.setattr(plots, "_add_new_fonts", lambda: False)
    path = tmp_path / "a.png"
    with pytest.warns(UserWarning, match="No installed font has 2 of the char") as seen:
        plots.plot_attention([[1.0]], ["\U00013000\U00013001"], ["a"], path)
    assert len(seen) == 1 and path.exists()


def test_a_font_that_has_the_characters_is_added(monkeypatch):
    """The signs of the STIX fonts that DejaVu lacks stand for other scripts."""
    matplotlib = pytest.importorskip("matplotlib")
    default = plots._resolved(list(matplotlib.rcParams["font.family"]))
    have = set().union(*map(plots._characters, default))
    for path in plots._installed():
        more = plots._characters(path) - have
        wanted = sorted(c for c in more if c.isprintable() and not c.isspace())
        if wanted:
            break
    else:
        pytest.skip("no installed font adds a character to the default one")
    figure = plots.plot_attention([[1.0]], [wanted[0]], ["a"])
    families = figure.axes[0].get_xticklabels()[0].get_fontfamily()
    assert len(families) == 2
    assert any(
        wanted[0] in plots._characters(file)
        for file in plots._installed()
        if plots._name(file) == families[1]
    )


def test_a_font_installed_since_matplotlib_listed_them_is_found(monkeypatch, tmp_path):
    """Its file is a copy of one that matplotlib brings and is made to forget."""
    matplotlib, font_manager = plots._matplotlib(), plots._matplotlib().font_manager
    folder = pathlib.Path(matplotlib.get_data_path(), "fonts/ttf")
    has = plots._characters(str(folder / "STIXGeneral.ttf"))
    wanted = min(has - plots._characters(str(folder / "DejaVuSans.ttf")))
    manager = font_manager.fontManager
    listed = [one for one in manager.ttflist if one.name.startswith("DejaVu Sans")]
    monkeypatch.setattr(manager, "ttflist", listed)
    monkeypatch.setattr(plots, "_looked_at", set())
    found, calls = [], []

    def find():
        calls.append(None)
        return found

    monkeypatch.setattr(font_manager, "findSystemFonts", find)
    plots._installed.cache_clear()
    try:
        plots.plot_attention([[1.0]], ["a"], ["b"])
        assert not calls
        with pytest.warns(UserWarning, match="No installed font has 1 of the char"):
            plots.plot_attention([[1.0]], [wanted], ["a"])
        for name in ("STIXGeneral.ttf", "broken.ttf"):
            found.append(str(tmp_path / name))
        shutil.copy(folder / "STIXGeneral.ttf", found[0])
        pathlib.Path(found[1]).write_bytes(b"no font")
        figure = plots.plot_attention([[1.0]], [wanted], ["a"])
        families = figure.axes[0].get_xticklabels()[0].get_fontfamily()
        assert families[1:] == ["STIXGeneral"] and len(calls) == 2
        # One that was removed since is not opened.
        pathlib.Path(found[0]).unlink()
        plots._installed.cache_clear()
        assert not plots._add_new_fonts() and found[0] not in plots._installed()
    finally:
        plots._installed.cache_clear()


def test_what_shapes_letters_stays_and_what_is_not_seen_goes():
    """Persian for `dogs`, a zero-width non-joiner between stem and ending."""
    dogs = "\u0633\u06af\u200c\u0647\u0627"
    assert plots._label(dogs) == dogs and plots._label("\u0915\u200d") == "\u0915\u200d"
    assert plots._label("co\u00adop\u2060s\ufeff") == "coops"
    assert plots._label("a\u2028b\x07c\u3000") == "a b c"


def test_chinese_words_are_stacked():
    assert (
        plots._is_wide("大家") and not plots._is_wide("a大") and not plots._is_wide("")
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((WEIGHTS, SOURCE[:2], TARGET), r"Received shape \(2, 3\) for 2 target and 2"),
        ((np.zeros((0, 3)), SOURCE, []), "neither of them 0"),
        ((WEIGHTS * 2, SOURCE, TARGET), "must lie between 0 and 1"),
        ((WEIGHTS * np.nan, SOURCE, TARGET), "must lie between 0 and 1"),
    ],
)
def test_weights_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.plot_attention(*arguments)
    with pytest.raises(ValueError, match=r"examples\[1\]"):
        plots.plot_attention_grid([(WEIGHTS, SOURCE, TARGET), arguments])


def test_other_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="`links` must be pairs"):
        plots.plot_attention(WEIGHTS, SOURCE, TARGET, links=[(3, 0)])
    with pytest.raises(ValueError, match="Received 0 examples and 0 titles"):
        plots.plot_attention_grid([])
    with pytest.raises(ValueError, match="Received 1 examples and 2 titles"):
        plots.plot_attention_grid([(WEIGHTS, SOURCE, TARGET)], titles=["a", "b"])
    with pytest.raises(ValueError, match="`columns` must be at least 1"):
        plots.plot_attention_grid([(WEIGHTS, SOURCE, TARGET)], columns=0)
    with pytest.raises(ValueError, match=r"2 parts in examples\[0\]"):
        plots.plot_attention_grid([(WEIGHTS, SOURCE)])


# ------------------------------------------------------------------ confusions

CONFUSION = np.array([[90, 10, 0], [1, 3998, 1], [0, 0, 0]])
TAGS = ["ADJ", "NOUN", "X$"]


def cells(figure):
    """The texts of the cells, by row and column."""
    found = {text.get_position(): text.get_text() for text in figure.axes[0].texts}
    return {(j, i): text for (i, j), text in found.items()}


def test_gold_tags_run_down_and_predicted_ones_along_the_top():
    figure = plots.plot_confusion(CONFUSION, TAGS, title="dev")
    [axes] = figure.axes
    assert texts(axes.get_xticklabels()) == texts(axes.get_yticklabels()) == TAGS
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first gold tag on top
    assert texts(figure.texts) == ["dev (rows: gold,\ncolumns: predicted)"]
    assert cells(figure) == {
        (0, 0): "90",
        (0, 1): "10",
        (1, 0): "1",
        (1, 1): "3998",
        (1, 2): "1",
    }
    shares = [[0.9, 0.1, 0], [1 / 4000, 3998 / 4000, 1 / 4000], [0, 0, 0]]
    [image] = axes.get_images()
    np.testing.assert_allclose(image.get_array() ** 2, shares, atol=1e-12)
    assert image.get_clim() == (0.0, 1.0)


def test_a_cell_says_its_count_its_share_or_both():
    shares = cells(plots.plot_confusion(CONFUSION, TAGS, values="shares"))
    assert list(shares.values()) == ["90", "10", "<0.1", ">99.9", "<0.1"]
    both = cells(plots.plot_confusion(CONFUSION, TAGS, values="both"))
    assert both[0, 1] == "10\n10 %" and both[1, 1] == "3998\n>99.9 %"
    assert cells(plots.plot_confusion(CONFUSION, TAGS, values=None)) == {}
    rare = plots.plot_confusion([[996, 4], [1, 1]], ["A", "B"], values="shares")
    assert list(cells(rare).values()) == ["99.6", "0.4", "50", "50"]


@pytest.mark.parametrize("size", [1, 17, 50])
@pytest.mark.parametrize("values", ["counts", "both"])
def test_any_number_of_tags_is_legible(tmp_path, size, values):
    """Numbers stay inside of their cells, at 5 points or more."""
    matrix = 12345 * np.eye(size, dtype=int)
    matrix[size // 2] = 12345
    path = tmp_path / "picture.png"
    tags = [f"TAG{number}" for number in range(size)]
    figure = plots.plot_confusion(matrix, tags, path, values=values)
    assert path.stat().st_size > 1000
    [axes] = figure.axes
    renderer = figure.canvas.get_renderer()
    side = axes.get_window_extent(renderer).width / size
    for text in axes.texts:
        box = text.get_window_extent(renderer)
        assert box.width < side and box.height < side
        assert text.get_fontsize() >= 5
    box = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert -0.01 <= box.x0 and box.x1 <= width + 0.01
    assert -0.01 <= box.y0 and box.y1 <= height + 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CONFUSION, TAGS[:2]), r"Received shape \(3, 3\) for 2 tags"),
        ((CONFUSION[:2], TAGS), r"Received shape \(2, 3\)"),
        ((np.zeros((0, 0), int), []), "of which there must be one"),
        ((CONFUSION / 2, TAGS), "must hold counts.*Received dtype float64"),
        ((-CONFUSION, TAGS), "between -3998 and 0"),
        ((CONFUSION, TAGS, None, "percent"), "'both', None.. Received: 'percent'"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(arguments, message):
    matrix, tags, path, values = (*arguments, None, "counts")[:4]
    with pytest.raises(ValueError, match=message):
        plots.plot_confusion(matrix, tags, path, values=values)


# ------------------------------------------------------------------ importing


def run(code):
    """Runs code in a process in which the package's own `__init__` stays out."""
    folder = str(pathlib.Path(plots.__file__).parent)
    start = (
        "import sys, types; package = types.ModuleType('keras_bahdanau');"
        f"package.__path__ = [{folder!r}]; sys.modules['keras_bahdanau'] = package\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_matplotlib_is_imported_when_drawing_and_pyplot_never():
    code = (
        "from keras_bahdanau import plots\n"
        "print('matplotlib' in sys.modules)\n"
        "plots.plot_attention([[1.0]], ['a'], ['b'])\n"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)\n"
    )
    assert run(code) == ["False", "True", "False"]


def test_without_matplotlib_the_error_names_the_extra():
    code = (
        "sys.modules['matplotlib'] = None\n"
        "from keras_bahdanau import plots\n"
        "try:\n    plots.plot_attention([[1.0]], ['a'], ['b'])\n"
        "except ImportError as error:\n    print('keras-bahdanau[plots]' in str(error))"
    )
    assert run(code) == ["True"]
