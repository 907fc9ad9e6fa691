"""The HTTP service of serve.py: what it answers, what it refuses, what it counts.

Nothing here knows TensorFlow: `Service` is given a function that loads a model, and a
model is a function from a list of `Job` to a list of dictionaries, of the form of
`Translated`.
"""

import asyncio
import contextlib
import http
import json
import logging
import pathlib
import threading
from typing import NamedTuple

import pydantic
from batcher import Closed, MicroBatcher, QueueFull
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from measures import Measures, Watched
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from keras_bahdanau.pages import alignment_script, alignment_style

FOLDER = pathlib.Path(__file__).resolve().parent
# A batch that has taken so many times the time-out hangs.
HANGS = 10
_log = logging.getLogger("uvicorn.error")


class Limits(NamedTuple):
    """What the service takes at most; the options of serve.py."""

    max_batch: int = 64
    max_wait_ms: float = 5.0
    max_batch_characters: int = 4000
    max_queue: int = 1024
    max_texts: int = 64
    max_characters: int = 2000
    max_body_bytes: int = 2**20
    timeout_s: float = 10.0


class Job(NamedTuple):
    """A text to translate, and what its sender wants to know."""

    text: str
    nbest: int = 1
    alignments: bool = False


class Refused(Exception):
    """A request that gets an error for an answer, as JSON."""

    def __init__(self, status, code, message, **limit):
        super().__init__(message)
        self.status = status
        self.content = {"code": code, "message": message}
        if limit:
            self.content["limit"] = limit


def _left():
    # For the metrics; nobody is there to read it.
    return Refused(499, "disconnected", "The client has left.")


class Candidate(pydantic.BaseModel):
    """One translation. A row of weights for each target token, a column for each
    source token; what a row lacks to 1 lies on the end of the source. null: none."""

    text: str
    score: float | None
    target_tokens: list[str]
    attention_weights: list[list[float]] | None = None


class Translated(Candidate):
    """The best translation of a text, then the others that were asked for."""

    source_tokens: list[str]
    alternatives: list[Candidate] | None = None


class Translations(pydantic.BaseModel):
    translations: list[Translated]


def _query_model(limits):
    """What `POST /translate` takes; its schema tells the limits."""
    text = pydantic.constr(max_length=limits.max_characters)
    return pydantic.create_model(
        "Query",
        __config__=pydantic.ConfigDict(extra="forbid", strict=True),
        texts=(list[text], pydantic.Field(max_length=limits.max_texts)),
        alignments=(bool, False),
        nbest=(int, pydantic.Field(default=1, ge=1)),
    )


class Service:
    """Loads a model beside the running server, and translates with it.

    Args:
        load: function that returns the model. It has `num_results`, the number of
            translations that it can give of a text.
        limits: `Limits`.
        loaded: function to call when it is ready, or `error` is what `load` raised.
    """

    def __init__(self, load, limits, loaded=lambda: None):
        self.limits, self.measures = limits, Measures()
        self.query_model = _query_model(limits)
        self.error = self.model = self.batcher = None
        self._draining = False
        self._load, self._loaded = load, loaded
        self._loading = threading.Thread(target=self._prepare, daemon=True)

    def start(self):
        self._loading.start()

    def _prepare(self):
        try:
            self.model = self._load()
            self.batcher = self._batcher()
        except BaseException as error:
            self.error = error
        self._loaded()

    def _batcher(self):
        limits = self.limits
        batcher = MicroBatcher(
            self._batch,
            max_batch=limits.max_batch,
            max_wait_s=limits.max_wait_ms / 1000,
            max_queue=limits.max_queue,
            max_padded=limits.max_batch_characters,
            length=lambda job: len(job.text),
            dropped=self.measures.dropped.inc,
        )
        self.measures.waiting.set_function(lambda: batcher.num_waiting)
        return batcher

    @property
    def state(self):
        if self.error is not None:
            return "failed"
        if self._draining:
            return "draining"
        return "loading" if self.batcher is None else "ready"

    @property
    def hangs(self):
        """Whether what computes has died, or will not come back."""
        if self.batcher is None or self._draining:
            return False
        late = self.batcher.busy_s > HANGS * self.limits.timeout_s
        return late or not self.batcher.is_alive

    def drain(self):
        """Is no longer ready, and does what was accepted as soon as it can."""
        self._draining = True
        if self.batcher is not None:
            self.batcher.hurry()

    def close(self, timeout_s=1.0):
        """Ends the threads; returns whether they have ended."""
        self.drain()
        if self.batcher is None:
            return not self._loading.is_alive()
        return self.batcher.close(timeout_s)

    def _batch(self, jobs):
        """What the thread of the batcher computes: JSON, to spare the event loop."""
        with self.measures.batch(len(jobs)):
            found = self.model(jobs)
        return [
            json.dumps(one, allow_nan=False, separators=(",", ":")).encode()
            for one in found
        ]

    async def translate(self, request):
        """Answers one request with JSON."""
        query = self._query(await self._body(request))
        if self.batcher is None:
            raise Refused(503, "not_ready", "The model is still loading.")
        if query.nbest > self.model.num_results:
            raise Refused(
                422,
                "too_many_results",
                f"This model gives {self.model.num_results} of each text at most; "
                "the number was settled when it was exported.",
                nbest=self.model.num_results,
            )
        jobs = [Job(text, query.nbest, query.alignments) for text in query.texts]
        parts = await self._results(request, jobs)
        content = b'{"translations":[' + b",".join(parts) + b"]}"
        return Response(content, media_type="application/json")

    async def _body(self, request):
        """The body, of which no more is read than the limit allows."""
        most = self.limits.max_body_bytes
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(
                415, "not_json", "The header Content-Type must be application/json."
            )
        # Before any of it is read, where it says its length.
        _check_size(int(request.headers.get("content-length", 0)), most)
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    _check_size(len(body), most)
        except ClientDisconnect as error:
            raise _left() from error
        except TimeoutError as error:
            most = self.limits.timeout_s
            message = f"The body must arrive within {most:g} s."
            raise Refused(408, "body_too_slow", message, timeout_s=most) from error
        return bytes(body)

    def _query(self, body):
        try:
            return self.query_model.model_validate_json(body)
        except pydantic.ValidationError as error:
            raise self._mistake(error) from error

    def _mistake(self, error):
        """What to answer to JSON that does not fit: its first mistake."""
        first = error.errors(include_url=False, include_input=False)[0]
        place = first["loc"]
        if first["type"] == "too_long":
            most = self.limits.max_texts
            text = f"A request must have {most} texts at most."
            return Refused(413, "too_many_texts", text, max_texts=most)
        if first["type"] == "string_too_long":
            most = self.limits.max_characters
            text = f"A text must have {most} characters at most; texts[{place[1]}] has "
            text += "more."
            return Refused(413, "text_too_long", text, max_characters=most)
        where = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in place
        )
        # A name can be as long as the body.
        where = f"{where[1:100]}: " if where else ""
        return Refused(422, "invalid", f"{where}{first['msg']}.")

    async def _results(self, request, jobs):
        """The JSON of each job; what is not awaited any more is not computed."""
        try:
            futures = self.batcher.submit(jobs)
        except QueueFull as error:
            most = self.limits.max_queue
            message = f"{most} texts may wait, and there is no room for these now."
            raise Refused(503, "queue_full", message, max_queue=most) from error
        except Closed as error:
            raise Refused(503, "draining", "The service is shutting down.") from error
        results = asyncio.gather(
            *map(asyncio.wrap_future, futures), return_exceptions=True
        )
        left = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait(
                [results, left],
                timeout=self.limits.timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            return self._checked(results, left)
        finally:
            left.cancel()
            # Without effect on those that are done or being done.
            for future in futures:
                future.cancel()

    def _checked(self, results, left):
        if not results.done():
            if left.done():
                raise _left()
            self.measures.timeouts.inc()
            most = self.limits.timeout_s
            message = f"This took longer than {most:g} s."
            raise Refused(504, "timeout", message, timeout_s=most)
        for index, result in enumerate(results.result()):
            if isinstance(result, BaseException):
                _log.error("A text could not be translated.", exc_info=result)
                message = f"texts[{index}] could not be translated."
                raise Refused(500, "failed", message)
        return results.result()


def _check_size(size, most):
    if size > most:
        message = f"The body must have {most} bytes at most."
        raise Refused(413, "body_too_large", message, max_body_bytes=most)


async def _disconnected(request):
    while (await request.receive())["type"] != "http.disconnect":
        pass


def make_app(service):
    """The application: its addresses, its errors, and what watches over both."""

    @contextlib.asynccontextmanager
    async def lifespan(app):
        service.start()
        yield
        service.close()

    app = FastAPI(
        title="RNNsearch",
        description="Translates, and tells what was looked at.",
        lifespan=lifespan,
        # Their pages load scripts from another host.
        docs_url=None,
        redoc_url=None,
        telemetry={"auto_configure": False},
    )
    _add_addresses(app, service)
    _add_page(app)
    _add_errors(app)
    paths = frozenset(route.path for route in app.routes)
    app.add_middleware(Watched, measures=service.measures, paths=paths)
    return app


def _add_addresses(app, service):
    schema = service.query_model.model_json_schema()
    body = {"required": True, "content": {"application/json": {"schema": schema}}}

    @app.post(
        "/translate",
        responses={200: {"model": Translations}},
        openapi_extra={"requestBody": body},
    )
    async def translate(request: Request):
        return await service.translate(request)

    @app.get("/health")
    async def health():
        """Whether the process is of use; if not, it should be started anew."""
        if service.hangs:
            return JSONResponse({"status": "hangs"}, 503)
        return {"status": "alive"}

    @app.get("/ready")
    async def ready():
        """Whether to send requests; and what they may ask for."""
        if service.state != "ready":
            return JSONResponse({"status": service.state}, 503)
        limits = service.limits
        return {
            "status": "ready",
            "nbest": service.model.num_results,
            "max_texts": limits.max_texts,
            "max_characters": limits.max_characters,
        }

    @app.get("/metrics")
    async def metrics():
        """Counts and times for Prometheus."""
        return service.measures.response()


def _add_page(app):
    files = {
        "/": ("text/html", _read("serve.html")),
        "/serve.js": ("text/javascript", _read("serve.js")),
        "/serve.css": ("text/css", _read("serve.css")),
        "/alignment.js": ("text/javascript", alignment_script()),
        "/alignment.css": ("text/css", alignment_style()),
    }
    for path, (kind, text) in files.items():
        app.router.add_route(path, _file(text, kind))


def _file(text, kind):
    async def answer(request):
        return Response(text, media_type=kind)

    return answer


def _read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def _add_errors(app):
    @app.exception_handler(Refused)
    async def refused(request, error):
        headers = {"Retry-After": "1"} if error.status == 503 else None
        return JSONResponse({"error": error.content}, error.status, headers)

    @app.exception_handler(HTTPException)
    async def unknown(request, error):
        code = http.HTTPStatus(error.status_code).name.lower()
        content = {"code": code, "message": f"{error.detail}."}
        return JSONResponse({"error": content}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(request, error):
        content = {"code": "failed", "message": "Something went wrong here."}
        return JSONResponse({"error": content}, 500)
