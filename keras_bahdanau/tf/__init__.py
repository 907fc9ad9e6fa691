"""What needs TensorFlow itself: strings, corpora, and the batches made of them.

It works with every Keras backend, as long as TensorFlow is installed.
"""

from keras_bahdanau.tf.codecs import Codec as Codec
from keras_bahdanau.tf.codecs import SubwordCodec as SubwordCodec
from keras_bahdanau.tf.codecs import WordCodec as WordCodec
from keras_bahdanau.tf.codecs import load_codec as load_codec
from keras_bahdanau.tf.datasets import EmptySideWarning as EmptySideWarning
from keras_bahdanau.tf.datasets import PairCorpus as PairCorpus
from keras_bahdanau.tf.datasets import encode_pairs as encode_pairs
from keras_bahdanau.tf.datasets import parallel_files as parallel_files
from keras_bahdanau.tf.datasets import parallel_folder as parallel_folder
from keras_bahdanau.tf.datasets import tfds_pairs as tfds_pairs
from keras_bahdanau.tf.datasets import translation_batches as translation_batches
from keras_bahdanau.tf.tokenization import detokenize as detokenize
from keras_bahdanau.tf.tokenization import normalize as normalize
from keras_bahdanau.tf.tokenization import surface as surface
from keras_bahdanau.tf.tokenization import tokenize as tokenize
