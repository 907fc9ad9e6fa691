"""serve.py with a translator: what it answers, how it ends, its page in a browser."""

import concurrent.futures
import http.client
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import types

import pytest
from serving import FOLDER, LIMIT_S, NEVER_S, imported

pytestmark = pytest.mark.tf_only

TEXTS = ["the dog sees the cat.", "", "a cat", "is the  zebra asleep?", "the dog !"]
STRANGE = ["\0", "a\0b\0", "\x1b[31m\x07", "\uffff", "\u202e\u2066", "\U0010ffff"]


@pytest.fixture(scope="module")
def example():
    with imported("serve", "service") as modules:
        yield modules


@pytest.fixture(scope="module")
def translator():
    """An untrained translator that says something else for each source."""
    import keras

    from keras_bahdanau import RNNSearch
    from keras_bahdanau.tf import Translator, WordCodec

    keras.utils.set_random_seed(1)
    codec = WordCodec.train(["the dog sees the cat, the dog!", "is a cat asleep?"])
    large = keras.initializers.RandomNormal(stddev=2.0)
    model = RNNSearch(
        codec.vocabulary_size,
        codec.vocabulary_size,
        embedding_dim=5,
        units=7,
        kernel_initializer=large,
        embedding_initializer=large,
    )
    return Translator(model, codec, codec)


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    translator.export(folder)
    return folder


@pytest.fixture(scope="module")
def expected(translator):
    """The `Translation` that the translator itself gives of each text."""
    texts = TEXTS + STRANGE
    return dict(zip(texts, translator.translate(texts)))


def bare(tokens):
    return [token.strip("\uffed\u2581") for token in tokens]


def check_answer(found, expected, alignments):
    """Compares JSON with a `Translation`."""
    assert found["text"] == expected.text
    assert found["score"] == pytest.approx(expected.score, abs=1e-4)
    source, target = bare(expected.source_tokens), bare(expected.target_tokens)
    assert (found["source_tokens"], found["target_tokens"]) == (source, target)
    assert ("attention_weights" in found) == alignments
    if alignments:
        weights = expected.attention_weights[: len(target), : len(source)]
        assert len(found["attention_weights"]) == len(target)
        for row, expected_row in zip(found["attention_weights"], weights):
            assert row == pytest.approx(expected_row.tolist(), abs=1e-3)


@pytest.fixture
def model_of(example, monkeypatch):
    """The model of a translator that says the same of each text."""
    import numpy as np
    import tensorflow as tf

    from keras_bahdanau.tf import Translation

    def make(*found):
        found = [Translation(*one) for one in found]
        scores = np.array([[one.score for one in found]] * 2, "float32")
        translator = types.SimpleNamespace(
            serve_nbest=lambda texts: {"scores": tf.constant(scores)},
            translate_nbest=lambda texts, batch_size: [found] * len(texts),
        )
        monkeypatch.setattr(example.serve, "load", lambda path: translator)
        return example.serve.Model("folder")

    return make


def test_tokens_lose_their_spacing_marks_and_weights_the_end_tokens(model_of, example):
    import numpy as np

    weights = np.array([[0.25, 0.5, 0.25], [0.125, 0.75, 0.125], [0, 0, 1.0]])
    model = model_of(("un ?", -1.5, ["a", "\u2581?"], ["un", "\uffed?"], weights))
    assert model([example.service.Job("a ?", 1, True)]) == [
        {
            "text": "un ?",
            "score": -1.5,
            "source_tokens": ["a", "?"],
            "target_tokens": ["un", "?"],
            "attention_weights": [[0.25, 0.5], [0.125, 0.75]],
        }
    ]


def test_as_many_alternatives_are_given_as_were_asked_for(model_of, example):
    ranked = [(text, -1.0, ["a"], [text], None) for text in ("un", "deux", "trois")]
    model = model_of(*ranked)
    assert model.num_results == 3
    found = model([example.service.Job("a", nbest) for nbest in (1, 2, 3)])
    assert [one["text"] for one in found] == ["un"] * 3
    assert "alternatives" not in found[0]
    others = [[one["text"] for one in all["alternatives"]] for all in found[1:]]
    assert others == [["deux"], ["deux", "trois"]]


def test_a_model_without_attention_has_no_weights(model_of, example):
    model = model_of(("un", -1.0, ["a"], ["un"], None))
    (found,) = model([example.service.Job("a", 1, True)])
    assert found["attention_weights"] is None and found["target_tokens"] == ["un"]


def test_a_model_whose_scores_are_no_numbers_is_refused(model_of, example, monkeypatch):
    with pytest.raises(ValueError, match="finite scores. Received that of folder"):
        model_of(("un", math.nan, ["a"], ["un"], None))
    model = model_of(("un", -1.0, ["a"], ["un"], None))
    nothing = types.SimpleNamespace(translate_nbest=lambda texts, batch_size: [[]])
    monkeypatch.setattr(model, "_translator", nothing)
    (found,) = model([example.service.Job("a")])
    assert found["score"] is None and found["text"] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--port", "65536"], "--port: must be 0 to 65535"),
        (["x", "--max-batch", "0"], "--max-batch: must be 1 or more"),
        (["x", "--timeout-s", "0"], "--timeout-s: must be more than 0"),
        (["x", "--max-wait-ms", "-1"], "--max-wait-ms: must be 0 or more"),
        (["x", "--max-queue", "9"], "--max-queue: must be --max-texts or more"),
    ],
)
def test_a_number_out_of_range_is_refused(example, arguments, message, capsys):
    with pytest.raises(SystemExit):
        example.serve.parse_arguments(arguments)
    assert message in capsys.readouterr().err


def test_an_address_in_use_is_said_before_the_loading(example):
    with example.serve.bound_socket(types.SimpleNamespace(host="::1", port=0)) as used:
        args = types.SimpleNamespace(host="::1", port=used.getsockname()[1])
        with pytest.raises(SystemExit, match=f"port {args.port}: Address already in u"):
            example.serve.bound_socket(args)


@pytest.fixture
def run_main(example, monkeypatch):
    """Runs `serve.main` in this process; gives the exit code."""

    class Ended(Exception):
        pass

    def end(code):
        raise Ended(int(code))

    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(os, "_exit", end)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["serve.py", *map(str, arguments)])
        with pytest.raises(Ended) as error:
            example.serve.main()
        return error.value.args[0]

    yield run
    for one, handler in before.items():
        signal.signal(one, handler)


def test_a_folder_without_a_translator_ends_with_an_explanation(
    run_main, tmp_path, capsys
):
    assert run_main(tmp_path, "--port", 0) == 1
    error = capsys.readouterr().err
    assert "must be a folder that" in error and "Traceback" not in error


def test_a_signal_ends_the_loading(run_main, example, monkeypatch, exported):
    gate = threading.Event()

    def load(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        gate.wait(LIMIT_S)
        raise ValueError("too late")

    monkeypatch.setattr(example.serve, "Model", load)
    assert run_main(exported, "--port", 0) == 0
    gate.set()


# -------------------------------------------------------------------- as a process


class Process:
    """serve.py as a user starts it, on a free port."""

    def __init__(self, folder, *options):
        command = [sys.executable, "-u", FOLDER / "serve.py", folder, "--port", 0]
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
        self.process = subprocess.Popen(
            [*map(str, command), *map(str, options)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def wait_until_ready(self):
        # Both lines, or the end of the output where it failed.
        first, second = (self.process.stdout.readline() for _ in range(2))
        self.port = int(re.search(r":(\d+), loading", first)[1])
        assert second.startswith("Ready after")
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, query=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, LIMIT_S)
        headers = {"Content-Type": "application/json"}
        body = json.dumps(query) if query else None
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer.status, content

    def translate(self, *texts, **options):
        status, content = self.ask("POST", "/translate", {"texts": texts, **options})
        assert status == 200, content
        return json.loads(content)["translations"]

    def metric(self, name):
        return float(
            re.search(rf"^{name} (\S+)$", self.ask("GET", "/metrics")[1], re.M)[1]
        )

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def processes(exported):
    """Two of them, loading side by side: a usual one, and one that waits for more."""
    made = {
        "usual": Process(exported, "--max-characters", 100, "--timeout-s", LIMIT_S),
        "patient": Process(
            exported, "--max-wait-ms", NEVER_S * 1000, "--timeout-s", LIMIT_S
        ),
    }
    for one in made.values():
        one.wait_until_ready()
    yield made
    codes = [one.stop() for one in made.values() if one.process.poll() is None]
    assert not any(codes)


def test_clients_at_the_same_time_get_what_the_translator_gives(processes, expected):
    server = processes["usual"]

    def ask(number):
        texts = [TEXTS[(number + step) % len(TEXTS)] for step in range(number % 4)]
        alignments = bool(number % 3)
        found = server.translate(*texts, alignments=alignments)
        assert len(found) == len(texts)
        for one, text in zip(found, texts):
            check_answer(one, expected[text], alignments)
        return len(texts)

    before = server.metric("translation_texts_total")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        total = sum(pool.map(ask, range(200)))
    assert server.metric("translation_texts_total") - before == total == 300
    # Some were translated together.
    assert server.metric("translation_batch_texts_count") < total


def test_no_character_is_too_strange(processes, expected):
    found = processes["usual"].translate(*STRANGE, alignments=True)
    for one, text in zip(found, STRANGE):
        check_answer(one, expected[text], True)


def test_at_a_signal_all_that_was_accepted_is_answered(processes, expected):
    server = processes["patient"]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        futures = [pool.submit(server.translate, TEXTS[0]) for _ in range(10)]
        deadline = time.monotonic() + LIMIT_S
        while server.metric("translation_texts_waiting") < 10:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not any(future.done() for future in futures)
        assert server.stop() == 0
        for future in futures:
            check_answer(future.result(LIMIT_S)[0], expected[TEXTS[0]], False)
    with pytest.raises(ConnectionRefusedError):
        server.ask("GET", "/health")


@pytest.mark.browser
def test_the_page_translates_what_is_typed(processes, page):
    server = processes["usual"]
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    page.set_default_timeout(LIMIT_S * 1000)
    page.goto(server.url)
    page.wait_for_selector("#state.is-ready")
    for text in (TEXTS[0], "<b>the</b> dog"):
        (expected,) = server.translate(text)
        page.fill("#text", text)
        page.press("#text", "Enter")
        latest = f"#recent li:first-child span:has-text({json.dumps(text)})"
        page.wait_for_selector(latest)
        assert page.text_content("#translation") == expected["text"]
        tokens = page.locator(".alignment-line >> nth=0 >> .alignment-token")
        assert tokens.all_text_contents() == expected["source_tokens"]
    assert not page.query_selector("main b")
    page.hover(".alignment-line >> nth=1 >> .alignment-token >> nth=0")
    page.wait_for_selector(".alignment-token.is-partner")
    page.click("#recent li:nth-child(2) button")
    assert page.input_value("#text") == TEXTS[0]
    # Nor did the policy of the page forbid it anything.
    assert not messages
    page.fill("#text", "dog " * 26)
    page.click("button[type=submit]")
    page.wait_for_selector("#error:has-text('100 characters at most')")


@pytest.mark.browser
def test_the_page_offers_the_other_translations(processes, page):
    found = {"text": "un", "score": -1, "source_tokens": ["a"], "target_tokens": ["un"]}
    other = {"text": "une", "score": None, "target_tokens": ["une", "x"]}
    found = {**found, "alternatives": [other]}
    answer = {"translations": [found]}
    page.set_default_timeout(LIMIT_S * 1000)
    page.route("**/translate", lambda route: route.fulfill(json=answer))
    page.goto(processes["usual"].url)
    page.fill("#text", "a")
    page.press("#text", "Enter")
    page.wait_for_selector("#translation:has-text('un')")
    page.click("#candidates li:nth-child(2) button")
    page.wait_for_selector("#candidates button:focus[aria-current=true]")
    assert page.text_content("#translation") == "une"
    tokens = page.locator(".alignment-line >> nth=1 >> .alignment-token")
    assert tokens.all_text_contents() == ["une", "x"]
    page.unroute("**/translate")
    page.route("**/translate", lambda route: route.abort())
    page.press("#text", "Enter")
    page.wait_for_selector("#error:has-text('does not answer')")
