"""The application of the HTTP service, with a model that writes in capitals."""

import asyncio
import json
import re
import threading

import pytest
from serving import LIMIT_S, Fake, imported

pytestmark = pytest.mark.tf_only


@pytest.fixture(scope="module")
def example():
    with imported("service") as modules:
        yield modules


class Client:
    """What a scenario asks the application with, without a socket."""

    def __init__(self, service, app, http_client):
        self.service, self.app, self.http = service, app, http_client

    def set(self, **limits):
        self.service.limits = self.service.limits._replace(**limits)

    async def until(self, condition):
        for _ in range(LIMIT_S * 100):
            if condition():
                return
            await asyncio.sleep(0.01)
        raise TimeoutError

    async def translate(self, *texts, **options):
        return await self.http.post("/translate", json={"texts": texts, **options})

    async def metric(self, name):
        page = (await self.http.get("/metrics")).text
        found = re.findall(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[0]) if found else 0.0


@pytest.fixture
def play(example):
    """Runs a scenario with a client of a service."""
    import httpx

    def run(scenario, load=Fake, ready=True, **limits):
        service = example.service.Service(load, example.service.Limits(**limits))
        app = example.service.make_app(service)

        async def main():
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(transport=transport, base_url="http://x") as found,
            ):
                client = Client(service, app, found)
                if ready:
                    await client.until(lambda: service.state == "ready")
                return await scenario(client)

        return asyncio.run(main())

    return run


def test_an_answer_has_the_texts_in_order_and_the_form_it_declares(play, example):
    async def scenario(client):
        answer = await client.translate("a", "", "b", nbest=2, alignments=True)
        assert answer.status_code == 200
        example.service.Translations.model_validate_json(answer.content, strict=True)
        assert (await client.translate()).json() == {"translations": []}
        return [one["text"] for one in answer.json()["translations"]]

    assert play(scenario) == ["A", "", "B"]


@pytest.mark.parametrize(
    ("body", "status", "limit"),
    [
        ({"texts": ["a"] * 4}, 413, {"max_texts": 3}),
        ({"texts": ["a", "b" * 12]}, 413, {"max_characters": 11}),
        ({"texts": ["a"], "nbest": 4}, 422, {"nbest": 3}),
        ({"texts": ["a"], "what": "x" * 200}, 413, {"max_body_bytes": 100}),
    ],
)
def test_an_error_names_the_limit(play, body, status, limit):
    async def scenario(client):
        answer = await client.http.post("/translate", json=body)
        assert answer.status_code == status
        assert answer.json()["error"]["limit"] == limit
        fits = await client.translate("b" * 11, "b", "b", nbest=3)
        assert fits.status_code == 200

    play(scenario, max_texts=3, max_characters=11, max_body_bytes=100)


def test_no_more_of_a_body_is_read_than_the_limit_allows(play):
    sent = []

    async def chunks():
        for _ in range(1000):
            sent.append(10)
            yield b" " * 10

    async def scenario(client):
        headers = {"content-type": "application/json"}
        answer = await client.http.post("/translate", content=chunks(), headers=headers)
        assert answer.status_code == 413
        assert answer.json()["error"]["limit"] == {"max_body_bytes": 100}
        assert sum(sent) <= 120

    play(scenario, max_body_bytes=100)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"texts": "a"}',
        b'{"texts": [1]}',
        b'{"texts": [NaN]}',
        b'{"texts": [null]}',
        b'{"texts": ["\\ud800"]}',
        b'{"texts": ["\xff"]}',
        b'{"texts": ["a\x00"]}',
        b'{"texts": ["a"], "alignments": 1}',
        b'{"texts": ["a"], "nbest": 0}',
        b'{"texts": ["a"], "nbest": "1"}',
        b'{"texts": ["a"], "beams": 5}',
        b'{"texts": ["a"], "%s": 5}' % (b"a" * 10_000),
        b"[" * 100_000,
        b'{"texts": ["a"], "nbest": ' + b"1" * 5000 + b"}",
    ],
)
def test_what_is_no_query_gets_an_explanation(play, body):
    async def scenario(client):
        headers = {"content-type": "application/json; charset=utf-8"}
        answer = await client.http.post("/translate", content=body, headers=headers)
        assert answer.status_code == 422
        assert 0 < len(answer.json()["error"]["message"]) < 300
        plain = await client.http.post("/translate", content=body)
        assert plain.status_code == 415

    play(scenario)


def test_a_full_queue_is_an_error_for_whoever_comes_last(play):
    model = Fake()

    async def scenario(client):
        model.gate.clear()
        first = asyncio.create_task(client.translate("a"))
        await asyncio.to_thread(model.begun.wait, LIMIT_S)
        second = asyncio.create_task(client.translate("b", "c"))
        await client.until(lambda: client.service.batcher.num_waiting == 2)
        refused = await client.translate("d")
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["limit"] == {"max_queue": 2}
        model.gate.set()
        assert [(await one).status_code for one in (first, second)] == [200, 200]

    play(scenario, load=lambda: model, max_queue=2, max_texts=2, timeout_s=LIMIT_S)


def test_what_took_too_long_is_given_up_and_not_computed(play):
    model = Fake()

    async def scenario(client):
        model.gate.clear()
        first = asyncio.create_task(client.translate("a"))
        await asyncio.to_thread(model.begun.wait, LIMIT_S)
        client.set(timeout_s=0.05)
        answer = await client.translate("b", "c")
        assert answer.status_code == 504
        assert answer.json()["error"]["limit"] == {"timeout_s": 0.05}
        assert client.service.batcher.num_waiting == 0
        client.set(timeout_s=LIMIT_S)
        model.gate.set()
        assert (await first).status_code == 200
        assert (await client.translate("d")).status_code == 200
        assert await client.metric("translation_timeouts_total") == 1
        assert await client.metric("translation_texts_dropped_total") == 2

    play(scenario, load=lambda: model, timeout_s=LIMIT_S)
    assert model.batches == [["a"], ["d"]]


def test_what_a_client_who_left_had_asked_for_is_not_computed(play):
    model = Fake()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/translate",
        "raw_path": b"/translate",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json")],
    }

    async def scenario(client):
        model.gate.clear()
        first = asyncio.create_task(client.translate("a"))
        await asyncio.to_thread(model.begun.wait, LIMIT_S)
        messages = asyncio.Queue()
        body = json.dumps({"texts": ["b"]}).encode()
        messages.put_nowait({"type": "http.request", "body": body})
        sent = []

        async def send(message):
            sent.append(message)

        second = asyncio.create_task(client.app({**scope}, messages.get, send))
        await client.until(lambda: client.service.batcher.num_waiting == 1)
        messages.put_nowait({"type": "http.disconnect"})
        await second
        assert sent[0]["status"] == 499 and client.service.batcher.num_waiting == 0
        model.gate.set()
        assert (await first).status_code == 200

    play(scenario, load=lambda: model, timeout_s=LIMIT_S)
    assert model.batches == [["a"]]


def test_a_text_that_fails_fails_its_own_request_only(play):
    model = Fake()

    async def scenario(client):
        model.gate.clear()
        tasks = [asyncio.create_task(client.translate("a"))]
        await asyncio.to_thread(model.begun.wait, LIMIT_S)
        for texts in (["b", "c"], ["d", "poison"], ["e"]):
            tasks.append(asyncio.create_task(client.translate(*texts)))
        await client.until(lambda: client.service.batcher.num_waiting == 5)
        model.gate.set()
        answers = [await task for task in tasks]
        assert [answer.status_code for answer in answers] == [200, 200, 500, 200]
        assert "texts[1]" in answers[2].json()["error"]["message"]

    play(scenario, load=lambda: model, timeout_s=LIMIT_S)
    assert sorted(model.batches[1]) == ["b", "c", "d", "e", "poison"]


def test_it_is_alive_before_it_is_ready(play):
    gate = threading.Event()

    def load():
        assert gate.wait(LIMIT_S)
        return Fake()

    async def scenario(client):
        async def states():
            answers = [await client.http.get(path) for path in ("/health", "/ready")]
            answers.append(await client.translate("a"))
            return [answer.status_code for answer in answers]

        assert await states() == [200, 503, 503]
        gate.set()
        await client.until(lambda: client.service.state == "ready")
        assert await states() == [200, 200, 200]
        ready = (await client.http.get("/ready")).json()
        assert ready["nbest"] == 3 and ready["max_characters"] == 2000
        client.service.drain()
        # What comes in on an open connection is still done.
        assert await states() == [200, 503, 200]
        client.service.close(LIMIT_S)
        assert await states() == [200, 503, 503]

    play(scenario, load=load, ready=False)


@pytest.mark.parametrize(
    ("load", "state"), [(Fake, "ready"), (lambda: 1 / 0, "failed")]
)
def test_it_says_when_it_is_ready_or_has_failed(example, load, state):
    states, told = [], threading.Event()

    def loaded():
        states.append(service.state)
        told.set()

    service = example.service.Service(load, example.service.Limits(), loaded)
    service.start()
    assert told.wait(LIMIT_S) and states == [state]
    assert isinstance(service.error, ZeroDivisionError) == (state == "failed")
    service.close(LIMIT_S)


def test_what_hangs_is_no_longer_healthy(play):
    model = Fake()

    async def scenario(client):
        model.gate.clear()
        first = asyncio.create_task(client.translate("a"))
        await asyncio.to_thread(model.begun.wait, LIMIT_S)
        assert (await client.http.get("/health")).status_code == 200
        client.set(timeout_s=1e-9)
        assert (await client.http.get("/health")).status_code == 503
        model.gate.set()
        assert (await first).status_code == 200
        await client.until(lambda: not client.service.hangs)
        assert (await client.http.get("/health")).status_code == 200

    play(scenario, load=lambda: model, timeout_s=LIMIT_S)


def test_the_metrics_count(play):
    async def scenario(client):
        await client.translate("a", "b")
        await client.translate("c")
        await client.http.get("/nowhere")
        await client.http.get("/%F0%9F%99%82")
        counted = 'translation_requests_total{path="%s",status="%s"}'
        assert await client.metric(counted % ("/translate", 200)) == 2
        assert await client.metric(counted % ("other", 404)) == 2
        assert await client.metric("translation_texts_total") == 3
        assert await client.metric("translation_batch_texts_sum") == 3
        assert await client.metric("translation_texts_waiting") == 0
        seconds = 'translation_request_seconds_count{path="/translate"}'
        assert await client.metric(seconds) == 2

    # Twice: each service has a registry of its own.
    play(scenario)
    play(scenario)


def test_the_page_asks_no_other_host_and_runs_nothing_inline(play):
    async def scenario(client):
        page = await client.http.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"(?:href|src)=\"(?:\w+:)?//|style=|\son\w+=", page.text)
        files = re.findall(r'(?:href|src)="([\w.]+)"', page.text)
        assert sorted(files) == [
            "alignment.css",
            "alignment.js",
            "serve.css",
            "serve.js",
        ]
        for name in files:
            assert (await client.http.get(f"/{name}")).status_code == 200
        for path in ("/docs", "/redoc"):
            assert (await client.http.get(path)).status_code == 404
        schema = (await client.http.get("/openapi.json")).text
        assert '"maxItems":64' in schema and '"maxLength":2000' in schema

    play(scenario)
