"""One system of the study: what its configuration file says, checked before training.

`configs/SCALE/NAME.json` is the system NAME; `configs/SCALE/optimizers/NAME.json` is a
curve, a model that is trained and not tested.
"""

import dataclasses
import json
import math
import os
import pathlib

from keras_bahdanau import (
    RNNEncoderDecoder,
    RNNSearch,
    modern_recipe,
    paper_recipe,
)

CONFIGS = pathlib.Path(__file__).parent / "configs"
MODELS = {"RNNsearch": RNNSearch, "RNNencdec": RNNEncoderDecoder}
PRESETS = ("library", "paper")
OPTIMIZERS = ("adam", "adadelta")
OPTIONS = (
    "embedding_dim",
    "units",
    "attention_units",
    "readout_units",
    "dropout",
)
COUNTS = (
    "max_length",
    "vocabulary",
    "batch_size",
    "pool_batches",
    "pad_to_multiple",
    "updates",
    "validate_every",
    "beams",
)
# What has to be the same for two systems to be compared.
SHARED = ("vocabulary", "updates", "beams")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a configuration file says.

    Args:
        name: The name of the file, without its ending.
        model: `"RNNsearch"` or `"RNNencdec"`.
        preset: `"paper"` for the model of `paper()`, its initialisation and step
            order, with `options` in the place of its sizes, and the loss of whole
            sentences; `"library"` for the defaults of the class, and the loss of
            words.
        options: Arguments of the class, of those in `OPTIONS`.
        max_length: Words and marks of the longest sentence to train on, either side.
        vocabulary: Number of the most frequent words of each side; others are unknown.
        optimizer: `"adam"`, or `"adadelta"` with the numbers of the paper.
        learning_rate: A number above 0.
        batch_size: Pairs in a minibatch.
        pool_batches: Minibatches that are drawn and sorted by length together.
        pad_to_multiple: Both lengths of a batch are padded to a multiple of it, which
            keeps the number of shapes small that XLA compiles.
        updates: Number of minibatches to train on.
        validate_every: Number of them between two validations, a divisor of `updates`.
        beams: Beams of the search on the test sentences.

    Raises:
        ValueError: If a value is out of its range.
    """

    name: str
    model: str
    preset: str
    options: dict
    max_length: int
    vocabulary: int
    optimizer: str
    learning_rate: float
    batch_size: int
    pool_batches: int
    pad_to_multiple: int
    updates: int
    validate_every: int
    beams: int

    def __post_init__(self):
        self._check_choice("model", MODELS)
        self._check_choice("preset", PRESETS)
        self._check_choice("optimizer", OPTIMIZERS)
        for name in COUNTS:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(
                    f"`{name}` must be a whole number of 1 or more. Received: "
                    f"{value!r}."
                )
        rate = self.learning_rate
        if not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ValueError(
                f"`learning_rate` must be a number above 0. Received: {rate!r}."
            )
        if self.updates % self.validate_every:
            raise ValueError(
                "`validate_every` must divide `updates`. Received: "
                f"validate_every={self.validate_every}, updates={self.updates}."
            )
        self._check_options()

    @property
    def has_attention(self):
        return MODELS[self.model].has_attention

    @property
    def average_over(self):
        """What the loss is a mean over: as the paper has it, sentences."""
        return "sequences" if self.preset == "paper" else "tokens"

    def with_updates(self, updates):
        """The same system with another budget, validated no less often."""
        every = math.gcd(updates, self.validate_every)
        return dataclasses.replace(self, updates=updates, validate_every=every)

    def make_model(self, source_size, target_size, seed=None):
        """The model, for so many ids of each side; not compiled for training."""
        kind = MODELS[self.model]
        make = kind.paper if self.preset == "paper" else kind
        model = make(source_size, target_size, seed=seed, **self.options)
        # Another model around it is trained. Of an optimizer of its own, which never
        # made a step, Keras would warn when it is loaded.
        model.optimizer, model.compiled = None, False
        return model

    def make_optimizer(self):
        """The optimizer of the recipe, with this learning rate."""
        if self.optimizer == "adam":
            return modern_recipe(self.learning_rate)["optimizer"]
        optimizer = paper_recipe()["optimizer"]
        optimizer.learning_rate = self.learning_rate
        return optimizer

    def _check_choice(self, name, choices):
        value = getattr(self, name)
        if value not in tuple(choices):
            raise ValueError(
                f"`{name}` must be one of {', '.join(choices)}. Received: {value!r}."
            )

    def _check_options(self):
        if not isinstance(self.options, dict) or not set(self.options) <= set(OPTIONS):
            raise ValueError(
                f"`options` must be an object with some of {', '.join(OPTIONS)}. "
                f"Received: {self.options!r}."
            )
        if "attention_units" in self.options and not self.has_attention:
            raise ValueError(
                f"{self.model} has no attention. Received: attention_units="
                f"{self.options['attention_units']}. Leave it out."
            )
        # What the layers find wrong, they say now and not after hours.
        self.make_model(5, 5)


def read_settings(path):
    """Reads a configuration file.

    Args:
        path: Name of a JSON file that holds one object, with a value for each
            argument of `Settings` but the name.

    Returns:
        `Settings`.

    Raises:
        ValueError: If the file is not such a one; the message names it.
    """
    path = pathlib.Path(path)
    names = [field.name for field in dataclasses.fields(Settings)][1:]
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"It must hold an object. Received: {values!r}.")
        missing, more = set(names) - set(values), set(values) - set(names)
        if missing or more:
            raise ValueError(
                f"It must have the keys {', '.join(names)}. Received none of "
                f"{sorted(missing)}, and {sorted(more)} besides."
            )
        return Settings(path.stem, **values)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_all(paths):
    """The settings of several files: a list, short limits first, attention last."""
    return sorted(
        map(read_settings, paths), key=lambda one: (one.max_length, one.has_attention)
    )


def read_systems(scale):
    """The systems of a scale and its curves: two lists as of `read_all`."""
    folder = CONFIGS / scale
    return [read_all(place.glob("*.json")) for place in (folder, folder / "optimizers")]


def check_comparable(systems):
    """Raises a `ValueError` where systems differ in what has to be the same."""
    for name in SHARED:
        values = {system.name: getattr(system, name) for system in systems}
        if len(set(values.values())) > 1:
            raise ValueError(
                f"All systems of a study must have the same `{name}`. Received: "
                f"{values}."
            )


def write_json(path, value):
    """Writes a JSON file that nobody sees half written."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(path)
