"""Gradients on every backend, and their check against finite differences."""

import keras
import numpy as np
import pytest
from keras import ops

# `keras.ops` demotes float64 to float32 on JAX and torch, whatever their settings.
needs_float64 = pytest.mark.tf_only


def gradients(function, variables):
    """The gradients of `function()`, a scalar, with respect to Keras variables."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            value = function()
        found = tape.gradient(value, [variable.value for variable in variables])
        found = [tf.convert_to_tensor(gradient) for gradient in found]
    elif backend == "jax":
        import jax

        def of_values(values):
            with keras.StatelessScope(state_mapping=zip(variables, values)):
                return function()

        found = jax.jit(jax.grad(of_values))([variable.value for variable in variables])
    else:
        import torch

        found = torch.autograd.grad(
            function(), [variable.value for variable in variables]
        )
    return [ops.convert_to_numpy(gradient) for gradient in found]


def assert_gradients_match_differences(function, variables, step=1e-5, atol=1e-8):
    """Compares each variable's gradient along a random direction, in float64."""
    rng = np.random.default_rng(23)
    assert variables
    found = gradients(function, variables)
    for variable, gradient in zip(variables, found, strict=True):
        direction = rng.normal(size=variable.shape)
        middle = ops.convert_to_numpy(variable).copy()
        values = []
        for sign in (1.0, -1.0):
            variable.assign(middle + sign * step * direction)
            values.append(ops.convert_to_numpy(function()))
        variable.assign(middle)
        np.testing.assert_allclose(
            np.sum(gradient * direction),
            (values[0] - values[1]) / (2.0 * step),
            rtol=1e-6,
            atol=atol,
            err_msg=variable.path,
        )
