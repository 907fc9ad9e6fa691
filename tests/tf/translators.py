"""Translators that the tests share."""

import keras

from keras_bahdanau import RNNSearch
from keras_bahdanau.tf import Translator, WordCodec

CODEC = WordCodec.train(["the dog sees the cat, the dog sleeps.", "is a cat asleep?"])


def real(codec=CODEC, model_class=RNNSearch, sizes=None, seed=None, **options):
    """A translator whose untrained model says something else for each source."""
    if seed is not None:
        keras.utils.set_random_seed(seed)
    model = model_class(
        codec.vocabulary_size,
        codec.vocabulary_size,
        embedding_dim=5,
        units=7,
        **(sizes or {}),
        kernel_initializer=keras.initializers.RandomNormal(stddev=2.0),
        embedding_initializer=keras.initializers.RandomNormal(stddev=2.0),
    )
    return Translator(model, codec, codec, **options)
