"""Trains one model in several precisions, and compares what it has learned.

python benchmarks/precision.py --backend tensorflow

The same model from the same weights, the same batches of the grammar corpus in the
same order, once for each Keras dtype policy. Prints a table: the loss of the last tenth
of the updates, and that of sentences held out. With mixed_float16 Keras scales the
loss.
"""

import argparse
import os
import time

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def make_parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--backend", choices=("tensorflow", "jax", "torch"), default="tensorflow"
    )
    parser.add_argument("--policies", nargs="+", default=POLICIES, metavar="POLICY")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=8000, help="to train on")
    parser.add_argument("--units", type=int, default=64, help="all sizes of the model")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def train(policy, corpus, options):
    """Losses in training, the loss of what was held out, and seconds."""
    import grammar_corpus
    import keras
    import numpy as np

    import keras_bahdanau as kb

    (inputs, labels), held_out, vocabularies = corpus
    keras.utils.set_random_seed(options.seed)
    keras.config.set_dtype_policy(policy)
    model = kb.RNNSearch(
        *(4 + len(vocabulary) for vocabulary in vocabularies),
        embedding_dim=options.units,
        units=options.units,
        dropout=0.0,
        seed=options.seed,
    )
    model.compile(
        keras.optimizers.Adam(options.lr), kb.TokenCrossentropy(), jit_compile=True
    )
    started, losses = time.time(), []
    batches = grammar_corpus.endless(inputs, labels, options.batch)
    for _, batch in zip(range(options.updates), batches):
        losses.append(float(model.train_on_batch(*batch)))
        model.reset_metrics()
    last = losses[-max(1, len(losses) // 10) :]
    loss = model.evaluate(*held_out, batch_size=options.batch, verbose=0)
    return float(np.mean(last)), float(loss), time.time() - started


def main():
    options = make_parser().parse_args()
    os.environ["KERAS_BACKEND"] = options.backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import grammar_corpus

    size = {"train_pairs": options.pairs, "held_out": options.pairs // 8}
    corpus = grammar_corpus.make_corpus(size)
    print("| policy | loss, last tenth of training | loss, held out | seconds |")
    print("|---|---:|---:|---:|")
    for policy in options.policies:
        trained, held_out, seconds = train(policy, corpus, options)
        print(f"| {policy} | {trained:.4f} | {held_out:.4f} | {seconds:.0f} |")


if __name__ == "__main__":
    main()
