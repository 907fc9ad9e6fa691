"""The command line of train.py, checked before anything is read.

What is said of one number here, the other programs use too.
"""

import argparse
import importlib.util
import pathlib


def positive(text):
    """A whole number of 1 or more."""
    return _within(int(text), 1, "1 or more")


def seed(text):
    return _within(int(text), 0, "0 or more, below 2**32", below=2**32)


def rate(text):
    return _within(float(text), 0, "more than 0", exclusive=True)


def duration(text):
    return _within(float(text), 0, "0 or more")


def port(text):
    return _within(int(text), 0, "0 to 65535", below=65_536)


def text(argument):
    """Text; bytes that are no UTF-8 are replaced, as the graph replaces them."""
    try:
        given = argument.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        given = argument.encode("utf-8", "surrogatepass")
    return given.decode("utf-8", "replace")


def share(text):
    return _within(float(text), 0, "0 or more, below 1", below=1)


def _within(value, least, rule, below=float("inf"), exclusive=False):
    if not least <= value < below or (exclusive and value == least):
        raise argparse.ArgumentTypeError(f"must be {rule}, not {value}")
    return value


def add_search(parser):
    """The options of how to search; `search_settings` reads them."""
    group = parser.add_argument_group("search")
    group.add_argument(
        "--beams", type=positive, metavar="K", help="beam search with K beams"
    )
    group.add_argument(
        "--length-penalty", choices=["none", "gnmt", "average"], help="with beams"
    )
    group.add_argument("--alpha", type=float, help="exponent of the length penalty")
    group.add_argument("--coverage-penalty", type=float, metavar="BETA")
    group.add_argument(
        "--max-length", type=positive, metavar="N", help="tokens of a translation"
    )
    group.add_argument("--min-length", type=positive, metavar="N")
    group.add_argument(
        "--no-repeat-ngram",
        type=positive,
        metavar="N",
        help="no N tokens twice in a translation",
    )
    group.add_argument(
        "--forbid",
        type=text,
        action="append",
        metavar="WORD",
        help="a word never to be used; may be given several times",
    )
    group.add_argument(
        "--no-unknown", action="store_true", help="forbid the unknown word"
    )
    group.add_argument(
        "--replace-unknown",
        action="store_true",
        help="the word of the source that it looked at in the place of an unknown one",
    )


def search_settings(args):
    """What the command line says about the search, as arguments of `Translator`.

    `--nbest N`, which each program describes by itself, asks for `N` beams at least.
    """
    settings = {
        "num_results": args.nbest,
        "num_beams": args.beams or args.nbest,
        "length_penalty": args.length_penalty,
        "alpha": args.alpha,
        "coverage_penalty": args.coverage_penalty,
        "max_length": args.max_length,
        "min_length": args.min_length,
        "no_repeat_ngram": args.no_repeat_ngram,
        "forbidden_words": args.forbid,
        "allow_unknown": False if args.no_unknown else None,
        "replace_unknown": args.replace_unknown or None,
    }
    return {name: value for name, value in settings.items() if value is not None}


def refuse(parser, error):
    """Ends with one line and the exit code of a wrong command line."""
    parser.exit(2, f"{parser.prog}: error: {error}\n")


def parse_arguments(description, arguments=None):
    """The arguments of train.py; a message and an end where they make no sense."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_data(parser)
    _add_text(parser)
    _add_model(parser)
    _add_training(parser)
    args = parser.parse_args(arguments)
    _check(parser, args)
    _fill(args, source="en", target="fr", max_vocabulary=30_000, min_frequency=1)
    return args


def _add_data(parser):
    group = parser.add_argument_group(
        "data", "without --data and --tfds: sentences of the library's own grammar"
    )
    either = group.add_mutually_exclusive_group()
    either.add_argument(
        "--data",
        type=pathlib.Path,
        metavar="FOLDER",
        help="folder of LANG.SPLIT.txt files, line by line translations",
    )
    either.add_argument(
        "--tfds",
        metavar="NAME",
        help="set of TensorFlow Datasets, such as ted_hrlr_translate/pt_to_en",
    )
    group.add_argument(
        "--download", action="store_true", help="let --tfds download the set"
    )
    group.add_argument("--source", help="language to translate from (en)")
    group.add_argument("--target", help="language to translate into (fr)")
    group.add_argument(
        "--splits",
        nargs=3,
        metavar=("TRAIN", "VALIDATION", "TEST"),
        help="names of the splits, for --tfds also slices such as train[:1%%]",
    )
    group.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="use N pairs at most for training, for validation and for the test",
    )


def _add_text(parser):
    group = parser.add_argument_group("text")
    group.add_argument(
        "--lowercase", action="store_true", help="put text in lower case"
    )
    group.add_argument(
        "--subwords",
        type=positive,
        metavar="N",
        help="SentencePiece with N pieces a side",
    )
    group.add_argument(
        "--max-vocabulary", type=positive, metavar="N", help="words a side (30000)"
    )
    group.add_argument(
        "--min-frequency", type=positive, metavar="N", help="times that a word occurs"
    )
    group.add_argument(
        "--max-length", type=positive, default=50, help="tokens of a training sentence"
    )


def _add_model(parser):
    group = parser.add_argument_group("model")
    group.add_argument("--units", type=positive, default=128)
    group.add_argument("--embedding", type=positive, default=96)
    group.add_argument("--encoder-layers", type=positive, default=1)
    group.add_argument("--dropout", type=share, default=0.1)
    group.add_argument(
        "--tie-embeddings",
        action="store_true",
        help="the target embedding is the output matrix too",
    )


def _add_training(parser):
    group = parser.add_argument_group("training")
    group.add_argument("--epochs", type=positive, default=5)
    group.add_argument("--batch-size", type=positive, default=64)
    group.add_argument("--learning-rate", type=rate, default=3e-3)
    group.add_argument("--label-smoothing", type=share, default=0.1)
    group.add_argument(
        "--ema",
        type=share,
        default=0.0,
        metavar="MOMENTUM",
        help="average the weights over time, such as 0.999",
    )
    group.add_argument("--seed", type=seed, default=1)
    group.add_argument(
        "--mixed-precision",
        nargs="?",
        const="mixed_float16",
        metavar="POLICY",
        help="a Keras dtype policy (mixed_float16 if none is named)",
    )
    group.add_argument("--jit", action="store_true", help="compile with XLA")
    group.add_argument(
        "--tensorboard", action="store_true", help="write logs for TensorBoard"
    )
    group.add_argument(
        "--resume", action="store_true", help="go on where a stopped run was"
    )
    group.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("runs/translation"),
        metavar="FOLDER",
    )


def _check(parser, args):
    """No argument is put aside without a word."""
    if args.data and not args.data.is_dir():
        parser.error(f"argument --data: no such folder: {args.data}")
    if not (args.data or args.tfds):
        for name in _given(args, "source", "target", "splits"):
            parser.error(f"argument {name}: goes with --data or --tfds only")
    if args.download and not args.tfds:
        parser.error("argument --download: goes with --tfds only")
    if args.subwords:
        for name in _given(args, "max_vocabulary", "min_frequency"):
            parser.error(f"argument {name}: is about words, not --subwords")
    if args.tensorboard and importlib.util.find_spec("tensorboard") is None:
        parser.error("argument --tensorboard: needs `pip install tensorboard`")
    if args.output.exists() and not args.output.is_dir():
        parser.error(f"argument --output: is a file: {args.output}")


def _given(args, *names):
    return [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(args, name) is not None
    ]


def _fill(args, **defaults):
    """What is None until here, so that `_check` sees what was given."""
    for name, value in defaults.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
