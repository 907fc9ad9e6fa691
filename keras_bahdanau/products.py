"""Products with a kernel, as one matrix product each."""

from keras import ops


def project(inputs, kernel):
    """Multiplies the last axis with a kernel, all leading axes as one.

    The gradient of the kernel is then one product of two matrices on every backend.
    With more axes JAX transposes first, which takes longer than the product itself.

    Args:
        inputs: tensor `(..., D)`.
        kernel: tensor `(D, U)`.

    Returns:
        Tensor `(..., U)`.
    """
    if len(inputs.shape) == 2:
        return ops.matmul(inputs, kernel)
    leading = ops.shape(inputs)[:-1]
    rows = ops.reshape(inputs, (-1, kernel.shape[0]))
    return ops.reshape(ops.matmul(rows, kernel), (*leading, kernel.shape[-1]))
