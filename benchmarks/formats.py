"""Which export formats take models of these layers, and how exact they are there.

    python benchmarks/formats.py

prints a line for each model and way out of Keras: the largest difference from what
the Keras model gives, or the error. Each attempt is a process of its own, so that a
crash is a line too. A package that is missing is named. `docs/export.md` has the table.

    python benchmarks/formats.py decoder onnx

makes one attempt alone.
"""

import dataclasses
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import typing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import ops, tree

import keras_bahdanau as kb

PACKAGES = (
    "keras",
    "tensorflow",
    "jax",
    "torch",
    "tf2onnx",
    "jax2onnx",
    "onnx",
    "onnxruntime",
    "ai-edge-litert",
    "openvino",
)
TRANSLATOR = "translator"
SIZES = ((3, 6, 4), (1, 2, 7), (4, 9, 1), (2, 5, 5))
# With a fixed S and T only the batch is free.
FIXED = ((3, 6, 4), (1, 6, 4), (4, 6, 4))
WORDS, EMBEDDING, UNITS, ATTENTION, TAGS = 31, 8, 11, 7, 5
SENTENCES = ["the dog sees the cat, the dog sleeps.", "is a cat asleep?"]
TEXTS = ["the dog sleeps.", "", "a cat sees the dog, the cat is asleep."]
LARGEST = 1e-4
TIMEOUT = 1800
LONGEST = 500
MARK = "result: "


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model to export.

    Args:
        make: function of `S`, `T` and `unroll` that returns the Keras model.
        inputs: names of its inputs, and for each the axis letter of its length.
        numbers: names of those that are numbers of a given size, not ids.
    """

    make: typing.Callable
    inputs: dict
    numbers: dict = dataclasses.field(default_factory=dict)


def tagger(source, target, unroll, reset_after=False, use_cudnn="auto"):
    """A bidirectional tagger: ids `(B, S)` to logits `(B, S, TAGS)`."""
    ids = keras.Input((source,), dtype="int32", name="source")
    embedded = keras.layers.Embedding(WORDS, EMBEDDING, mask_zero=True)(ids)
    memory, _ = kb.BidirectionalGRUEncoder(
        UNITS, reset_after=reset_after, use_cudnn=use_cudnn, unroll=unroll
    )(embedded)
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
    if unroll:
        raise ValueError("RNNSearch has no option `unroll`")
    return kb.RNNSearch(WORDS, WORDS, embedding_dim=EMBEDDING, units=UNITS)


PAIR = {"source": "S", "target": "T"}
SUBJECTS = {
    "tagger": Subject(tagger, {"source": "S"}),
    "tagger-reset-after": Subject(
        lambda *sizes: tagger(*sizes, reset_after=True), {"source": "S"}
    ),
    "tagger-no-cudnn": Subject(
        lambda *sizes: tagger(*sizes, reset_after=True, use_cudnn=False),
        {"source": "S"},
    ),
    "attention": Subject(
        attention,
        {"query": "T", "value": "S", "query_mask": "T", "value_mask": "S"},
        {"query": EMBEDDING, "value": UNITS},
    ),
    "decoder": Subject(translation, PAIR),
    "plain-rnn": Subject(lambda *sizes: translation(*sizes, plain=True), PAIR),
    "rnnsearch": Subject(rnnsearch, {"source_ids": "S", "target_ids": "T"}),
}


def draw(subject, batch, source, target):
    """Arrays by name: of row 1 half is padding, and all of row 2."""
    rng = np.random.default_rng([batch, source, target])
    feed = {}
    for name, letter in subject.inputs.items():
        length = source if letter == "S" else target
        ids = rng.integers(1, WORDS, (batch, length), dtype="int32")
        ids[1:2, length // 2 :] = 0
        ids[2:3] = 0
        feed[name] = ids > 0 if name.endswith("_mask") else ids
        if name in subject.numbers:
            shape = (batch, length, subject.numbers[name])
            feed[name] = rng.normal(size=shape).astype("float32")
    return feed


def arranged(feed):
    """The feed as a Functional model takes it, or as RNNSearch does."""
    return feed if "source_ids" in feed else list(feed.values())


def call(model, feed):
    """The flat outputs of a Keras model or layer."""
    outputs = model(arranged(feed))
    return [ops.convert_to_numpy(output) for output in tree.flatten(outputs)]


def made(subject, fixed):
    """The model with random weights, called once: to ONNX Keras asks for that."""
    sizes = (*FIXED[0][1:], True) if fixed else (None, None, False)
    model = subject.make(*sizes)
    call(model, draw(subject, *SIZES[0]))
    rng = np.random.default_rng(7)
    for weight in model.weights:
        if "seed" not in weight.path:
            weight.assign(0.7 * rng.normal(size=weight.shape))
    return model


def saved_model(model, folder):
    """`tf.saved_model.load`."""
    import tensorflow as tf

    model.export(folder, verbose=False)
    loaded = tf.saved_model.load(folder)

    def run(feed):
        feed = {name: tf.constant(array) for name, array in feed.items()}
        return tree.flatten(loaded.serve(arranged(feed)))

    return run


def tfsm_layer(model, folder):
    """`keras.layers.TFSMLayer`."""
    model.export(folder, verbose=False)
    layer = keras.layers.TFSMLayer(folder, call_endpoint="serve")
    return lambda feed: call(layer, feed)


def onnx(model, folder):
    """ONNX Runtime."""
    import onnxruntime

    path = f"{folder}/model.onnx"
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path)
    names = [one.name for one in session.get_inputs()]

    def run(feed):
        # Names of a nested signature may differ; their order does not.
        known = set(names) <= set(feed)
        feed = feed if known else dict(zip(names, feed.values(), strict=True))
        return session.run(None, {name: feed[name] for name in names})

    return run


def litert(model, folder):
    """The interpreter of LiteRT."""
    from ai_edge_litert.interpreter import Interpreter

    return tflite(model, folder, Interpreter)


def litert_in_tensorflow(model, folder):
    """The interpreter within TensorFlow, which once had the Flex delegate."""
    import tensorflow as tf

    return tflite(model, folder, tf.lite.Interpreter)


def tflite(model, folder, interpreter):
    path = f"{folder}/model.tflite"
    model.export(path, format="litert", verbose=False)
    runner = interpreter(path).get_signature_runner()

    def run(feed):
        outputs = runner(**feed)
        return [outputs[name] for name in sorted(outputs)]

    return run


def openvino_read(path):
    """Compiles for the CPU: in float32, where its default is the fastest."""
    import openvino

    model = openvino.convert_model(path)
    hints = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(model, "CPU", hints)

    def run(feed):
        found = compiled(feed)
        return [found[output] for output in compiled.outputs]

    return run


def openvino(model, folder):
    """OpenVINO from a SavedModel."""
    model.export(folder, verbose=False)
    return openvino_read(folder)


def openvino_keras(model, folder):
    """OpenVINO by Keras' `format="openvino"`."""
    path = f"{folder}/model.xml"
    model.export(path, format="openvino", verbose=False)
    return openvino_read(path)


def openvino_onnx(model, folder):
    """OpenVINO from ONNX."""
    path = f"{folder}/model.onnx"
    model.export(path, format="onnx", verbose=False)
    return openvino_read(path)


# The function, the Keras backend, and whether S and T are fixed and loops unrolled.
WAYS = {
    "saved-model": (saved_model, "tensorflow", False),
    "saved-model-jax": (saved_model, "jax", False),
    "saved-model-torch": (saved_model, "torch", False),
    "tfsm-layer": (tfsm_layer, "tensorflow", False),
    "onnx": (onnx, "tensorflow", False),
    "onnx-jax": (onnx, "jax", False),
    "onnx-torch": (onnx, "torch", False),
    "litert": (litert, "tensorflow", False),
    "litert-unrolled": (litert, "tensorflow", True),
    "litert-in-tensorflow": (litert_in_tensorflow, "tensorflow", False),
    "openvino": (openvino, "tensorflow", False),
    "openvino-keras": (openvino_keras, "tensorflow", False),
    "openvino-keras-unrolled": (openvino_keras, "tensorflow", True),
    "openvino-onnx": (openvino_onnx, "tensorflow", False),
}


def difference(subject, model, run, sizes):
    """The largest difference over all sizes; raises where an output is not as it is.

    And how many outputs there are beside those of the model.
    """
    worst, more = 0.0, 0
    for size in sizes:
        feed = draw(subject, *size)
        expected, found = call(model, feed), run(feed)
        more = len(found) - len(expected)
        for one, other in zip(found, expected):
            one = np.asarray(one)
            if one.shape != other.shape:
                raise ValueError(
                    f"shape {one.shape} for {other.shape} at B, S, T = {size}"
                )
            if not np.isfinite(one).all():
                raise ValueError(f"not finite at B, S, T = {size}")
            worst = max(worst, float(np.abs(one - other).max()))
    return worst, more


def compared(name, way):
    """The verdict on a Keras model."""
    export, _, fixed = WAYS[way]
    subject = SUBJECTS[name]
    model = made(subject, fixed)
    with tempfile.TemporaryDirectory() as folder:
        run = export(model, folder)
        worst, more = difference(subject, model, run, FIXED if fixed else SIZES)
    verdict = "works" if worst < LARGEST else "runs, but is not exact"
    extra = f", {more} outputs too many" if more else ""
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
    same = (found["translations"] == expected["translations"]).numpy().all()
    worst = np.abs(found["attention_weights"] - expected["attention_weights"]).max()
    verdict = "works" if same else "runs, but other translations"
    return f"{verdict}, largest difference {worst:.1e}"


def strings_onnx(folder, strings):
    import tensorflow as tf
    import tf2onnx

    serve = tf.saved_model.load(folder).serve
    tf2onnx.convert.from_function(
        serve, [tf.TensorSpec([None], tf.string)], output_path=f"{folder}/model.onnx"
    )
    import onnxruntime

    onnxruntime.InferenceSession(f"{folder}/model.onnx")
    raise NotImplementedError("it converts and loads: compare what it gives")


def strings_litert(folder, strings):
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    kinds = tf.lite.OpsSet
    converter.target_spec.supported_ops = [kinds.TFLITE_BUILTINS, kinds.SELECT_TF_OPS]
    runner = Interpreter(model_content=converter.convert()).get_signature_runner()
    return runner(strings=strings.numpy())


def strings_openvino(folder, strings):
    openvino_read(folder)
    raise NotImplementedError("it converts and compiles: compare what it gives")


def strings_saved_model(folder, strings):
    import tensorflow as tf

    return tf.saved_model.load(folder).serve(strings)


def strings_tfsm_layer(folder, strings):
    return keras.layers.TFSMLayer(folder, call_endpoint="serve")(strings)


STRING_WAYS = {
    "saved-model": strings_saved_model,
    "tfsm-layer": strings_tfsm_layer,
    "onnx": strings_onnx,
    "litert": strings_litert,
    "openvino": strings_openvino,
}


def attempt(name, way):
    """What came of one attempt, in a line."""
    try:
        if name == TRANSLATOR:
            return translator_compared(way)
        return compared(name, way)
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
            env={**os.environ, "KERAS_BACKEND": WAYS[way][1]},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"takes more than {TIMEOUT} s"
    for line in found.stdout.splitlines():
        if line.startswith(MARK):
            return line.removeprefix(MARK)
    return f"crashes: exit status {found.returncode}"


def jobs():
    """All pairs of a model and a way; RNNSearch has no fixed sizes."""
    for name in SUBJECTS:
        for way, (_, _, fixed) in WAYS.items():
            if not (fixed and name == "rnnsearch"):
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
