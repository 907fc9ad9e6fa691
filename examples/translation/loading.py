"""How the programs load what train.py saved or exported."""

from keras_bahdanau.tf import Translator, load_translator


def load(path, **settings):
    """A translator, searching as the settings say.

    Args:
        path: as for `load_translator`.
        **settings: arguments of `Translator` in place of those that were saved.

    Raises:
        ValueError: as `load_translator`, and as `searching`.
    """
    translator = load_translator(path)
    if not settings:
        return translator
    if not isinstance(translator, Translator):
        raise ValueError(
            f"{path} was exported, and its search is settled. Received options of the "
            f"search: {', '.join(sorted(settings))}. Export it anew with them, or take "
            "the folder `translator` that train.py saved."
        )
    return searching(translator, **settings)


def load_saved(path, int8=False):
    """A translator that was saved, not exported, which can do more than translate.

    Args:
        path: as for `load_translator`.
        int8: whether to turn its largest weights into 8-bit integers.
    """
    translator = load_translator(path)
    if not isinstance(translator, Translator):
        raise ValueError(
            f"{path} was exported, and can only translate. This program needs the "
            "folder `translator` that train.py saved."
        )
    if int8:
        if not hasattr(translator.model, "quantized"):
            raise ValueError(
                f"{path} is a {type(translator.model).__name__}, which has no weights "
                "of 8 bits. Quantise the models of which it is made."
            )
        translator.model.quantize("int8")
    return translator


def searching(translator, **settings):
    """The same translator with some of its settings replaced.

    Raises:
        ValueError: if they do not fit each other; it says nothing of the files.
    """
    settings = {**translator.settings._asdict(), **settings}
    codecs = translator.source_codec, translator.target_codec
    return Translator(translator.model, *codecs, **settings)
