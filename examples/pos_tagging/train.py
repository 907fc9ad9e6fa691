"""Trains taggers, and compares reading both ways with reading one way.

python examples/pos_tagging/train.py
python examples/pos_tagging/train.py --data FOLDER
"""

import os
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402
from arguments import parse_arguments  # noqa: E402
from baseline import MostFrequentTag  # noqa: E402
from data import load_corpora  # noqa: E402
from export import check  # noqa: E402

from keras_bahdanau import SequenceTagger, tagging_recipe  # noqa: E402
from keras_bahdanau.entities import (  # noqa: E402
    allowed_transitions,
    check_scheme,
    entity_scores,
)
from keras_bahdanau.plots import plot_confusion  # noqa: E402
from keras_bahdanau.tagged_text import check_tags  # noqa: E402
from keras_bahdanau.tagging_batches import TaggingBatches  # noqa: E402
from keras_bahdanau.tf import (  # noqa: E402
    TagCodec,
    Tagger,
    TaggingCallback,
    encode_sentences,
    export_tagger,
    load_tagger,
)
from keras_bahdanau.vectors import embedding_matrix, read_word_vectors  # noqa: E402


def read(args):
    """The corpora; ends with one line where something is wrong with them."""
    try:
        corpora = load_corpora(args)
        for part in corpora[1:] if args.scheme else ():
            check_scheme(part, args.scheme, strict="crf" in args.models)
        for part in (corpora.dev, corpora.test):
            check_tags(part, corpora.train.tag_names())
        vectors = read_vectors(args)
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"train.py: {error}")
    return corpora, vectors


def read_vectors(args):
    """The vectors of words in lower case, which is how the codec knows them."""
    if not args.vectors:
        return {}
    cased = read_word_vectors(args.vectors, limit=args.vector_words)
    args.embedding = cased.size
    vectors = {word: cased[word] for word in cased if word == word.lower()}
    for word in cased:
        vectors.setdefault(word.lower(), cased[word])
    return vectors


def first_embedding(args, vectors, codec):
    """What the embedding of the known words starts from, if vectors are given."""
    if not vectors:
        return None
    words = ["<padding>", "<unknown>", *codec.words]
    matrix, share = embedding_matrix(vectors, words, seed=args.seed)
    print(f"{100 * share:.1f} % of the known words start from a given vector")
    return matrix


def make_model(args, kind, codec, steps, ema, embedding):
    """The tagger of one kind, compiled for `steps` steps of training."""
    # Here, because what came before may have drawn random numbers.
    keras.utils.set_random_seed(args.seed)
    output = "crf" if kind == "crf" else "softmax"
    allowed = None
    if args.scheme and output == "crf":
        allowed = allowed_transitions(codec.tags, args.scheme)
    model = SequenceTagger(
        **codec.model_sizes(),
        embedding_dim=args.embedding,
        character_units=args.character_units,
        character_encoder=args.characters,
        units=args.units,
        num_layers=args.layers,
        bidirectional=kind != "one-way",
        output=output,
        allowed=allowed,
        dropout=args.dropout,
        word_dropout=args.word_dropout,
        character_dropout=args.character_dropout,
        num_frequencies=args.frequencies,
        seed=args.seed,
    )
    model.build()
    if embedding is not None:
        model.word_embedding.set_weights([embedding])
    schedule = keras.optimizers.schedules.CosineDecay(args.learning_rate, steps)
    recipe = tagging_recipe(
        output,
        schedule,
        label_smoothing=args.label_smoothing if output == "softmax" else 0.0,
        frequency_weight=args.frequency_weight if args.frequencies else None,
        ema=ema or None,
    )
    model.compile(**recipe, jit_compile=args.jit)
    return model


def momentum(args, steps):
    """Of the running average of the weights: long, but short beside the training."""
    return min(0.998, max(0.0, 1 - 8 / steps)) if args.ema is None else args.ema


def train(args, kind, corpora, codec, sentences, known_words, embedding):
    """Fits a tagger of one kind; gives the one that was best on the dev sentences."""
    batches = TaggingBatches(sentences, seed=args.seed, batch_size=args.batch_size)
    steps = args.epochs * len(batches)
    ema = momentum(args, steps)
    model = make_model(args, kind, codec, steps, ema, embedding)
    print(
        f"\n{kind}: {model.count_params():,} parameters, {len(batches)} batches, "
        f"{args.epochs} epochs"
    )
    folder = args.output / kind
    folder.mkdir(parents=True, exist_ok=True)
    averaging = [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)] if ema else []
    model.fit(
        batches,
        epochs=args.epochs,
        shuffle=False,
        verbose=1 if sys.stdout.isatty() else 2,
        callbacks=[
            *averaging,
            TaggingCallback(
                Tagger(model, codec),
                corpora.dev,
                known_words,
                args.scheme,
                folder / "tagger",
            ),
            keras.callbacks.CSVLogger(folder / "log.csv"),
        ],
    )
    return load_tagger(folder / "tagger")


def measure(name, tags, report, seconds, args, corpus, ambiguous):
    """A row of the table."""
    hits = [
        found == tag
        for sentence, tagged in zip(corpus, tags)
        for word, tag, found in zip(sentence.words, sentence.tags, tagged)
        if word in ambiguous
    ]
    shares = [report.accuracy, report.unknown_accuracy]
    shares.append(sum(hits) / len(hits) if hits else None)
    if args.scheme:
        gold = [sentence.tags for sentence in corpus]
        shares.append(entity_scores(gold, tags, args.scheme).f1)
    row = ["" if share is None else f"{100 * share:.2f}" for share in shares]
    return [name, *row, f"{seconds:.0f}" if seconds is not None else ""]


def print_table(args, rows):
    head = ["tagger", "accuracy", "unknown words", "ambiguous words"]
    head += ["entity F1"] if args.scheme else []
    rows = [[*head, "seconds"], *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    print()
    for row in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:]))
        print("  ".join([f"{row[0]:{widths[0]}}", *cells]))


def draw(report, path):
    try:
        plot_confusion(report.confusion, report.tag_names, path)
    except ImportError as error:
        print(f"Nothing drawn: {error}")
    else:
        print(f"Confusions drawn in {path}")


def main(arguments=None):
    started = time.time()
    args = parse_arguments(__doc__, arguments)
    args.output.mkdir(parents=True, exist_ok=True)
    corpora, vectors = read(args)
    codec = TagCodec.train(corpora.train, args.min_frequency, extra_words=vectors)
    known_words = corpora.train.words()
    counts = known_words if args.frequencies else None
    sentences = encode_sentences(corpora.train, codec, counts, args.frequencies)
    print(
        f"{corpora.name}: {len(corpora.train)}, {len(corpora.dev)} and "
        f"{len(corpora.test)} sentences to train, choose and test, {codec.num_tags} "
        f"tags, {len(codec.words)} words in lower case"
    )
    embedding = first_embedding(args, vectors, codec)
    baseline = MostFrequentTag(corpora.train)
    test = args, corpora.test, baseline.ambiguous
    tags, report = baseline.tag_corpus(corpora.test, known_words)
    rows = [measure("most frequent tag", tags, report, None, *test)]
    for kind in args.models:
        before = time.time()
        tagger = train(args, kind, corpora, codec, sentences, known_words, embedding)
        seconds = time.time() - before
        tags, report = tagger.tag_corpus(corpora.test, known_words)
        rows.append(measure(kind, tags, report, seconds, *test))
    print_table(args, rows)
    print(f"\n{args.models[-1]}, test sentences:\n{report}\n")
    draw(report, args.output / "confusion.png")
    words = [list(sentence.words) for sentence in corpora.test]
    export_tagger(tagger, args.output / "saved_model")
    check(args.output / "saved_model", words, tags)
    print(f"Saved in {args.output}; {time.time() - started:.0f} seconds in all")


if __name__ == "__main__":
    main()
