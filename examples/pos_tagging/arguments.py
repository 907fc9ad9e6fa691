"""The command line of train.py, checked before anything is read."""

import argparse
import pathlib

MODELS = ("one-way", "two-way", "crf")


def positive(text):
    """A whole number of 1 or more."""
    return _within(int(text), 1, "1 or more")


def count(text):
    return _within(int(text), 0, "0 or more")


def rate(text):
    return _within(float(text), 0, "more than 0", exclusive=True)


def share(text):
    return _within(float(text), 0, "0 or more, below 1", below=1)


def _within(value, least, rule, below=float("inf"), exclusive=False):
    if not least <= value < below or (exclusive and value == least):
        raise argparse.ArgumentTypeError(f"must be {rule}, not {value}")
    return value


def parse_arguments(description, arguments=None):
    """Reads the command line; ends with a message where it makes no sense."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_data(parser)
    _add_model(parser)
    _add_training(parser)
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("runs/pos_tagging"),
        metavar="FOLDER",
    )
    args = parser.parse_args(arguments)
    _check(parser, args)
    return args


def _add_data(parser):
    group = parser.add_argument_group("data; without, the grammar of the library")
    group.add_argument(
        "--data",
        type=pathlib.Path,
        metavar="FOLDER",
        help="with a file for train, dev and test each: .conllu, or columns of words "
        "and tags in .conll",
    )
    group.add_argument("--column", choices=["upos", "xpos"], default="upos")
    group.add_argument("--tfds", metavar="NAME", help="set of TensorFlow Datasets")
    group.add_argument(
        "--tags", metavar="FEATURE", help="of the set, if it has several"
    )
    group.add_argument("--dev-split", metavar="SPLIT", help="of the set")
    group.add_argument("--download", action="store_true", help="the set, if need be")
    group.add_argument(
        "--scheme",
        choices=["BIO", "IOB1", "BIOES"],
        help="the tags are those of entities: their F1 counts, and the CRF keeps to it",
    )
    group.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="sentences of each part; of dev and test such as have tags of training",
    )


def _add_model(parser):
    group = parser.add_argument_group("model")
    group.add_argument(
        "--models", nargs="+", choices=MODELS, default=["one-way", "two-way"]
    )
    group.add_argument("--units", type=positive, default=200)
    group.add_argument("--layers", type=positive, default=2)
    group.add_argument("--embedding", type=positive, default=100)
    group.add_argument(
        "--vectors",
        type=pathlib.Path,
        metavar="FILE",
        help="word vectors to start from, text of word2vec or GloVe, also gzip",
    )
    group.add_argument(
        "--vector-words",
        type=positive,
        default=50_000,
        metavar="N",
        help="how many of the file, from its start; all of them become known words",
    )
    group.add_argument("--characters", choices=["gru", "cnn"], default="gru")
    group.add_argument("--character-units", type=positive, default=75)
    group.add_argument("--min-frequency", type=positive, default=1)
    group.add_argument(
        "--frequencies",
        type=count,
        default=0,
        metavar="N",
        help="classes of the auxiliary loss",
    )


def _add_training(parser):
    group = parser.add_argument_group("training")
    group.add_argument("--epochs", type=positive)
    group.add_argument("--batch-size", type=positive, default=32)
    group.add_argument("--learning-rate", type=rate, default=2e-3)
    group.add_argument("--dropout", type=share, default=0.4)
    group.add_argument("--word-dropout", type=share, default=0.1)
    group.add_argument("--character-dropout", type=share, default=0.02)
    group.add_argument("--label-smoothing", type=share, default=0.05)
    group.add_argument("--frequency-weight", type=rate, default=0.1)
    group.add_argument(
        "--ema",
        type=share,
        help="momentum of the running average of the weights, 0 for none; usually over "
        "an eighth of all steps, 500 at most",
    )
    group.add_argument("--seed", type=count, default=1)
    group.add_argument("--jit", action="store_true", help="compile with XLA")


def _check(parser, args):
    if args.data and args.tfds:
        parser.error("--data and --tfds are two sources; give one")
    if args.data and not args.data.is_dir():
        parser.error(f"--data must name a folder; {args.data} is none")
    for name in ("tags", "dev_split", "download"):
        if getattr(args, name) and not args.tfds:
            parser.error(f"--{name.replace('_', '-')} goes with --tfds only")
    if args.scheme and not (args.data or args.tfds):
        parser.error("--scheme goes with --data or --tfds: the grammar has no entities")
    if args.vectors and args.embedding != parser.get_default("embedding"):
        parser.error("--embedding goes without --vectors, which have their own size")
    if not args.vectors and args.vector_words != parser.get_default("vector_words"):
        parser.error("--vector-words goes with --vectors only")
    if args.column != "upos" and not args.data:
        parser.error("--column goes with --data only")
    if args.epochs is None:
        args.epochs = 12 if args.data or args.tfds else 6
    if not (args.data or args.tfds):
        _shrink(parser, args)


def _shrink(parser, args):
    """The grammar needs no more than a small model; what is given stays."""
    small = {"units": 64, "embedding": 48, "character_units": 24, "layers": 1}
    for name, value in small.items():
        if getattr(args, name) == parser.get_default(name):
            setattr(args, name, value)
