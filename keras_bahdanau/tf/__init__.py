"""What needs TensorFlow itself: strings, corpora, and the batches made of them.

It works with every Keras backend, as long as TensorFlow is installed; a `Translator`
needs the TensorFlow backend. What only an extra brings is imported where it is used.
"""

import importlib as _importlib

from keras_bahdanau.tf.callbacks import TranslationCallback as TranslationCallback
from keras_bahdanau.tf.callbacks import corpus_bleu as corpus_bleu
from keras_bahdanau.tf.codecs import Codec as Codec
from keras_bahdanau.tf.codecs import SubwordCodec as SubwordCodec
from keras_bahdanau.tf.codecs import WordCodec as WordCodec
from keras_bahdanau.tf.codecs import load_codec as load_codec
from keras_bahdanau.tf.datasets import EmptySideWarning as EmptySideWarning
from keras_bahdanau.tf.datasets import PairCorpus as PairCorpus
from keras_bahdanau.tf.datasets import encode_pairs as encode_pairs
from keras_bahdanau.tf.datasets import parallel_files as parallel_files
from keras_bahdanau.tf.datasets import parallel_folder as parallel_folder
from keras_bahdanau.tf.datasets import tfds_dataset as tfds_dataset
from keras_bahdanau.tf.datasets import tfds_pairs as tfds_pairs
from keras_bahdanau.tf.datasets import translation_batches as translation_batches
from keras_bahdanau.tf.server import ExportedTranslator as ExportedTranslator
from keras_bahdanau.tf.server import Translation as Translation
from keras_bahdanau.tf.tag_codec import TagCodec as TagCodec
from keras_bahdanau.tf.tagged_datasets import tfds_tagged as tfds_tagged
from keras_bahdanau.tf.tagger import ExportedTagger as ExportedTagger
from keras_bahdanau.tf.tagger import TaggedText as TaggedText
from keras_bahdanau.tf.tagger import Tagger as Tagger
from keras_bahdanau.tf.tagger import encode_sentences as encode_sentences
from keras_bahdanau.tf.tagger import export_tagger as export_tagger
from keras_bahdanau.tf.tagger import load_tagger as load_tagger
from keras_bahdanau.tf.tagging_callback import TaggingCallback as TaggingCallback
from keras_bahdanau.tf.tokenization import detokenize as detokenize
from keras_bahdanau.tf.tokenization import normalize as normalize
from keras_bahdanau.tf.tokenization import surface as surface
from keras_bahdanau.tf.tokenization import tokenize as tokenize
from keras_bahdanau.tf.translator import Translator as Translator
from keras_bahdanau.tf.translator import load_notes as load_notes
from keras_bahdanau.tf.translator import load_translator as load_translator

# A builder is a class of TensorFlow Datasets, which may not be installed.
_OF_GRAMMAR_BUILDER = (
    "BahdanauGrammar",
    "GrammarConfig",
    "load_grammar",
    "prepare_grammar",
)


def __getattr__(name):
    if name in _OF_GRAMMAR_BUILDER:
        module = _importlib.import_module("keras_bahdanau.tf.grammar_builder")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_OF_GRAMMAR_BUILDER})
