"""What the callback measures, says and keeps, with a tagger that is told its tags."""

import pytest

from keras_bahdanau.entities import entity_scores
from keras_bahdanau.tagged_text import TaggedCorpus
from keras_bahdanau.tf import TaggedText, Tagger, TaggingCallback

CORPUS = TaggedCorpus(
    [
        (["Peter", "Pan", "sleeps"], ["B-PER", "I-PER", "O"]),
        (["in", "London"], ["O", "B-LOC"]),
    ]
)
RIGHT = [("B-PER", "I-PER", "O"), ("O", "B-LOC")]
# More words are right in the first, more entities in the second.
WORDS_RIGHT = [("B-PER", "O", "O"), ("O", "O")]
ENTITIES_RIGHT = [("B-PER", "I-PER", "B-LOC"), ("B-LOC", "O")]


class Told:
    """Tags as it is told, one list for each time; keeps what it is asked to save."""

    def __init__(self, *tags):
        self.tags = list(tags)
        self.saved, self.sizes = [], []

    def __call__(self, sentences, batch_size=64):
        assert sentences == [list(one.words) for one in CORPUS]
        self.sizes.append(batch_size)
        tags = self.tags.pop(0)
        return [TaggedText(tuple(w), t, None) for w, t in zip(sentences, tags)]

    tag_corpus = Tagger.tag_corpus

    def save(self, folder, notes=None):
        self.saved.append((folder, notes))


def run(tagger, **options):
    """The logs of all epochs, and the lines that were printed."""
    lines = []
    callback = TaggingCallback(tagger, CORPUS, print_fn=lines.append, **options)
    every = []
    for epoch in range(len(tagger.tags)):
        logs = {"loss": 1.0}
        callback.on_epoch_end(epoch, logs)
        every.append(logs)
    return every, lines


def test_the_logs_hold_the_accuracies():
    logs, lines = run(Told(RIGHT, WORDS_RIGHT), known_words={"in", "sleeps", "Pan"})
    assert logs[0] == {"loss": 1.0, "val_accuracy": 1.0, "val_unknown_accuracy": 1.0}
    assert logs[1] == {"loss": 1.0, "val_accuracy": 0.6, "val_unknown_accuracy": 0.5}
    assert lines == [
        "epoch 1: val_accuracy 100.00, val_unknown_accuracy 100.00, the best so far",
        "epoch 2: val_accuracy 60.00, val_unknown_accuracy 50.00",
    ]


@pytest.mark.parametrize("known", [None, {"Peter", "Pan", "sleeps", "in", "London"}])
def test_without_unknown_words_there_is_no_accuracy_on_them(known):
    logs, _ = run(Told(RIGHT), known_words=known)
    assert logs == [{"loss": 1.0, "val_accuracy": 1.0}]


def test_the_best_tagger_is_kept(tmp_path):
    told = Told(WORDS_RIGHT, RIGHT, RIGHT, WORDS_RIGHT)
    notes = {"seed": 3}
    run(told, filepath=str(tmp_path / "best"), notes=notes, batch_size=7)
    # An equal one is no better.
    assert told.saved == [(tmp_path / "best", notes)] * 2
    assert set(told.sizes) == {7}


@pytest.mark.parametrize(("scheme", "count"), [(None, 1), ("BIO", 2)])
def test_with_a_scheme_the_entities_say_which_is_best(scheme, count, tmp_path):
    told = Told(WORDS_RIGHT, ENTITIES_RIGHT)
    logs, lines = run(told, scheme=scheme, filepath=tmp_path / "best")
    assert len(told.saved) == count
    assert sum("the best so far" in line for line in lines) == count
    if scheme:
        gold = [one.tags for one in CORPUS]
        for one, tags in zip(logs, (WORDS_RIGHT, ENTITIES_RIGHT)):
            assert one["val_f1"] == entity_scores(gold, tags, scheme).f1
        assert logs[0]["val_f1"] < logs[1]["val_f1"]
    assert logs[0]["val_accuracy"] > logs[1]["val_accuracy"]


def test_a_folder_with_other_files_is_refused_before_anything_is_fitted(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="holds thesis.txt, no file of a tagger"):
        TaggingCallback(Told(), CORPUS, filepath=tmp_path)
    with pytest.raises(ValueError, match="`batch_size` must be 1 or more. Received: 0"):
        TaggingCallback(Told(), CORPUS, batch_size=0)
