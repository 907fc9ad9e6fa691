"""The numbers of the report, from the translations of all systems that are finished."""

import math
import statistics

from buckets import bleu_by_length, buckets, mean_by_length
from corpora import lengths
from scores import RESAMPLES, bleu, compare, signature
from training import LOG, read_log

# Table 1 of the paper: BLEU on news-test-2014, English to French.
PUBLISHED = (
    ("RNNencdec-30", 13.93, 24.19),
    ("RNNsearch-30", 21.50, 31.44),
    ("RNNencdec-50", 17.82, 26.71),
    ("RNNsearch-50", 26.75, 34.16),
    ("RNNsearch-50*", 28.45, 36.15),
    ("Moses", 33.30, 35.63),
)
SENTENCES = ("all", "known")


def find(study, runs):
    """What the report says, for JSON.

    Args:
        study: `Study`.
        runs: Dictionary from the name of a system to a dictionary from each seed that
            is finished to what `evaluate` returned.

    Returns:
        Dictionary; see the README for its parts.
    """
    corpus, systems = study.corpus, [one for one in study.systems if one.name in runs]
    test_lengths = lengths(corpus.test.sources, study.codecs[0])
    groups = buckets(test_lengths, corpus.bucket_width)
    references = {
        "all": corpus.test.targets,
        "known": [corpus.test.targets[row] for row in study.known],
    }
    found = {
        "corpus": {
            "name": corpus.name,
            "languages": list(corpus.languages),
            "train": len(corpus.train),
            "validation": len(corpus.validation),
            "test": len(corpus.test),
            "known": len(study.known),
            "vocabularies": [len(codec.words) for codec in study.codecs],
        },
        "measure": signature(*[corpus.test.targets[:1]] * 2),
        "resamples": RESAMPLES,
        "published": [list(row) for row in PUBLISHED],
        "buckets": [
            {"first": one.first, "last": one.last, "pairs": len(one.rows)}
            for one in groups
        ],
        "joined": {
            str(count): {
                "texts": len(pairs),
                "words": statistics.mean(lengths(pairs.sources, study.codecs[0])),
                "source": pairs.sources[0],
                "reference": pairs.targets[0],
            }
            for count, pairs in study.joined.items()
        },
        "systems": [
            _system(study, one, runs[one.name], references, groups) for one in systems
        ],
        "curves": {
            one.name: _log(study, one, 1)
            for one in study.curves
            if (study.folder(one, 1) / LOG).is_file()
        },
    }
    found["comparisons"] = _comparisons(found["systems"], runs, references)
    return found


def _system(study, settings, runs, references, groups):
    """The numbers of one system: means over its seeds, the rest of the first."""
    first = min(runs)
    by_length = _over_seeds(
        bleu_by_length(groups, run["all"], references["all"]) for run in runs.values()
    )
    return {
        "name": settings.name,
        "model": settings.model,
        "max_length": settings.max_length,
        "seeds": sorted(runs),
        "bleu": {
            part: [bleu(runs[seed][part], references[part]) for seed in sorted(runs)]
            for part in SENTENCES
        },
        "by_length": by_length,
        "slope": by_length[-1] - by_length[0],
        "joined": {
            str(count): _joined(str(count), pairs, runs)
            for count, pairs in study.joined.items()
        },
        "log": _log(study, settings, first),
        "inside": _inside(runs[first]["inside"], groups),
        "examples": runs[first]["examples"],
        "seconds": {
            "training": sum(_log(study, settings, first)["seconds"]),
            "translating": runs[first]["seconds"],
        },
    }


def _joined(count, pairs, runs):
    scores = [bleu(run["joined"][count], pairs.targets) for run in runs.values()]
    return {
        "bleu": statistics.mean(scores),
        "example": runs[min(runs)]["joined"][count][0],
    }


def _inside(inside, groups):
    """Gates by position as they are, and what each sentence has, by length."""
    by_length = {
        name: mean_by_length(groups, inside[name])
        for name in ("entropy", "end_mass", "end_mass_at_end")
        if name in inside
    }
    return {"gates": inside["gates"], "pairs": inside["pairs"], **by_length}


def _log(study, settings, seed):
    """The log of a run by column, and the update of each row.

    The loss is that of words, whatever the training's is a mean over.
    """
    rows = read_log(study.folder(settings, seed) / LOG)
    columns = {
        name: [row[name] for row in rows]
        for name in ("seconds", "val_bleu")
        if name in rows[0]
    }
    columns["loss"] = [math.log(row["perplexity"]) for row in rows]
    updates = [settings.validate_every * (n + 1) for n in range(len(rows))]
    return {"updates": updates, **columns}


def _over_seeds(rows):
    return [statistics.mean(column) for column in zip(*rows)]


def _comparisons(systems, runs, references):
    """Each system with attention against each without, on the first seed of all."""
    baselines = [one for one in systems if one["model"] == "RNNencdec"]
    others = [one for one in systems if one["model"] == "RNNsearch"]
    found = []
    for baseline in baselines:
        for part in SENTENCES:
            names = [one["name"] for one in (baseline, *others)]
            texts = {name: runs[name][min(runs[name])][part] for name in names}
            resampled = compare(texts, references[part])
            first = resampled[baseline["name"]]
            found += [
                {
                    "baseline": baseline["name"],
                    "system": one["name"],
                    "same_length": one["max_length"] == baseline["max_length"],
                    "sentences": part,
                    "scores": [first.score, resampled[one["name"]].score],
                    "intervals": [first.interval, resampled[one["name"]].interval],
                    "p_value": resampled[one["name"]].p_value,
                }
                for one in others
            ]
    return found
