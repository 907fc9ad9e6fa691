"""What all layers with weights do alike: check, keep and write their options."""

import numbers

import keras

_MODULES = {
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}


def check_count(name, value):
    """Raises `ValueError` unless the argument `name` is a positive integer."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or value < 1:
        raise ValueError(
            f"`{name}` must be a positive integer. Received: {name}={value!r}. "
            "Pass 1 or more."
        )


def check_rate(name, value):
    """Raises `ValueError` unless the argument `name` is a rate of dropout."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value < 1.0:
        raise ValueError(
            f"`{name}` is the share of values to drop and must lie in [0, 1). "
            f"Received: {name}={value!r}. Pass 0.0 to drop nothing."
        )


def keep_options(layer, **roles):
    """Sets the attributes `ROLE_initializer`, `ROLE_regularizer`, `ROLE_constraint`.

    Args:
        layer: the layer.
        **roles: for each role of weights the three options, as Keras takes them: an
            object, a name, a config, or `None`.
    """
    for role, options in roles.items():
        for (kind, module), option in zip(_MODULES.items(), options, strict=True):
            setattr(layer, f"{role}_{kind}", module.get(option))


def add_weight(layer, role, name, shape, autocast=True):
    """Adds a weight with the options of a role that `keep_options` set."""
    options = {kind: getattr(layer, f"{role}_{kind}") for kind in _MODULES}
    return layer.add_weight(name=name, shape=shape, autocast=autocast, **options)


def options_config(layer, *roles):
    """The options of the roles, for `get_config`.

    Args:
        layer: the layer.
        *roles: the roles that `keep_options` was given.

    Returns:
        Dictionary from the names of the options to what can be serialised.
    """
    return {
        f"{role}_{kind}": module.serialize(getattr(layer, f"{role}_{kind}"))
        for role in roles
        for kind, module in _MODULES.items()
    }


def check_fused(fused, can_fuse):
    """Raises `ValueError` unless `fused` is `"auto"` or a boolean that can be had."""
    if fused not in ("auto", True, False):
        raise ValueError(
            f"`fused` must be 'auto', True or False. Received: fused={fused!r}"
        )
    if fused is True and not can_fuse:
        raise ValueError(
            "`fused=True` needs tanh and sigmoid as activations, "
            "reset_after=False, and no class of your own for a cell or its "
            "attention. Pass fused='auto' to fuse where it can be done."
        )
