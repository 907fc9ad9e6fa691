"""What a computation makes and keeps, read from graphs and traces, not measured."""

import math
import re

import keras


def made_by_the_loop(function, shape):
    """Names of the operations that make a tensor of a shape, in a `while` loop.

    With torch, which traces nothing: anywhere in the function.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return {
            node.type
            for body in _tensorflow_loops(function)
            for node in body.get_operations()
            for output in node.outputs
            if _shape(output) == shape
        }
    if backend == "jax":
        import jax

        return {
            equation.primitive.name
            for equation in _equations(jax.make_jaxpr(function)().jaxpr, "while")
            for output in equation.outvars
            if output.aval.shape == shape
        }
    return _made_by_torch(function, shape)


def kept_by_the_loop(loss, *arrays):
    """Shapes, without ones, of what each step keeps for the gradient of a loss.

    What all steps share is not among them: a tensor that a step does not change is
    kept by TensorFlow and torch, too, but as a reference to one and the same.

    Args:
        loss: function of the arrays, as tensors, that loops over the second axis
            of the first of them.
        *arrays: NumPy arrays.

    Returns:
        Set of tuples.
    """
    kept = {
        "tensorflow": _kept_by_tensorflow,
        "jax": _kept_by_jax,
        "torch": _kept_by_torch,
    }[keras.backend.backend()]
    shapes = kept(loss, *arrays)
    return {tuple(size for size in shape if size != 1) for shape in shapes}


def sizes_made_by_xla(loss, *arrays):
    """The number of elements of each array in a gradient that XLA has compiled.

    TensorFlow only. There a reference that a step keeps becomes a copy.
    """
    import tensorflow as tf

    compiled = tf.function(_gradient_by_tensorflow(loss), jit_compile=True)
    tensors = [tf.constant(array) for array in arrays]
    text = compiled.experimental_get_compiler_ir(*tensors)(stage="optimized_hlo")
    shapes = set(re.findall(r"\bf32\[([\d,]+)\]", text))
    return {math.prod(map(int, shape.split(","))) for shape in shapes}


def _equations(jaxpr, loop, inside=False):
    """All equations inside the loops of one kind."""
    for equation in jaxpr.eqns:
        if inside:
            yield equation
        within = inside or equation.primitive.name == loop
        for inner in equation.params.values():
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from _equations(inner, loop, within)


def _scans(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation
        for inner in equation.params.values():
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from _scans(inner)


def _kept_by_jax(loss, *arrays):
    import jax

    gradient = jax.grad(loss, argnums=tuple(range(len(arrays))))
    return {
        output.aval.shape[1:]
        for scan in _scans(jax.make_jaxpr(gradient)(*arrays).jaxpr)
        for output in scan.outvars[scan.params["num_carry"] :]
    }


def _tensorflow_loops(function, *arrays):
    """The graphs of the bodies of all loops that a function builds."""
    import tensorflow as tf

    def loops(graph):
        for node in graph.get_operations():
            if node.type in ("While", "StatelessWhile"):
                body = graph._get_function(node.get_attr("body").name).graph
                yield body
                yield from loops(body)

    tensors = [tf.constant(array) for array in arrays]
    return list(loops(tf.function(function).get_concrete_function(*tensors).graph))


def _gradient_by_tensorflow(loss):
    import tensorflow as tf

    def gradient(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = loss(*tensors)
        return tape.gradient(value, tensors)

    return gradient


def _kept_by_tensorflow(loss, *arrays):
    kept = set()
    for body in _tensorflow_loops(_gradient_by_tensorflow(loss), *arrays):
        pairs = zip(body.inputs, map(_source, body.outputs), strict=True)
        unchanged = {given.ref() for given, returned in pairs if given is returned}
        for node in body.get_operations():
            if node.type == "TensorListPushBack":
                pushed = _source(node.inputs[1])
                if pushed.ref() not in unchanged:
                    kept.add(_shape(pushed))
    return kept


def _source(tensor):
    """What a tensor is the very same as."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _shape(tensor):
    return None if tensor.shape.rank is None else tuple(tensor.shape)


def _kept_by_torch(loss, *arrays):
    """A shape is kept by each step if more steps keep more tensors of it."""
    steps = arrays[0].shape[1]
    counts = [
        _storages_of_torch(loss, arrays[0][:, :count], *arrays[1:])
        for count in (steps - 1, steps)
    ]
    return {shape for shape in counts[1] if counts[1][shape] > counts[0].get(shape, 0)}


def _storages_of_torch(loss, *arrays):
    """How many different tensors of each shape are saved for the gradient."""
    import torch

    storages = {}

    def save(tensor):
        place = tensor.untyped_storage().data_ptr()
        storages.setdefault(tuple(tensor.shape), set()).add(place)
        return tensor

    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    with torch.autograd.graph.saved_tensors_hooks(save, lambda saved: saved):
        # Held, so that no place in memory is used twice.
        value = loss(*tensors)
    value.backward()
    assert all(tensor.grad is not None for tensor in tensors)
    return {shape: len(places) for shape, places in storages.items()}


def _made_by_torch(function, shape):
    import torch

    names = set()

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and tuple(result.shape) == shape:
                names.add(function.__name__)
            return result

    with Watch():
        function()
    return names
