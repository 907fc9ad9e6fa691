"""Recurrent attention for Keras 3.

Layers and models in `keras.ops`, for the TensorFlow, JAX and torch backends.
What needs TensorFlow itself (text, datasets, export) is in `keras_bahdanau.tf`,
which is imported by name.

Letters of shapes, in all docstrings: `B` batch, `S` source positions, `T`
target positions, `D` features, `U` units, `A` attention units, `K` beams, `V`
vocabulary. Masks are boolean, `True` where a position is real.
"""

from keras_bahdanau.attention import (
    BahdanauAttention,
    FixedContext,
)
from keras_bahdanau.attentive_rnn import AttentiveRNN
from keras_bahdanau.beam import beam_search
from keras_bahdanau.bridge import StateBridge
from keras_bahdanau.characters import CharacterEncoder
from keras_bahdanau.crf import CRF, CRFNegativeLogLikelihood
from keras_bahdanau.decoder import (
    AttentiveGRUDecoderCell,
    MemoryStates,
)
from keras_bahdanau.encoder import BidirectionalGRUEncoder
from keras_bahdanau.ensembles import RNNEnsemble, average_models
from keras_bahdanau.fused_loss import FusedLossModel
from keras_bahdanau.initializers import BlockOrthogonal
from keras_bahdanau.losses import TokenCrossentropy
from keras_bahdanau.metrics import Perplexity, TagAccuracy, TokenAccuracy
from keras_bahdanau.models import RNNEncoderDecoder, RNNSearch
from keras_bahdanau.readout import Maxout, MaxoutReadout
from keras_bahdanau.recipes import modern_recipe, paper_recipe, tagging_recipe
from keras_bahdanau.scores import additive_scores, masked_softmax
from keras_bahdanau.search import (
    SearchResult,
    ensemble,
    greedy_search,
    sample,
)
from keras_bahdanau.tagger import SequenceTagger, TokenDropout

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "AttentiveGRUDecoderCell",
    "AttentiveRNN",
    "BahdanauAttention",
    "BidirectionalGRUEncoder",
    "BlockOrthogonal",
    "CRFNegativeLogLikelihood",
    "CharacterEncoder",
    "FixedContext",
    "FusedLossModel",
    "Maxout",
    "MaxoutReadout",
    "MemoryStates",
    "Perplexity",
    "RNNEncoderDecoder",
    "RNNEnsemble",
    "RNNSearch",
    "SearchResult",
    "SequenceTagger",
    "StateBridge",
    "TagAccuracy",
    "TokenAccuracy",
    "TokenCrossentropy",
    "TokenDropout",
    "additive_scores",
    "average_models",
    "beam_search",
    "ensemble",
    "greedy_search",
    "masked_softmax",
    "modern_recipe",
    "paper_recipe",
    "sample",
    "tagging_recipe",
]
