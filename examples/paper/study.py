"""Runs the experiment of the paper: systems with and without attention, side by side.

python examples/paper/study.py
python examples/paper/study.py --scale multi30k --data FOLDER
python examples/paper/study.py --scale wmt14 --words 348000000
"""

import argparse
import os
import pathlib
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import dataclasses  # noqa: E402
import json  # noqa: E402

import tensorflow as tf  # noqa: E402
from corpora import (  # noqa: E402
    FROM_FOLDER,
    SCALES,
    joined,
    known_rows,
    make_codecs,
    read_stream,
)
from evaluation import evaluate  # noqa: E402
from report import write_report  # noqa: E402
from settings import (  # noqa: E402
    check_comparable,
    read_all,
    read_systems,
    write_json,
)
from training import train  # noqa: E402

RESULTS, MADE_WITH = "results.json", "settings.json"
# How many sentences are put together to a long one.
JOINED = (1, 2, 3, 4)


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", choices=SCALES, default="grammar")
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        metavar="FOLDER",
        help=f"folder of LANG.SPLIT.txt files, for {' and '.join(FROM_FOLDER)}",
    )
    parser.add_argument("--source", default="en", help="language to translate from")
    parser.add_argument("--target", default="fr", help="language to translate into")
    parser.add_argument(
        "--seeds", type=positive, default=2, metavar="N", help="1 to N (2)"
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        metavar="NAME",
        help="train these only; the report is about all that are finished",
    )
    parser.add_argument(
        "--config",
        type=pathlib.Path,
        nargs="+",
        metavar="FILE",
        help="systems of your own in the place of those of the scale",
    )
    parser.add_argument(
        "--updates", type=positive, metavar="N", help="another budget for all systems"
    )
    parser.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="use N pairs at most to train on, and for the test; for a trial",
    )
    parser.add_argument(
        "--output", type=pathlib.Path, metavar="FOLDER", help="runs/paper/SCALE"
    )
    add_machine(parser)
    add_wmt14(parser)
    args = parser.parse_args(arguments)
    check_corpus(parser, args)
    args.output = args.output or pathlib.Path("runs", "paper", args.scale)
    return args


def add_machine(parser):
    """The arguments on how the machine is used, which change no number."""
    parser.add_argument(
        "--jit",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compile with XLA",
    )
    parser.add_argument(
        "--checkpoint-minutes",
        type=positive,
        default=30,
        metavar="N",
        help="how long a stop may throw a run back, besides the validations (30)",
    )
    parser.add_argument(
        "--distribute",
        action="store_true",
        help="train on all GPUs of this machine at once, without XLA",
    )


def add_wmt14(parser):
    """The arguments that go with `--scale wmt14` only."""
    group = parser.add_argument_group("with --scale wmt14")
    group.add_argument(
        "--data-dir",
        type=pathlib.Path,
        metavar="FOLDER",
        help="where TensorFlow Datasets has its sets, if not in its usual place",
    )
    group.add_argument(
        "--download", action="store_true", help="let it download the set"
    )
    group.add_argument(
        "--words",
        type=positive,
        metavar="N",
        help="train on those pairs only, so many source words in all, that are most "
        "like the validation text (the paper: 348000000)",
    )


def check_corpus(parser, args):
    """Ends the program where an argument does not go with the scale."""
    if args.scale in FROM_FOLDER:
        if not (args.data and args.data.is_dir()):
            parser.error(f"argument --data: --scale {args.scale} needs a folder")
    elif args.data:
        parser.error("argument --data: not with the grammar or wmt14")
    if args.scale == "grammar" and (args.source, args.target) != ("en", "fr"):
        parser.error("argument --source, --target: not with the grammar")
    if args.scale != "wmt14" and (args.data_dir or args.download or args.words):
        parser.error("argument --data-dir, --download, --words: with wmt14 only")


def positive(text):
    """A whole number of 1 or more."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return int(text)


def choose(args):
    """The systems and the curves of the study, and which of them to train.

    Returns:
        List of the systems, list of the curves, set of names.

    Raises:
        ValueError: If a configuration is wrong, or `--systems` names none.
    """
    if args.config:
        systems, curves = read_all(args.config), []
    else:
        systems, curves = read_systems(args.scale)
    if args.updates:
        systems = [one.with_updates(args.updates) for one in systems]
        curves = [one.with_updates(args.updates) for one in curves]
    check_comparable(systems)
    names = [one.name for one in (*systems, *curves)]
    if len(set(names)) < len(names):
        raise ValueError(f"Two systems must not have one name. Received: {names}.")
    chosen = set(args.systems or names)
    if not chosen <= set(names):
        raise ValueError(
            f"--systems must be some of {', '.join(names)}. Received: "
            f"{', '.join(sorted(chosen - set(names)))}."
        )
    return systems, curves, chosen


class Study:
    """The runs of a study: each system with each seed, in a folder of its own."""

    def __init__(self, args):
        self.args = args
        self.systems, self.curves, self.chosen = choose(args)
        self.corpus = SCALES[args.scale](args)
        self.codecs = make_codecs(self.corpus, self.systems[0].vocabulary)
        if isinstance(self.corpus.train, tf.data.Dataset):
            longest = max(one.max_length for one in (*self.systems, *self.curves))
            self.corpus = read_stream(self.corpus, self.codecs, longest, args.words)
        self.known = known_rows(self.corpus.test, self.codecs)
        if not self.known:
            raise ValueError(
                "A test pair must be without unknown words. Received "
                f"{len(self.corpus.test)} with some and vocabulary="
                f"{self.systems[0].vocabulary}. Raise the vocabulary."
            )
        self.joined = joined(self.corpus.test, self.known, self.codecs[0], JOINED)
        self.strategy = tf.distribute.MirroredStrategy() if args.distribute else None
        self.started = time.time()

    def run(self):
        """Trains and evaluates what is not finished, and writes the report."""
        runs = [
            (settings, seed)
            for seed in range(1, self.args.seeds + 1)
            for settings in (*self.systems, *(self.curves if seed == 1 else ()))
        ]
        for settings, seed in runs:
            self.check_made_with(settings, self.folder(settings, seed))
        runs = [run for run in runs if run[0].name in self.chosen]
        for number, (settings, seed) in enumerate(runs, 1):
            self.run_one(settings, seed, f"[{number}/{len(runs)}]")
            if number == len(runs) or runs[number][1] > seed:
                self.report()

    def run_one(self, settings, seed, number):
        """One system with one seed; a curve is trained only."""
        folder = self.folder(settings, seed)
        is_curve = settings in self.curves

        def say(line):
            passed = time.time() - self.started
            where = f"{number} {settings.name}, seed {seed}"
            print(f"{where}: {line} ({passed:.0f} s in all)", flush=True)

        if (folder / RESULTS).is_file():
            say("finished")
            return
        write_json(folder / MADE_WITH, self.made_with(settings))
        train(
            settings,
            self.corpus,
            self.codecs,
            folder,
            seed,
            self.args.jit,
            say,
            validate=not is_curve,
            minutes=self.args.checkpoint_minutes,
            strategy=self.strategy,
        )
        if is_curve:
            say("trained")
            return
        results = evaluate(settings, self.corpus, self.known, self.joined, folder)
        write_json(folder / RESULTS, results)
        say(f"test sentences translated, {results['seconds']:.0f} s")

    def made_with(self, settings):
        """All that decides what a run ends with, but its seed; for JSON."""
        return {
            **dataclasses.asdict(settings),
            "limit": self.args.limit,
            "words": self.args.words,
            "languages": list(self.corpus.languages),
        }

    def check_made_with(self, settings, folder):
        """Refuses to go on with what other settings have begun."""
        path, wanted = folder / MADE_WITH, self.made_with(settings)
        if not path.is_file():
            return
        found = json.loads(path.read_text(encoding="utf-8"))
        other = sorted(key for key in wanted if found.get(key) != wanted[key])
        if other:
            raise ValueError(
                f"{folder} was made with other settings. Received another "
                f"{', '.join(other)}. Choose another --output, or delete it."
            )

    def report(self):
        """The report of all that is finished."""
        runs = {
            settings.name: {
                seed: json.loads(path.read_text(encoding="utf-8"))
                for seed in range(1, self.args.seeds + 1)
                if (path := self.folder(settings, seed) / RESULTS).is_file()
            }
            for settings in self.systems
        }
        runs = {name: found for name, found in runs.items() if found}
        if runs:
            print(f"Report: {write_report(self, runs)}")
        else:
            print("No system is finished yet, so there is no report.")

    def folder(self, settings, seed):
        return self.args.output / settings.name / f"seed-{seed}"


def main(arguments=None):
    args = parse_arguments(arguments)
    # Each translator traces its search anew, which TensorFlow takes for an oversight.
    tf.get_logger().setLevel("ERROR")
    try:
        study = Study(args)
        study.run()
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"study.py: {error}")


if __name__ == "__main__":
    main()
