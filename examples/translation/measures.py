"""What the HTTP service counts and measures, for Prometheus."""

import contextlib
import time

from fastapi import Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    exposition,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_HEADERS = {
    # Nothing from another host, and no script or style inside of the page.
    "content-security-policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class Measures:
    """The metrics of one service, in a registry of its own."""

    def __init__(self):
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "translation_requests",
            "HTTP requests answered.",
            ["path", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "translation_request_seconds",
            "From the head of a request to the end of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.running = Gauge(
            "translation_requests_running",
            "HTTP requests that have no answer yet.",
            registry=registry,
        )
        self.waiting = Gauge(
            "translation_texts_waiting", "Texts in the queue.", registry=registry
        )
        self.texts = Counter(
            "translation_texts", "Texts translated.", registry=registry
        )
        self.dropped = Counter(
            "translation_texts_dropped",
            "Texts that nobody waited for any more, and that were not translated.",
            registry=registry,
        )
        self.timeouts = Counter(
            "translation_timeouts", "Requests that took too long.", registry=registry
        )
        self.failures = Counter(
            "translation_batches_failed", "Batches with an error.", registry=registry
        )
        self.batch_texts = Histogram(
            "translation_batch_texts",
            "Texts in a batch.",
            buckets=_TEXTS,
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "translation_batch_seconds",
            "Time that a batch took.",
            buckets=_SECONDS,
            registry=registry,
        )

    @contextlib.contextmanager
    def batch(self, num_texts):
        """Measures a batch of so many texts."""
        self.batch_texts.observe(num_texts)
        try:
            with self.batch_seconds.time():
                yield
        except Exception:
            self.failures.inc()
            raise
        self.texts.inc(num_texts)

    def response(self):
        content = exposition.generate_latest(self._registry)
        return Response(content, media_type=exposition.CONTENT_TYPE_LATEST)


class Watched:
    """Counts the requests to an application, and adds headers to its answers.

    Args:
        app: ASGI application.
        measures: `Measures`.
        paths: the addresses that are counted apart; all others are one, so that
            clients cannot make up new ones.
    """

    def __init__(self, app, measures, paths):
        self._app, self._measures, self._paths = app, measures, paths

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._paths else "other"
        # Of a failure that nothing else answers.
        status = 500
        started = time.perf_counter()

        async def send_on(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        with self._measures.running.track_inprogress():
            try:
                await self._app(scope, receive, send_on)
            finally:
                elapsed = time.perf_counter() - started
                self._measures.requests.labels(path, status).inc()
                self._measures.seconds.labels(path).observe(elapsed)
