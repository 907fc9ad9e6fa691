"""Which export formats take models of these layers, and how exact they are there.

    python benchmarks/formats.py

prints a line for each model and way out of Keras: the largest difference from what
the Keras model gives, or the error. Each attempt is a process of its own, so that a
crash is a line too. A package that is missing is named.

    python benchmarks/formats.py decoder onnx

makes one attempt alone, on the backend of `KERAS_BACKEND`.
"""

import dataclasses
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import typing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import ops, tree  # noqa: E402

import keras_bahdanau as kb  # noqa: E402

PACKAGES = (
    "keras tensorflow jax torch tf2onnx jax2onnx onnxscript onnx onnxruntime "
    "ai-edge-litert litert-torch openvino"
).split()
# B, S and T of the batches. Row 1 is half padding, row 2 all padding.
OPEN = ((3, 6, 4), (1, 2, 7), (4, 9, 1), (2, 5, 5))
OPEN_BATCH = ((3, 6, 4), (1, 6, 4), (4, 6, 4))
FIXED = ((3, 6, 4),)
WORDS, EMBEDDING, UNITS, ATTENTION, TAGS = 31, 8, 11, 7, 5
SENTENCES = ["the dog sees the cat, the dog sleeps.", "is a cat asleep?"]
TEXTS = ["the dog sleeps.", "", "a cat sees the dog, the cat is asleep."]
EXACT = 1e-4
SECONDS, LONGEST = 1800, 500
MARK = "result: "
TRANSLATOR = "translator"


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model to export.

    Args:
        make: function of `S`, `T` and `unroll` that returns the Keras model.
        inputs: names of its inputs, and for each the letter of its length.
        sizes: for those that are numbers, not ids, the size of their last axis.
        by_name: whether the model takes a dictionary.
    """

    make: typing.Callable
    inputs: dict
    sizes: dict = dataclasses.field(default_factory=dict)
    by_name: bool = False

    def arranged(self, feed):
        return feed if self.by_name else list(feed.values())


@dataclasses.dataclass(frozen=True)
class Way:
    """A way out of Keras and into something that runs.

    Args:
        read: function of a path and a subject that returns a function from a
            feed, a dictionary of arrays, to the flat outputs.
        format: of `keras.Model.export`.
        ending: of the file's name.
        backend: of Keras.
        batches: the sizes to try.
        unroll: whether loops are unrolled, for lengths that are fixed.
    """

    read: typing.Callable
    format: str = "tf_saved_model"
    ending: str = ""
    backend: str = "tensorflow"
    batches: tuple = OPEN
    unroll: bool = False


def tagger(source, target, unroll, reset_after=False):
    """A bidirectional tagger: ids `(B, S)` to logits `(B, S, TAGS)`."""
    ids = keras.Input((source,), dtype="int32", name="source")
    embedded = keras.layers.Embedding(WORDS, EMBEDDING, mask_zero=True)(ids)
    encoder = kb.BidirectionalGRUEncoder(
        UNITS, reset_after=reset_after, use_cudnn=False, unroll=unroll
    )
    memory, _ = encoder(embedded)
    return keras.Model([ids], keras.layers.Dense(TAGS)(memory))


def attention(source, target, unroll):
    """Attention alone, with both masks as inputs; contexts and weights."""
    query = keras.Input((target, EMBEDDING), name="query")
    value = keras.Input((source, UNITS), name="value")
    masks = [
        keras.Input((length,), dtype="bool", name=name)
        for name, length in (("query_mask", target), ("value_mask", source))
    ]
    contexts, weights = kb.BahdanauAttention(ATTENTION)(
        [query, value], mask=masks, return_attention_scores=True
    )
    return keras.Model([query, value, *masks], [contexts, weights])


def translation(source, target, unroll, plain=False):
    """Encoder, bridge, attentive decoder and readout; logits and weights.

    With `plain` the loop is `keras.layers.RNN`, and there are no weights.
    """
    ids = [
        keras.Input((length,), dtype="int32", name=name)
        for name, length in (("source", source), ("target", target))
    ]
    read = keras.layers.Embedding(WORDS, EMBEDDING, mask_zero=True)(ids[0])
    # A plain RNN is not to be given a mask of the sequence: see the README.
    written = keras.layers.Embedding(WORDS, EMBEDDING, mask_zero=not plain)(ids[1])
    memory, state = kb.BidirectionalGRUEncoder(UNITS, unroll=unroll)(read)
    state = kb.StateBridge(UNITS)([memory, state])
    looker = kb.BahdanauAttention(ATTENTION)
    cell = kb.AttentiveGRUDecoderCell(UNITS, looker, output_context=plain)
    options = {"return_sequences": True, "unroll": unroll}
    if plain:
        states = kb.MemoryStates(looker)([state, memory])
        outputs = keras.layers.RNN(cell, **options)(written, initial_state=states)
        return keras.Model(ids, keras.layers.Dense(WORDS)(outputs))
    options |= {"return_contexts": True, "return_attention_scores": True}
    outputs, contexts, weights = kb.AttentiveRNN(cell, **options)(
        written, memory, state
    )
    logits = kb.MaxoutReadout(WORDS, UNITS)([outputs, written, contexts])
    return keras.Model(ids, [logits, weights])


def rnnsearch(source, target, unroll):
    """The complete model, teacher-forced, with its own `export`."""
    return kb.RNNSearch(WORDS, WORDS, embedding_dim=EMBEDDING, units=UNITS)


PAIR = {"source": "S", "target": "T"}
SUBJECTS = {
    "tagger": Subject(tagger, {"source": "S"}),
    "tagger-reset-after": Subject(lambda *sizes: tagger(*sizes, True), {"source": "S"}),
    "attention": Subject(
        attention,
        {"query": "T", "value": "S", "query_mask": "T", "value_mask": "S"},
        {"query": EMBEDDING, "value": UNITS},
    ),
    "decoder": Subject(translation, PAIR),
    "plain-rnn": Subject(lambda *sizes: translation(*sizes, True), PAIR),
    "rnnsearch": Subject(
        rnnsearch, {"source_ids": "S", "target_ids": "T"}, by_name=True
    ),
}


def draw(subject, batch, source, target):
    """A feed: arrays by the names of the inputs."""
    rng = np.random.default_rng([batch, source, target])
    feed = {}
    for name, letter in subject.inputs.items():
        length = source if letter == "S" else target
        ids = rng.integers(1, WORDS, (batch, length), dtype="int32")
        ids[1:2, length // 2 :] = 0
        ids[2:3] = 0
        feed[name] = ids > 0 if name.endswith("_mask") else ids
        if name in subject.sizes:
            shape = (batch, length, subject.sizes[name])
            feed[name] = rng.normal(size=shape).astype("float32")
    return feed


def made(subject, way):
    """The model with random weights, called once: for ONNX Keras asks for that."""
    first = way.batches[0]
    sizes = (*first[1:], True) if way.unroll else (None, None, False)
    model = subject.make(*sizes)
    model(subject.arranged(draw(subject, *first)))
    rng = np.random.default_rng(7)
    for weight in model.weights:
        if "seed" not in weight.path:
            weight.assign(0.7 * rng.normal(size=weight.shape))
    return model


def export(model, subject, way, path):
    """`Model.export`; with a signature where all sizes are fixed."""
    options = {}
    if way.batches is FIXED:
        specs = {
            name: keras.InputSpec(shape=array.shape, dtype=str(array.dtype), name=name)
            for name, array in draw(subject, *FIXED[0]).items()
        }
        specs = subject.arranged(specs)
        options["input_signature"] = specs if len(specs) == 1 else [specs]
    model.export(path, format=way.format, verbose=False, **options)


def read_saved_model(path, subject):
    import tensorflow as tf

    loaded = tf.saved_model.load(path)

    def run(feed):
        feed = {name: tf.constant(array) for name, array in feed.items()}
        return tree.flatten(loaded.serve(subject.arranged(feed)))

    return run


def read_layer(path, subject):
    layer = keras.layers.TFSMLayer(path, call_endpoint="serve")
    return lambda feed: tree.flatten(layer(subject.arranged(feed)))


def renamed(feed, names):
    """A dictionary's inputs get longer names; their order stays."""
    if set(names) == set(feed):
        return feed
    return dict(zip(names, feed.values(), strict=True))


def read_onnx(path, subject):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = [one.name for one in session.get_inputs()]
    return lambda feed: session.run(None, renamed(feed, names))


def read_litert(path, subject):
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(path).get_signature_runner()
    names = sorted(runner.get_input_details())

    def run(feed):
        outputs = runner(**renamed(feed, names))
        return [outputs[name] for name in sorted(outputs)]

    return run


def read_openvino(path, subject):
    import openvino

    model = path if path.endswith(".xml") else openvino.convert_model(path)
    # By default it computes in bfloat16 where the processor can.
    hints = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(model, "CPU", hints)
    names = sorted(one.any_name for one in compiled.inputs)

    def run(feed):
        found = compiled(renamed(feed, names))
        return [found[output] for output in compiled.outputs]

    return run


ONNX = {"read": read_onnx, "format": "onnx", "ending": "model.onnx"}
LITERT = {"read": read_litert, "format": "litert", "ending": "model.tflite"}
IR = {"read": read_openvino, "format": "openvino", "ending": "model.xml"}
UNROLLED = {"batches": OPEN_BATCH, "unroll": True}
WAYS = {
    "saved-model": Way(read_saved_model),
    "saved-model-jax": Way(read_saved_model, backend="jax"),
    "saved-model-torch": Way(read_saved_model, backend="torch"),
    "tfsm-layer": Way(read_layer),
    "onnx": Way(**ONNX),
    "onnx-jax": Way(**ONNX, backend="jax"),
    "onnx-jax-unrolled": Way(**ONNX, **UNROLLED, backend="jax"),
    "onnx-torch": Way(**ONNX, backend="torch"),
    "onnx-torch-fixed": Way(**ONNX, backend="torch", batches=FIXED),
    "litert": Way(**LITERT),
    "litert-unrolled": Way(**LITERT, **UNROLLED),
    "litert-torch-fixed": Way(**LITERT, backend="torch", batches=FIXED),
    "openvino": Way(read_openvino),
    "openvino-keras": Way(**IR),
    "openvino-keras-unrolled": Way(**IR, **UNROLLED),
    "openvino-onnx": Way(**{**ONNX, "read": read_openvino}),
}


def compared(subject, way):
    """The verdict on a Keras model."""
    model = made(subject, way)
    worst, more = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, way.ending) if way.ending else folder
        export(model, subject, way, path)
        run = way.read(path, subject)
        for size in way.batches:
            feed = draw(subject, *size)
            expected = tree.flatten(model(subject.arranged(feed)))
            found = list(run(feed))
            more = len(found) - len(expected)
            for one, other in zip(found, map(ops.convert_to_numpy, expected)):
                one = np.asarray(one)
                if one.shape != other.shape or not np.isfinite(one).all():
                    raise ValueError(
                        f"B, S, T = {size} gave {one.shape} for {other.shape}: {one}"
                    )
                worst = max(worst, float(np.abs(one - other).max()))
    verdict = "works" if worst < EXACT else "runs, but is not exact"
    extra = f", {more} outputs more than the model has" if more else ""
    return f"{verdict}, largest difference {worst:.1e}{extra}"


def translator_compared(way):
    """The verdict on a `Translator`, strings to strings."""
    import tensorflow as tf

    from keras_bahdanau.tf import Translator, WordCodec

    codec = WordCodec.train(SENTENCES)
    size = codec.vocabulary_size
    model = kb.RNNSearch(size, size, embedding_dim=EMBEDDING, units=UNITS)
    translator = Translator(model, codec, codec)
    strings = tf.constant(TEXTS)
    expected = translator.serve(strings)
    with tempfile.TemporaryDirectory() as folder:
        translator.export(folder)
        found = STRING_WAYS[way](folder, strings)
    if found is None:
        return "converts; what it gives was not compared"
    worst = max(np.abs(found[name] - expected[name]).max() for name in NUMBERS)
    for name in set(expected) - set(NUMBERS):
        if (np.asarray(found[name]) != expected[name].numpy()).any():
            return f"runs, but gives other {name}"
    return f"works, largest difference {worst:.1e}"


def strings_onnx(folder, strings):
    import onnxruntime
    import tensorflow as tf
    import tf2onnx

    loaded, spec = tf.saved_model.load(folder), [tf.TensorSpec([None], tf.string)]
    path = os.path.join(folder, "model.onnx")
    tf2onnx.convert.from_function(
        tf.function(loaded.serve, spec), spec, output_path=path
    )
    onnxruntime.InferenceSession(path)


def strings_litert(folder, strings):
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    kinds = tf.lite.OpsSet
    converter.target_spec.supported_ops = [kinds.TFLITE_BUILTINS, kinds.SELECT_TF_OPS]
    Interpreter(model_content=converter.convert()).allocate_tensors()


def strings_openvino(folder, strings):
    import openvino

    openvino.convert_model(folder)


def strings_saved_model(folder, strings):
    import tensorflow as tf

    return tf.saved_model.load(folder).serve(strings)


def strings_layer(folder, strings):
    return keras.layers.TFSMLayer(folder, call_endpoint="serve")(strings)


NUMBERS = ("scores", "attention_weights")
STRING_WAYS = {
    "saved-model": strings_saved_model,
    "tfsm-layer": strings_layer,
    "onnx": strings_onnx,
    "litert": strings_litert,
    "openvino": strings_openvino,
}


def attempt(name, way):
    """What came of one attempt, in a line."""
    try:
        if name == TRANSLATOR:
            return translator_compared(way)
        return compared(SUBJECTS[name], WAYS[way])
    except ImportError as error:
        return f"missing: {shortened(error)}"
    except Exception as error:
        return f"fails: {type(error).__name__}: {shortened(error)}"


def shortened(error):
    return " ".join(str(error).split())[:LONGEST]


def in_a_process(name, way):
    """The line of one attempt, or how its process ended."""
    try:
        found = subprocess.run(
            [sys.executable, __file__, name, way],
            env={**os.environ, "KERAS_BACKEND": WAYS[way].backend},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"takes more than {SECONDS} s"
    for line in found.stdout.splitlines():
        if line.startswith(MARK):
            return line.removeprefix(MARK)
    return f"crashes: exit status {found.returncode}"


def jobs():
    """All pairs of a model and a way; RNNSearch has no option `unroll`."""
    for name in SUBJECTS:
        for way in WAYS:
            if not (WAYS[way].unroll and name == "rnnsearch"):
                yield name, way
    for way in STRING_WAYS:
        yield TRANSLATOR, way


def main(arguments):
    if arguments:
        name, way = arguments
        print(MARK + attempt(name, way))
        return
    for package in PACKAGES:
        try:
            print(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{package}: not installed")
    for name, way in jobs():
        print(f"{name:19} {way:24} {in_a_process(name, way)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
