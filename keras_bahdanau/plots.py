"""Pictures of attention weights, as in Figure 3 of the paper, and of confused tags.

matplotlib is imported when a picture is drawn. The figures do not go through pyplot:
no window opens, no backend is chosen, and there is nothing to close.
"""

import contextlib
import functools
import os
import textwrap
import unicodedata
import warnings

import numpy as np

_CELL = 0.3  # Inches; smaller where a sentence is long.
_MARGIN = 0.08
_PAD = 0.07
_LINE = 1.25  # Line height, in font sizes.
_GAP = 0.45
_LARGEST = 13.0  # Inches that the cells of one sentence may take.
_LONGEST_LABEL = 30
_JOINERS = "\u200c\u200d"  # Zero-width non-joiner and joiner.
_CELL_TEXTS = {"counts": "{0}", "shares": "{1}", "both": "{0}\n{1} %"}
_LINK_COLORS = {"links": "tab:orange", "possible_links": "tab:blue"}
_looked_at = set()  # Files of fonts that were new to matplotlib.


def plot_attention(
    weights,
    source_tokens,
    target_tokens,
    path=None,
    *,
    links=(),
    possible_links=(),
    title=None,
    cell_size=None,
    dpi=150,
):
    """Draws the attention weights of one sentence pair.

    Source words run along the top, target words down the left side. Black is a weight
    of 0, white one of 1.

    Args:
        weights: Array of shape `(T, S)`, between 0 and 1.
        source_tokens: `S` strings.
        target_tokens: `T` strings.
        path: File to write, its format by its ending; None to write none.
        links: Pairs (source position, target position) to frame in orange, such as
            gold links.
        possible_links: Pairs to frame in blue.
        title: Text above the picture.
        cell_size: Side of a cell in inches; by default 0.3, less in long sentences.
        dpi: Dots per inch of the file.

    Returns:
        A `matplotlib.figure.Figure` that pyplot knows nothing of: draw on it, save it,
        or let a notebook show it; there is nothing to close.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the weights do not fit the tokens.

    Example:

    >>> figure = plot_attention([[0.9, 0.1], [0.2, 0.8]], ["a", "dog"], ["un", "chien"])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['a', 'dog']
    """
    panel = {"links": links, "possible_links": possible_links, "title": title}
    panels = [_panel(weights, source_tokens, target_tokens, panel, "`weights`")]
    return _draw(panels, path, columns=1, cell_size=cell_size, dpi=dpi)


def plot_attention_grid(
    examples, path=None, *, columns=None, titles=None, cell_size=None, dpi=150
):
    """Draws the attention weights of several sentence pairs in one picture.

    Args:
        examples: Sequence of triples (weights, source tokens, target tokens), each as
            for `plot_attention`.
        path: File to write; None to write none.
        columns: Number of columns; by default as many as make the picture about
            square.
        titles: One text per sentence pair, above its part.
        cell_size: Side of a cell in inches; by default 0.3, less in long sentences.
        dpi: Dots per inch of the file.

    Returns:
        A `matplotlib.figure.Figure`, see `plot_attention`.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If there are no examples, or one of them does not fit.

    Example:

    >>> example = [[1.0]], ["yes"], ["oui"]
    >>> len(plot_attention_grid([example] * 3).axes)
    3
    """
    examples = list(examples)
    titles = [None] * len(examples) if titles is None else list(titles)
    if not examples or len(titles) != len(examples):
        raise ValueError(
            "`examples` must hold one sentence pair or more, and `titles` one text for "
            f"each. Received {len(examples)} examples and {len(titles)} titles."
        )
    if columns is not None and columns < 1:
        raise ValueError(f"`columns` must be at least 1. Received: columns={columns}.")
    panels = []
    for index, (example, title) in enumerate(zip(examples, titles)):
        name = f"the weights of examples[{index}]"
        if len(example) != 3:
            raise ValueError(
                "An example must be (weights, source tokens, target tokens). Received "
                f"{len(example)} parts in examples[{index}]."
            )
        panels.append(_panel(*example, {"title": title}, name))
    return _draw(panels, path, columns=columns, cell_size=cell_size, dpi=dpi)


def plot_confusion(
    matrix,
    tag_names,
    path=None,
    *,
    values="counts",
    title=None,
    cell_size=None,
    dpi=150,
):
    """Draws which tags were taken for which.

    Gold tags run down the left side, predicted ones along the top. The darker a cell,
    the larger its share of its row; the square root of the share is drawn, so that rare
    mistakes show. A cell without words stays empty.

    Args:
        matrix: Array of shape `(N, N)`, how many words of gold tag `i` were given tag
            `j`, as `TagReport.confusion`.
        tag_names: `N` strings.
        path: File to write, its format by its ending; None to write none.
        values: What stands in the cells: `"counts"`, `"shares"` (of the row, in
            percent), `"both"` or `None`.
        title: Text above the picture.
        cell_size: Side of a cell in inches; by default 0.34, which stays legible, and
            more for `"both"`.
        dpi: Dots per inch of the file.

    Returns:
        A `matplotlib.figure.Figure`, see `plot_attention`.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the matrix does not fit the names.

    Example:

    >>> figure = plot_confusion([[8, 2], [0, 5]], ["NOUN", "VERB"], values="shares")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['80', '20', '100']
    """
    matrix, tag_names = np.asarray(matrix), list(tag_names)
    _check_confusion(matrix, tag_names, values)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    note = "rows: gold, columns: predicted"
    panel = {"title": note if title is None else f"{title} ({note})"}
    panel = _panel(np.sqrt(shares), tag_names, tag_names, panel, "`matrix`")
    cell = cell_size or min(0.5 if values == "both" else 0.34, 40 / len(tag_names))
    figure = _draw([panel], None, columns=1, cell_size=cell, dpi=dpi)
    [axes] = figure.axes
    axes.get_images()[0].set_cmap("Blues")
    if values is not None:
        _write_counts(axes, matrix, shares, values, cell)
    if path is not None:
        with _without_glyph_warnings():
            figure.savefig(os.fspath(path), dpi=dpi)
    return figure


def _check_confusion(matrix, tag_names, values):
    """Refuses what is not a matrix of counts, or does not fit."""
    size = len(tag_names)
    if matrix.shape != (size, size) or not size:
        raise ValueError(
            "`matrix` must have a row and a column for each tag, of which there must "
            f"be one. Received shape {matrix.shape} for {size} tags."
        )
    if matrix.dtype.kind not in "iu" or (matrix < 0).any():
        raise ValueError(
            "`matrix` must hold counts, integers of 0 or more. Received dtype "
            f"{matrix.dtype} and values between {matrix.min()} and {matrix.max()}."
        )
    if values not in (*_CELL_TEXTS, None):
        raise ValueError(
            f"`values` must be one of {[*_CELL_TEXTS, None]}. Received: {values!r}."
        )


def _write_counts(axes, matrix, shares, values, cell):
    """Writes in each cell with words how many they are."""
    texts = {
        (i, j): _CELL_TEXTS[values].format(matrix[i, j], _percent(shares[i, j]))
        for i, j in np.argwhere(matrix).tolist()
    }
    longest = max(
        (len(line) for t in texts.values() for line in t.split("\n")), default=1
    )
    # A digit is some 0.64 of the font size wide, and a line 1.2 of it high.
    height = 2.4 if values == "both" else 1.2
    size = min(8.0, 66 * cell / max(0.64 * longest, height))
    for (i, j), text in texts.items():
        color = "white" if shares[i, j] > 0.4 else "black"
        axes.text(j, i, text, ha="center", va="center", size=size, color=color)


def _percent(share):
    """Whole percents, or a tenth where those would say 0 or 100 and it is neither."""
    percent = f"{100 * share:.0f}"
    if (percent == "0" and share > 0) or (percent == "100" and share < 1):
        percent = f"{100 * share:.1f}"
    return {"0.0": "<0.1", "100.0": ">99.9"}.get(percent, percent)


def _panel(weights, source_tokens, target_tokens, options, name):
    """Checks one sentence pair."""
    weights = np.asarray(weights, dtype="float64")
    source_tokens, target_tokens = list(source_tokens), list(target_tokens)
    if weights.shape != (len(target_tokens), len(source_tokens)) or not weights.size:
        raise ValueError(
            f"{name} must have shape (target tokens, source tokens), neither of them "
            f"0. Received shape {weights.shape} for {len(target_tokens)} target and "
            f"{len(source_tokens)} source tokens. Cut off padding, and name the end "
            "token where the weights have it."
        )
    if not (weights >= -1e-3).all() or not (weights <= 1 + 1e-3).all():
        raise ValueError(
            f"{name} must lie between 0 and 1. Received values between "
            f"{weights.min()} and {weights.max()}."
        )
    for kind in ("links", "possible_links"):
        for i, j in options.get(kind, ()):
            if not (0 <= i < len(source_tokens) and 0 <= j < len(target_tokens)):
                raise ValueError(
                    f"`{kind}` must be pairs (source position, target position) "
                    f"within {name}. Received: {(i, j)}."
                )
    return {
        **options,
        "weights": weights,
        "source": [_label(token) for token in source_tokens],
        "target": [_label(token) for token in target_tokens],
    }


def _label(token):
    """One short line of visible characters."""
    if isinstance(token, bytes):
        token = token.decode("utf-8", errors="replace")
    token = "".join(map(_visible, str(token))).strip()
    if len(token) > _LONGEST_LABEL:
        token = token[: _LONGEST_LABEL - 1] + "…"
    return token


def _visible(character):
    """The character, a blank for what ends a line or a word, or nothing."""
    category = unicodedata.category(character)
    if category == "Cf":
        # Those without a sight of their own, but for the two that shape letters.
        return character if character in _JOINERS else ""
    return " " if category[0] in "CZ" else character


# ---------------------------------------------------------------- layout


def _draw(panels, path, columns, cell_size, dpi):
    """Lays the panels out on a figure of their size, draws them, and saves it."""
    matplotlib = _matplotlib()
    longest = max(max(panel["weights"].shape) for panel in panels)
    cell = cell_size or min(_CELL, max(_LARGEST / longest, 0.11), 40 / longest)
    font = {"family": _families(panels), "size": min(11.0, 44.0 * cell)}
    figure = matplotlib.figure.Figure(dpi=dpi)
    matplotlib.backends.backend_agg.FigureCanvasAgg(figure)
    with _without_glyph_warnings():
        for panel in panels:
            panel["size"] = _measure(figure, panel, cell, font)
    columns = min(columns or _columns(panels), len(panels))
    rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    widths = [
        max(row[column]["size"]["width"] for row in rows if column < len(row))
        for column in range(columns)
    ]
    heights = [max(panel["size"]["height"] for panel in row) for row in rows]
    width = sum(widths) + _GAP * (columns - 1) + 2 * _MARGIN
    height = sum(heights) + _GAP * (len(rows) - 1) + 2 * _MARGIN
    figure.set_size_inches(width, height)
    top = height - _MARGIN
    for row, row_height in zip(rows, heights):
        left = _MARGIN
        for panel, column_width in zip(row, widths):
            _draw_panel(figure, panel, left, top, font)
            left += column_width + _GAP
        top -= row_height + _GAP
    if path is not None:
        with _without_glyph_warnings():
            figure.savefig(os.fspath(path), dpi=dpi)
    return figure


def _columns(panels):
    """The number of columns that comes closest to a square picture."""
    width = max(panel["size"]["width"] for panel in panels) + _GAP
    height = max(panel["size"]["height"] for panel in panels) + _GAP

    def longer_side(columns):
        return max(columns * width, -(-len(panels) // columns) * height)

    return min(range(1, len(panels) + 1), key=longer_side)


def _measure(figure, panel, cell, font):
    """Inches that the labels, the cells and the whole panel take."""
    renderer = figure.canvas.get_renderer()
    properties = _matplotlib().font_manager.FontProperties(**font)

    def length(text):
        size = renderer.get_text_width_height_descent(text, properties, False)
        return size[0] / figure.dpi

    line = _LINE * font["size"] / 72
    rows, columns = panel["weights"].shape
    left = max(map(length, panel["target"])) + _PAD
    above = _PAD + max(
        len(text) * line if _is_wide(text) else length(text) for text in panel["source"]
    )
    width = left + columns * cell
    title = []
    if panel.get("title"):
        letter = length("n") * 1.05
        title = textwrap.wrap(panel["title"], max(20, int(width / letter)))
        width = max([width, *map(length, title)])
    return {
        "left": left,
        "above": above,
        "cell": cell,
        "title": "\n".join(title),
        "title_height": len(title) * line + 0.12 * bool(title),
        "width": width,
        "height": len(title) * line + 0.12 * bool(title) + above + rows * cell,
    }


def _is_wide(label):
    """Whether it is Chinese, Japanese or Korean throughout, which can be stacked."""
    return bool(label) and all(unicodedata.east_asian_width(c) in "WF" for c in label)


def _draw_panel(figure, panel, left, top, font):
    """Draws one sentence pair with its upper left corner at the given inches."""
    width, height = figure.get_size_inches()
    size, weights = panel["size"], panel["weights"]
    rows, columns = weights.shape
    cell = size["cell"]
    bottom = top - size["height"]
    axes = figure.add_axes(
        (
            (left + size["left"]) / width,
            bottom / height,
            columns * cell / width,
            rows * cell / height,
        )
    )
    axes.imshow(
        weights, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest"
    )
    axes.tick_params(length=0, pad=3, top=True, labeltop=True, labelbottom=False)
    stacked = ["\n".join(text) if _is_wide(text) else text for text in panel["source"]]
    axes.set_xticks(range(columns), stacked, rotation=90, **font)
    axes.set_yticks(range(rows), panel["target"], **font)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)
    for label, text in zip(axes.get_xticklabels(), panel["source"]):
        if _is_wide(text):
            label.set(rotation=0, linespacing=1.0)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)
    for kind, color in _LINK_COLORS.items():
        for i, j in panel.get(kind, ()):
            _frame(axes, i, j, color, cell)
    if size["title"]:
        text = figure.text(left / width, top / height, size["title"], va="top", **font)
        text.set_parse_math(False)


def _frame(axes, i, j, color, cell):
    """Frames the cell of a link, inside its edges."""
    patches = _matplotlib().patches
    axes.add_patch(
        patches.Rectangle(
            (i - 0.42, j - 0.42), 0.84, 0.84, fill=False, color=color, lw=5.5 * cell
        )
    )


# ---------------------------------------------------------------- fonts


def _families(panels):
    """Font families for the labels: the user's own, then what fills their gaps."""
    labels = [label for panel in panels for label in panel["source"] + panel["target"]]
    labels += [panel["title"] or "" for panel in panels]
    matplotlib = _matplotlib()
    families = list(matplotlib.rcParams["font.family"])
    missing = {c for c in "".join(labels) if not c.isspace()}
    for family in _resolved(families):
        missing -= _characters(family)
    while missing:
        best = max(
            _installed(),
            key=lambda path: len(missing & _characters(path)),
            default=None,
        )
        found = missing & _characters(best) if best else set()
        if not found:
            if _add_new_fonts():
                continue
            _warn_missing(missing)
            break
        families.append(_name(best))
        missing -= found
    return families


def _resolved(families):
    """Files of the fonts that matplotlib uses for the families of its settings."""
    manager = _matplotlib().font_manager
    return [
        str(
            manager.findfont(
                manager.FontProperties(family=[family]), rebuild_if_missing=False
            )
        )
        for family in families
    ]


@functools.cache
def _installed():
    """Files of the upright fonts of normal weight, sorted by name."""
    manager = _matplotlib().font_manager
    return tuple(
        entry.fname
        for entry in sorted(manager.fontManager.ttflist, key=lambda entry: entry.name)
        if entry.style == "normal"
        and entry.weight in (400, "normal", "regular", "book")
        and not entry.name.startswith("Last Resort")
        and os.path.exists(entry.fname)
    )


def _add_new_fonts():
    """Tells matplotlib of fonts installed since it wrote its list of them.

    Returns:
        Whether there are any.
    """
    manager = _matplotlib().font_manager
    known = {entry.fname for entry in manager.fontManager.ttflist} | _looked_at
    new = sorted(set(manager.findSystemFonts()) - known)
    for path in new:
        _looked_at.add(path)
        # Of many kinds: matplotlib too leaves out what it cannot read.
        with contextlib.suppress(Exception):
            manager.fontManager.addfont(path)
    if new:
        _installed.cache_clear()
    return bool(new)


@functools.cache
def _characters(path):
    """The characters that the font of a file has."""
    manager = _matplotlib().font_manager
    return frozenset(map(chr, manager.get_font(path).get_charmap()))


def _name(path):
    manager = _matplotlib().font_manager
    return next(e.name for e in manager.fontManager.ttflist if e.fname == path)


def _warn_missing(characters):
    some = "".join(sorted(characters)[:20])
    warnings.warn(
        f"No installed font has {len(characters)} of the characters, among them "
        f"{some!r}; they are drawn as boxes. Install a font that has them, such as "
        "Noto Sans CJK for Chinese, Japanese and Korean.",
        stacklevel=5,
    )


@contextlib.contextmanager
def _without_glyph_warnings():
    """Keeps matplotlib from repeating, glyph by glyph, what we have said."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def _matplotlib():
    """matplotlib with the modules used here, or how to install it."""
    try:
        import matplotlib
        import matplotlib.backends.backend_agg
        import matplotlib.figure
        import matplotlib.font_manager
        import matplotlib.patches
    except ImportError as error:
        raise ImportError(
            "This needs the package `matplotlib`, which does not import here: install "
            'it with `pip install "keras-bahdanau[plots]"`.'
        ) from error
    return matplotlib
