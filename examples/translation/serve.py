"""Serves a translator that train.py saved or exported over HTTP, with a page to try it.

python examples/translation/serve.py runs/translation/saved_model
curl -H "Content-Type: application/json" -d '{"texts": ["The dog sees a cat."]}' \\
  http://127.0.0.1:8000/translate
"""

import argparse
import contextlib
import math
import os
import pathlib
import signal
import socket
import sys
import time
import traceback

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402
from arguments import (  # noqa: E402
    add_search,
    duration,
    port,
    positive,
    rate,
    search_settings,
)
from loading import load  # noqa: E402

from keras_bahdanau.tf import Translation, surface  # noqa: E402

try:
    import uvicorn
    from service import Limits, Service, make_app
except ImportError as error:
    raise SystemExit(
        f"serve.py needs the extra `serve`, which does not import here: {error}. "
        'Install it with `pip install -e ".[serve]"`.'
    ) from error

DEFAULTS = Limits()
SIGNALS = signal.SIGINT, signal.SIGTERM


class Model:
    """A translator as the service asks for it, warmed up.

    Args:
        folder: what `load` reads.
        **settings: see `load`.

    Call arguments:
        jobs: list of `Job`.

    Returns:
        List of dictionaries, as `Translated` in service.py says.

    Raises:
        ValueError: if `load` does, or if the scores are no numbers.
    """

    def __init__(self, folder, **settings):
        self._translator = load(folder, **settings)
        # The first call is slow.
        outputs = self._translator.serve_nbest(tf.constant(["A b c.", "D."]))
        scores = outputs["scores"].numpy()
        self.num_results = scores.shape[1]
        if not math.isfinite(scores[0, 0]):
            raise ValueError(
                "A translator must give finite scores. Received that of "
                f"{folder}, which gives {scores[0, 0]}. Train it anew."
            )

    def __call__(self, jobs):
        texts = [job.text for job in jobs]
        found = self._translator.translate_nbest(texts, batch_size=len(texts))
        bare = _surfaces(found)
        return [_described(job, ranked, bare) for job, ranked in zip(jobs, found)]


def _surfaces(found):
    """What a reader sees of each token."""
    tokens = {
        token
        for ranked in found
        for one in ranked
        for token in (*one.source_tokens, *one.target_tokens)
    }
    tokens = sorted(tokens)
    bare = surface(tf.constant(tokens, tf.string)).numpy()
    return {token: text.decode() for token, text in zip(tokens, bare)}


def _described(job, ranked, bare):
    if not ranked:
        # The search found nothing with a score.
        ranked = [Translation("", math.nan, [], [], None)]
    best, *others = [_candidate(one, job.alignments, bare) for one in ranked]
    source = {"source_tokens": [bare[token] for token in ranked[0].source_tokens]}
    if job.nbest > 1:
        return {**source, **best, "alternatives": others[: job.nbest - 1]}
    return {**source, **best}


def _candidate(one, alignments, bare):
    described = {
        "text": one.text,
        "score": one.score if math.isfinite(one.score) else None,
        "target_tokens": [bare[token] for token in one.target_tokens],
    }
    if alignments:
        described["attention_weights"] = _weights(one)
    return described


def _weights(one):
    """The weights between words; None where the model gave none for each."""
    shape = len(one.target_tokens), len(one.source_tokens)
    if one.attention_weights is None:
        return None
    weights = one.attention_weights[: shape[0], : shape[1]]
    if weights.shape != shape:
        return None
    return [[round(weight, 4) for weight in row] for row in weights.tolist()]


class Server(uvicorn.Server):
    """A server that says when it begins to end, and that a signal does not kill."""

    def __init__(self, config, service):
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets=None):
        self._service.drain()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self):
        # The parent would raise them again at the end, and the exit code be theirs.
        for one in SIGNALS:
            signal.signal(one, self.handle_exit)
        yield


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("translator", type=pathlib.Path, help="folder")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for everybody")
    parser.add_argument("--port", type=port, default=8000, help="0 for a free one")
    parser.add_argument(
        "--nbest",
        type=positive,
        metavar="N",
        help="translations that may be asked for of each text; as the options of the "
        "search, for what was saved, not exported",
    )
    for name, kind, text in (
        ("max-batch", positive, "texts that are translated together"),
        ("max-wait-ms", duration, "how long a text waits for others"),
        ("max-batch-characters", positive, "texts in a batch times the longest"),
        ("max-queue", positive, "texts that wait"),
        ("max-texts", positive, "texts of a request"),
        ("max-characters", positive, "characters of a text"),
        ("max-body-bytes", positive, "bytes of a request"),
        ("timeout-s", rate, "seconds that a request may take"),
    ):
        default = getattr(DEFAULTS, name.replace("-", "_"))
        described = {"metavar": "N", "help": f"{text} ({default})"}
        parser.add_argument(f"--{name}", type=kind, default=default, **described)
    parser.add_argument(
        "--max-connections",
        type=positive,
        default=512,
        metavar="N",
        help="clients at a time (512)",
    )
    add_search(parser)
    args = parser.parse_args(arguments)
    if args.max_texts > args.max_queue:
        parser.error("argument --max-queue: must be --max-texts or more")
    return args


def bound_socket(args):
    """A socket at the address, so that it is known to be free before the loading."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            args.host, args.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address, family=family)
    except OSError as error:
        raise SystemExit(
            f"Cannot listen on {args.host} port {args.port}: {error.strerror}. Choose "
            "another --host or --port."
        ) from error


def make_server(args):
    limits = Limits(**{name: getattr(args, name) for name in Limits._fields})
    settings = search_settings(args)
    started = time.monotonic()

    def load():
        return Model(args.translator, **settings)

    def loaded():
        if service.error is not None:
            server.should_exit = True
        else:
            print(f"Ready after {time.monotonic() - started:.1f} s", flush=True)

    service = Service(load, limits, loaded)
    config = uvicorn.Config(
        make_app(service),
        lifespan="on",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=args.max_connections,
        # To read what was sent, and to answer it; and a little more.
        timeout_graceful_shutdown=math.ceil(2 * args.timeout_s) + 1,
    )
    server = Server(config, service)
    return server, service


def main():
    args = parse_arguments()
    for one in SIGNALS:
        # Until the server heeds it: there is nothing to finish.
        signal.signal(one, lambda *caught: os._exit(0))
    listener = bound_socket(args)
    host, number = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    server, service = make_server(args)
    print(f"{args.translator} on http://{host}:{number}, loading", flush=True)
    server.run(sockets=[listener])
    if isinstance(service.error, ValueError | ImportError):
        print(service.error, file=sys.stderr)
    elif service.error is not None:
        traceback.print_exception(service.error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Now, for a thread inside TensorFlow, loading or late, must not hold it up.
    os._exit(service.error is not None)


if __name__ == "__main__":
    main()
