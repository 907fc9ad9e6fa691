"""Trains RNNsearch to translate, and shows what it has learned.

python examples/translation/train.py
python examples/translation/train.py --data FOLDER --source en --target fr
"""

import os
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from arguments import parse_arguments  # noqa: E402
from data import load_corpus  # noqa: E402

from keras_bahdanau import RNNSearch, modern_recipe  # noqa: E402
from keras_bahdanau.alignment import alignment_error_rate, hard_alignment  # noqa: E402
from keras_bahdanau.backup import AtomicBackup  # noqa: E402
from keras_bahdanau.plots import plot_attention  # noqa: E402
from keras_bahdanau.tf import (  # noqa: E402
    SubwordCodec,
    TranslationCallback,
    Translator,
    WordCodec,
    corpus_bleu,
    encode_pairs,
    load_translator,
    translation_batches,
)


def make_codecs(args, corpus):
    """The codecs of both sides, learned from the training text."""
    if args.subwords:
        return [
            SubwordCodec.train(texts, args.subwords, lowercase=args.lowercase)
            for texts in (corpus.train.sources, corpus.train.targets)
        ]
    return [
        WordCodec.train(texts, args.max_vocabulary, args.min_frequency, args.lowercase)
        for texts in (corpus.train.sources, corpus.train.targets)
    ]


def make_model(args, codecs, steps):
    """RNNsearch, compiled for `steps` steps of training."""
    # Here, because what read the data may have drawn random numbers.
    keras.utils.set_random_seed(args.seed)
    if args.mixed_precision:
        keras.config.set_dtype_policy(args.mixed_precision)
    model = RNNSearch(
        *(codec.vocabulary_size for codec in codecs),
        embedding_dim=args.embedding,
        units=args.units,
        num_encoder_layers=args.encoder_layers,
        tie_embeddings=args.tie_embeddings,
        dropout=args.dropout,
        seed=args.seed,
    )
    model.build()
    schedule = keras.optimizers.schedules.CosineDecay(args.learning_rate, steps)
    recipe = modern_recipe(schedule, args.label_smoothing)
    if args.ema:
        recipe["optimizer"].use_ema = True
        recipe["optimizer"].ema_momentum = args.ema
    model.compile(**recipe, jit_compile=args.jit)
    return model


def make_backup(args):
    """Where a stopped run goes on; without --resume, what it left is erased."""
    backup = AtomicBackup(args.output / "backup")
    if not args.resume:
        backup.clear()
    elif backup.finished_epochs:
        print(f"Going on after epoch {backup.finished_epochs} of {args.epochs}")
    return backup


def make_callbacks(args, translator, validation, backup):
    """Their order matters: what is backed up are the weights without averaging."""
    translation = TranslationCallback(
        translator,
        validation.sources,
        validation.targets,
        filepath=args.output / "translator",
    )
    if args.ema:
        averaging = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
        callbacks = [backup, averaging, translation]
    else:
        callbacks = [translation, backup]
    callbacks.append(
        keras.callbacks.CSVLogger(args.output / "log.csv", append=args.resume)
    )
    if args.tensorboard:
        callbacks.append(keras.callbacks.TensorBoard(args.output / "tensorboard"))
    return callbacks


def train(args, corpus):
    codecs = make_codecs(args, corpus)
    training, validation = (
        encode_pairs(part, *codecs, args.max_length, args.max_length)
        for part in (corpus.train, corpus.validation)
    )
    options = {"batch_size": args.batch_size, "pad_to_multiple": 8 if args.jit else 1}
    backup = make_backup(args)
    batches = translation_batches(
        training, seed=args.seed, initial_epoch=backup.finished_epochs, **options
    )
    model = make_model(args, codecs, args.epochs * len(batches))
    print(
        f"{corpus.name}: {len(training)} training pairs ({training.num_too_long} more "
        f"are longer than {args.max_length} tokens), vocabularies of "
        f"{codecs[0].vocabulary_size} and {codecs[1].vocabulary_size}, "
        f"{model.count_params():,} parameters"
    )
    model.fit(
        batches,
        validation_data=translation_batches(validation, shuffle=False, **options),
        epochs=args.epochs,
        shuffle=False,
        verbose=1 if sys.stdout.isatty() else 2,
        callbacks=make_callbacks(
            args, Translator(model, *codecs), corpus.validation, backup
        ),
    )


def report(args, corpus, translator):
    """BLEU, examples, and alignments of the test pairs; returns the translations."""
    sources, references = corpus.test.sources, corpus.test.targets
    texts = translator(sources)
    print(f"\nTest: {len(texts)} sentences of {corpus.test.name}, greedy search")
    lowercase = translator.target_codec.lowercase
    plain = corpus_bleu(texts, references, lowercase)
    words = corpus_bleu(texts, references, lowercase=True, tokenized=True)
    print(f"BLEU {plain.score:.2f} ({plain.signature})")
    print(f"BLEU {words.score:.2f}, tokens in lower case ({words.signature})")
    for source, reference, text in list(zip(sources, references, texts))[:5]:
        print(f"  source:      {source}\n  reference:   {reference}")
        print(f"  translation: {text}")
    if corpus.links:
        rate = alignment_error(translator, corpus)
        print(f"Alignment error rate {rate:.4f} against the gold links")
    plot(translator, corpus, args.output / "attention.png")
    return texts


def alignment_error(translator, corpus):
    """The alignment error rate of the attention, given the reference translations."""
    weights = translator.align(corpus.test.sources, corpus.test.targets)
    found = [
        hard_alignment(matrix, matrix.shape[1] - 1, matrix.shape[0] - 1)
        for matrix in weights
    ]
    return alignment_error_rate(found, *zip(*corpus.links))


def plot(translator, corpus, path):
    """Draws the attention for a test pair, with the gold links where there are any."""
    codecs = translator.source_codec, translator.target_codec
    sides = corpus.test.sources[:100], corpus.test.targets[:100]
    words = [
        codec.surfaces(tf.constant(texts)).to_list()
        for codec, texts in zip(codecs, sides)
    ]
    # The longest source of up to 20 words.
    lengths = [len(tokens) if len(tokens) <= 20 else -1 for tokens in words[0]]
    row = lengths.index(max(lengths))
    source, target = ([word.decode() for word in side[row]] for side in words)
    weights = translator.align(*([side[row]] for side in sides))[0]
    links = corpus.links[row][0] if corpus.links else ()
    try:
        plot_attention(weights[:-1, :-1], source, target, path, links=links)
    except ImportError as error:
        print(f"Nothing drawn: {error}")
    else:
        print(f"Attention drawn in {path}")


def export(translator, sources, expected, path):
    """Exports, loads what was exported, and translates with it."""
    translator.export(path)
    exported = load_translator(path)(sources)
    same = sum(one == other for one, other in zip(exported, expected))
    print(f"SavedModel in {path}: {same} of {len(sources)} translations are the same")
    if same < len(sources):
        raise SystemExit("The exported translator differs from the one in Python.")


def main():
    started = time.time()
    args = parse_arguments(__doc__)
    args.output.mkdir(parents=True, exist_ok=True)
    corpus = load_corpus(args)
    if args.subwords:
        # The gold links are between words.
        corpus = corpus._replace(links=None)
    train(args, corpus)
    translator = load_translator(args.output / "translator")
    texts = report(args, corpus, translator)
    export(translator, corpus.test.sources, texts, args.output / "saved_model")
    print(f"Saved in {args.output}; {time.time() - started:.0f} seconds in all")


if __name__ == "__main__":
    main()
