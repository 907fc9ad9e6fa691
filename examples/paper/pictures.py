"""The pictures of the report; no window opens."""

from matplotlib.figure import Figure

from keras_bahdanau.plots import plot_attention_grid

# Told apart by who does not see all colours, and in print (Okabe and Ito).
COLORS = {"RNNsearch": "#0072B2", "RNNencdec": "#E69F00"}
LINES = ("--", "-", ":", "-.")
MARKERS = ("o", "s", "^", "D")
# Sentences that must have a position for its mean to be drawn.
LEAST = 20
GATES = ("encoder forward", "encoder backward", "decoder")


def draw_all(found, folder):
    """Draws what there is to draw.

    Args:
        found: What `findings.find` returned.
        folder: Where the files go.

    Returns:
        Set of the names of the files.
    """
    attending = [one for one in found["systems"] if one["model"] == "RNNsearch"]
    pictures = {"by_length.png": _by_length(found), "gates.png": _gates(found)}
    pictures["training.png"] = _training(found)
    if found["curves"]:
        pictures["optimizers.png"] = _optimizers(found["curves"])
    if attending:
        pictures["weights.png"] = _weights(found, attending)
    if attending and attending[-1]["examples"]:
        pictures["alignments.png"] = _alignments(attending[-1]["examples"])
    for name, figure in pictures.items():
        figure.savefig(folder / name)
    return set(pictures)


def _figure(width, height):
    return Figure((width, height), layout="constrained", dpi=130)


def _style(one, found):
    """Colour by model, line by limit."""
    limits = sorted({system["max_length"] for system in found["systems"]})
    place = limits.index(one["max_length"]) % len(LINES)
    return {
        "color": COLORS[one["model"]],
        "linestyle": LINES[place],
        "marker": MARKERS[place],
        "markersize": 4,
        "label": one["name"],
    }


def _by_length(found):
    figure = _figure(6.5, 4)
    axes = figure.subplots()
    for one in found["systems"]:
        axes.plot(_middles(found), one["by_length"], **_style(one, found))
    _finish(axes, "words of the source", "BLEU")
    _label_buckets(axes, found)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    return figure


def _training(found):
    figure = _figure(9.5, 3.6)
    left, right = figure.subplots(1, 2)
    for one in found["systems"]:
        log, style = one["log"], _style(one, found)
        left.plot(log["updates"], log["loss"], **style)
        right.plot(log["updates"], log["val_bleu"], **style)
    _finish(left, "updates", "training loss of a word")
    _finish(right, "updates", "validation BLEU (greedy search)")
    right.legend(fontsize=8)
    return figure


def _optimizers(curves):
    figure = _figure(6.5, 3.6)
    axes = figure.subplots()
    for (name, log), line in zip(sorted(curves.items()), LINES):
        axes.plot(log["updates"], log["loss"], label=name, linestyle=line)
    _finish(axes, "updates", "training loss of a word")
    axes.legend(fontsize=8)
    return figure


def _gates(found):
    figure = _figure(9.5, 5)
    rows = figure.subplots(2, 3, sharey="row", squeeze=False)
    for kind, row in zip(("update", "reset"), rows):
        for part, axes in zip(GATES, row):
            for one in found["systems"]:
                _draw_gate(axes, one, f"{part} {kind}", _style(one, found))
            _finish(axes, "position", f"{kind} gate")
            axes.set_title(part, fontsize=9)
    # Above the panels, where it covers no line.
    names = rows[0][0].get_legend_handles_labels()
    figure.legend(*names, loc="outside upper center", ncols=len(names[0]), fontsize=8)
    return figure


def _draw_gate(axes, one, name, style):
    inside = one["inside"]
    if name not in inside["gates"]:
        return
    side = "target" if name.startswith("decoder") else "source"
    pairs = inside["pairs"][side]
    size = sum(count >= min(LEAST, max(pairs)) for count in pairs)
    positions = range(1, size + 1)
    axes.plot(positions, inside["gates"][name][:size], **{**style, "marker": ""})


def _weights(found, attending):
    figure = _figure(9.5, 3.6)
    panels = figure.subplots(1, 3)
    titles = {
        "entropy": "entropy of the weights (nats)",
        "end_mass": "weight of the end token, at words",
        "end_mass_at_end": "weight of the end token, at the end",
    }
    for axes, (name, title) in zip(panels, titles.items()):
        for one in attending:
            axes.plot(_middles(found), one["inside"][name], **_style(one, found))
        _finish(axes, "words of the source", title)
        _label_buckets(axes, found)
        axes.set_ylim(bottom=0)
    panels[0].legend(fontsize=8)
    return figure


def _alignments(examples):
    parts = [(one["weights"], one["source"], one["target"]) for one in examples]
    return plot_attention_grid(parts, columns=2)


def _middles(found):
    return [(group["first"] + group["last"]) / 2 for group in found["buckets"]]


def _label_buckets(axes, found):
    names = [f"{group['first']}–{group['last']}" for group in found["buckets"]]
    axes.set_xticks(_middles(found), names, fontsize=7, rotation=30)


def _finish(axes, across, up):
    axes.set_xlabel(across, fontsize=9)
    axes.set_ylabel(up, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", alpha=0.3)
