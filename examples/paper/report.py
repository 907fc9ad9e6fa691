"""Writes the report of a study: `report.json`, pictures, and `report.html` with all."""

import base64
import html
import pathlib
import string

from findings import find
from pictures import draw_all
from settings import write_json
from verdict import falling, ordering

PAGE = pathlib.Path(__file__).with_name("report.html")


def write_report(study, runs):
    """Writes what is known of the systems that are finished.

    Args:
        study: `Study`.
        runs: Dictionary from the name of a system to a dictionary from each seed that
            is finished to what `evaluate` returned; one at least.

    Returns:
        Name of the page.
    """
    folder = study.args.output
    found = find(study, runs)
    found["ordering"], found["falling"] = ordering(found), falling(found)
    write_json(folder / "report.json", found)
    drawn = draw_all(found, folder)
    sections = [
        _summary(found),
        _bleu(found),
        _long(found, folder),
        _alignments(found, folder, drawn),
        _joined(found),
        _training(found, folder, drawn),
        _inside(folder, drawn),
    ]
    text = string.Template(PAGE.read_text(encoding="utf-8")).substitute(
        title=html.escape(f"The paper's experiment on {found['corpus']['name']}"),
        body="\n".join(sections),
    )
    page = folder / "report.html"
    page.write_text(text, encoding="utf-8")
    return page


def _summary(found):
    corpus = found["corpus"]
    words = " and ".join(f"{size:,}" for size in corpus["vocabularies"])
    return _paragraph(
        f"{corpus['train']:,} sentence pairs to train on, "
        f"{' to '.join(corpus['languages'])}, {corpus['test']:,} to test, of which "
        f"{corpus['known']:,} have no unknown word on either side with shortlists of "
        f"{words} words."
    )


def _bleu(found):
    intervals = {
        (name, one["sentences"]): interval
        for one in found["comparisons"]
        for name, interval in zip((one["baseline"], one["system"]), one["intervals"])
    }
    rows = [
        [one["name"], *_cells(one, intervals), ", ".join(map(str, one["seeds"]))]
        for one in found["systems"]
    ]
    ours = _table(["system", "All", "No UNK", "seeds"], rows, "here")
    published = [
        [name, f"{everything:.2f}", f"{known:.2f}", "published"]
        for name, everything, known in found["published"]
    ]
    theirs = _table(["system", "All", "No UNK", ""], published, "news-test-2014")
    note = (
        "BLEU of the test sentences, the mean over the seeds and the values of each; "
        "± is half of the 95 % interval of the first seed, from the paired bootstrap "
        f"of sacrebleu with {found['resamples']:,} resamples. All: every pair. No "
        "UNK: the pairs without an unknown word on either side, unknown words "
        f"forbidden in the search. Measure: {found['measure']}. The table on the right "
        "is the paper's and was not measured here; it is about other text, so that "
        "only the order of its rows can be compared. Moses is a phrase-based system."
    )
    return "\n".join(
        [
            "<h2>BLEU</h2>",
            f'<div class="tables">{ours}{theirs}</div>',
            _paragraph(note, "note"),
            _list(found["ordering"]),
        ]
    )


def _cells(one, intervals):
    """Mean, interval and the values of the seeds, of both columns."""
    for part, scores in one["bleu"].items():
        cell = f"{sum(scores) / len(scores):.2f}"
        if (one["name"], part) in intervals:
            cell += f" ± {intervals[one['name'], part]:.2f}"
        if len(scores) > 1:
            cell += f" ({', '.join(f'{score:.2f}' for score in scores)})"
        yield cell


def _long(found, folder):
    header = ["words"] + [one["name"] for one in found["systems"]] + ["pairs"]
    rows = [
        [
            f"{group['first']} to {group['last']}",
            *(f"{one['by_length'][place]:.2f}" for one in found["systems"]),
            group["pairs"],
        ]
        for place, group in enumerate(found["buckets"])
    ]
    return "\n".join(
        [
            "<h2>BLEU against the length of the source (the paper's Figure 2)</h2>",
            _picture(folder / "by_length.png", "BLEU against length"),
            _table(header, rows),
            _list(found["falling"]),
        ]
    )


def _alignments(found, folder, drawn):
    if "alignments.png" not in drawn:
        return ""
    name = [one["name"] for one in found["systems"] if one["examples"]][-1]
    link = html.escape(f"{name}/seed-1/alignments.html")
    return "\n".join(
        [
            "<h2>What is looked at (the paper's Figure 3)</h2>",
            _paragraph(
                f"Weights of {name} for its own translations of test sentences: the "
                "source along the top, the translation down the side, white for 1."
            ),
            _picture(folder / "alignments.png", "attention weights"),
            f'<p>More sentences: <a href="{link}">{link}</a>.</p>',
        ]
    )


def _joined(found):
    if not found["joined"]:
        return ""
    rows = [
        [count, f"{cut['words']:.1f}", cut["texts"]]
        + [f"{one['joined'][count]['bleu']:.2f}" for one in found["systems"]]
        for count, cut in found["joined"].items()
    ]
    names = [one["name"] for one in found["systems"]]
    last = list(found["joined"])[-1]
    texts = [["source", found["joined"][last]["source"]]]
    texts += [["reference", found["joined"][last]["reference"]]]
    texts += [[one["name"], one["joined"][last]["example"]] for one in found["systems"]]
    return "\n".join(
        [
            "<h2>Sentences put together</h2>",
            _paragraph(
                "The same short test sentences without unknown words, put together to "
                "longer ones with blanks between them; unknown words are forbidden. "
                "The text is the same in each row, only the cuts are others."
            ),
            _table(["sentences in one", "words", "texts", *names], rows),
            _table(["", f"the first text of {last} sentences"], texts),
        ]
    )


def _training(found, folder, drawn):
    rows = [
        [one["name"], *(f"{one['seconds'][part]:.0f}" for part in one["seconds"])]
        for one in found["systems"]
    ]
    parts = [
        "<h2>Training</h2>",
        _picture(folder / "training.png", "loss and validation BLEU"),
        _table(["system", "seconds of training", "of the tests"], rows, "first seed"),
    ]
    if "optimizers.png" in drawn:
        losses = "; ".join(
            f"{name} from {log['loss'][0]:.2f} to {log['loss'][-1]:.2f}"
            for name, log in found["curves"].items()
        )
        parts += [
            "<h2>The recipe of the paper</h2>",
            _paragraph(
                "The model of paper(), its initialisation and step order at a smaller "
                "width, with Adadelta as in the paper and with Adam. Mean loss of "
                f"a word over the first and of the last updates: {losses}."
            ),
            _picture(folder / "optimizers.png", "loss with two optimizers"),
        ]
    return "\n".join(parts)


def _inside(folder, drawn):
    parts = [
        "<h2>What the models know</h2>",
        _paragraph(
            "Mean gates by position, the test references given. Update: the share of "
            "the new candidate in the state, in the paper's sense; reset: how much of "
            "the old state the candidate sees."
        ),
        _picture(folder / "gates.png", "gates by position"),
    ]
    if "weights.png" in drawn:
        parts += [
            _paragraph(
                "Weights, the references given: their entropy and the share of the end "
                "token, means of the sentences of a length."
            ),
            _picture(folder / "weights.png", "entropy and weight of the end token"),
        ]
    return "\n".join(parts)


def _paragraph(text, kind=None):
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{html.escape(text)}</p>"


def _list(lines):
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"


def _table(header, rows, caption=None):
    """A table; a cell of many words stands to the left."""
    head = "".join(f"<th>{html.escape(str(cell))}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>\n" for row in rows)
    name = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table>{name}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell):
    text = html.escape(str(cell))
    kind = ' class="text"' if len(text) > 40 else ""
    return f"<td{kind}>{text}</td>"


def _picture(path, description):
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<p><img alt="{description}" src="data:image/png;base64,{data}"></p>'
