"""Tagged sentences from TensorFlow Datasets: parts of speech and named entities."""

import tensorflow as tf

from keras_bahdanau.tagged_text import TaggedCorpus, TaggedSentence
from keras_bahdanau.tf.datasets import find_builder, not_prepared

_NO_TAG = "_"
# How TensorFlow Datasets writes a column of CoNLL-U that is empty.
_NOTHING = (_NO_TAG, "None")


def tfds_tagged(name, split, tags=None, words="tokens", data_dir=None, download=False):
    """Reads tagged sentences from a set of TensorFlow Datasets.

    It takes any set with a sequence of words and one of tags, as class labels or as
    strings:

        universal_dependencies/en_ewt, …    tokens; upos (xpos, deprel)
        xtreme_pos/xtreme_pos_en, …         tokens; upos
        conll2003                           tokens; ner, pos or chunks
        wikiann/en, …                       tokens; tags
        bahdanau_grammar/base               en_tokens, fr_tokens; en_tags, fr_tags

    Words without a tag (`_`) are dropped: in treebanks, those are the multi-word tokens
    whose parts stand there as well. Empty nodes are dropped where the set has the
    feature `head`, by which they are known: `xtreme_pos` has not, and keeps them.
    Sentences of which nothing remains are left out.

    Args:
        name: Name of the builder and its configuration, as
            `"universal_dependencies/en_ewt"`; or a builder.
        split: The split or a slice of it, as `"train[:1000]"`. All of it is held in
            memory.
        tags: Feature that holds the tags; by default the only one of class labels.
        words: Feature that holds the words.
        data_dir: Folder of prepared sets; by default that of TensorFlow Datasets.
        download: Whether the set may be downloaded and prepared if it is not there.

    Returns:
        A `keras_bahdanau.tagged_text.TaggedCorpus`, its tags those of the class labels.

    Raises:
        ImportError: If `tensorflow_datasets` is not installed.
        ValueError: If the set is not prepared and `download` is false, if it has no
            such split or feature, or if no word has a tag.

    Example:

    >>> import tempfile
    >>> from keras_bahdanau.tf import GrammarConfig, prepare_grammar
    >>> config = GrammarConfig(train=5, validation=0, test=0)
    >>> builder = prepare_grammar(config, tempfile.mkdtemp())
    >>> tfds_tagged(builder, "train", tags="fr_tags", words="fr_tokens")
    <TaggedCorpus bahdanau_grammar[train]: 5 sentences, ... words>
    """
    tfds, builder, name = find_builder(name, data_dir, download)
    features = builder.info.features
    tags = _tag_feature(tfds, features, tags, name)
    _check_features(features, {"words": words, "tags": tags}, name)
    labels = _labels(tfds, features[tags])
    wanted = {"words": words, "tags": tags}
    if _NO_TAG in (labels or [_NO_TAG]) and "head" in features:
        wanted["heads"] = "head"
    place = f"{name}[{split}]"
    try:
        dataset = builder.as_dataset(split=split, shuffle_files=False)
    except AssertionError as error:
        # So TensorFlow Datasets says that there is no data.
        raise ValueError(not_prepared(builder, name, data_dir)) from error
    dataset = dataset.map(
        lambda example: {key: example[feature] for key, feature in wanted.items()}
    )
    sentences = [
        sentence
        for number, example in enumerate(tfds.as_numpy(dataset))
        if (sentence := _sentence(example, labels, f"{place}, example {number}"))
    ]
    if not sentences:
        raise ValueError(
            f"A word must have a tag. Received {place} without any in the feature "
            f"{tags!r}. Choose another with `tags=`."
        )
    return TaggedCorpus(sentences, place)


def _tag_feature(tfds, features, tags, name):
    """The feature that holds the tags: the given one, or the only one there is."""
    if tags is not None:
        return tags
    found = [key for key in features if _labels(tfds, features[key]) is not None]
    if len(found) != 1:
        raise ValueError(
            f"`tags` must name the feature of the tags unless {name} has exactly one "
            f"of class labels. Received none; it has: {', '.join(sorted(found))}."
        )
    return found[0]


def _labels(tfds, feature):
    """The names of the labels of a sequence of class labels, else None."""
    inner = getattr(feature, "feature", None)
    return inner.names if isinstance(inner, tfds.features.ClassLabel) else None


def _check_features(features, wanted, name):
    """Refuses features that are missing, or no sequences of strings or labels."""
    spec = features.get_tensor_spec()
    for argument, feature in wanted.items():
        if feature not in spec:
            raise ValueError(
                f"`{argument}` must be a feature of {name}. Received {feature!r}; it "
                f"has: {', '.join(map(repr, spec))}."
            )
        dtypes = (tf.string,) if argument == "words" else (tf.string, tf.int64)
        one = spec[feature]
        rank = getattr(getattr(one, "shape", None), "rank", None)
        labels = getattr(getattr(features[feature], "feature", None), "names", None)
        fits = rank == 1 and one.dtype in dtypes
        if not fits or (one.dtype != tf.string and labels is None):
            kinds = "strings" if argument == "words" else "class labels or strings"
            raise ValueError(
                f"`{argument}` must be a feature that is a sequence of {kinds}. "
                f"Received {feature!r} of {name}, which is {features[feature]}."
            )


def _sentence(example, labels, place):
    """The words with a tag, or None without any."""
    words = [_decode(word, place) for word in example["words"]]
    if labels is None:
        tags = [_decode(tag, place) for tag in example["tags"]]
        nothing = _NOTHING
    else:
        tags = [labels[index] if index >= 0 else _NO_TAG for index in example["tags"]]
        nothing = (_NO_TAG,)
    heads = example.get("heads", [b""] * len(words))
    if not len(words) == len(tags) == len(heads):
        raise ValueError(
            f"Each word must have a tag. Received {len(words)} words and {len(tags)} "
            f"tags in {place}."
        )
    kept = [
        (word, tag)
        for word, tag, head in zip(words, tags, heads)
        if tag not in nothing and _decode(head, place) not in _NOTHING
    ]
    return TaggedSentence(*zip(*kept)) if kept else None


def _decode(text, place):
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Text must be UTF-8. Received {place}, which is not: {error}."
        ) from error
