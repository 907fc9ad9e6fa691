"""Measures what micro-batches are worth to the HTTP service, under concurrent clients.

python benchmarks/serve.py runs/translation/saved_model TEXT_FILE

Starts serve.py twice, with micro-batches and with --max-batch 1, and asks them in turn,
so that what else the machine does falls on both. Each client sends one line of the text
at a time and waits for its translation.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "examples" / "translation" / "serve.py"
TIMEOUT_S = 600


class Server:
    """A process of serve.py, ready for requests."""

    def __init__(self, folder, max_batch):
        self.name = f"--max-batch {max_batch}"
        options = ["--port", 0, "--max-batch", max_batch, "--timeout-s", TIMEOUT_S]
        command = [sys.executable, "-u", PROGRAM, folder, *options]
        self._process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, text=True
        )
        lines = [self._process.stdout.readline() for _ in range(2)]
        if not lines[1].startswith("Ready"):
            raise SystemExit(f"{PROGRAM} did not start.")
        self._port = int(re.search(r":(\d+), loading", lines[0])[1])

    def translate(self, texts):
        """Sends texts one by one; gives translations and the seconds each took."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, TIMEOUT_S)
        found = []
        for text in texts:
            started = time.perf_counter()
            body = json.dumps({"texts": [text]})
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/translate", body, headers)
            answer = json.load(connection.getresponse())
            elapsed = time.perf_counter() - started
            found.append((answer["translations"][0]["text"], elapsed))
        connection.close()
        return found

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self._process.stdout.close()


def ask(server, texts, num_clients):
    """All clients at once; gives translations, requests per second and seconds."""
    shares = [texts[start::num_clients] for start in range(num_clients)]
    started = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(num_clients) as pool:
        found = list(pool.map(server.translate, shares))
    rate = len(texts) / (time.perf_counter() - started)
    pairs = [pair for share in found for pair in share]
    translations, seconds = zip(*pairs)
    return translations, rate, seconds


def report(server, rates, seconds):
    quantiles = statistics.quantiles(seconds, n=20)
    print(
        f"{server.name:>16}: {statistics.median(rates):7.1f} requests/s, seconds for a "
        f"request: {statistics.median(seconds):.3f} median, {quantiles[-1]:.3f} for 95%"
    )


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("translator", type=pathlib.Path, help="folder for serve.py")
    parser.add_argument("text", type=pathlib.Path, help="file of sentences, in lines")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=256, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-batch", type=int, default=64)
    args = parser.parse_args()
    if min(args.requests, args.clients, args.rounds, args.max_batch) < 1:
        parser.error("all numbers must be 1 or more")
    return args


def main():
    args = parse_arguments()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    lines = args.text.read_text(encoding="utf-8").splitlines()
    texts = [lines[index % len(lines)] for index in range(args.requests)]
    servers = [Server(args.translator, size) for size in (args.max_batch, 1)]
    rates, seconds = ({server: [] for server in servers} for _ in range(2))
    # The first round is for warming up.
    for number in range(args.rounds + 1):
        translations = set()
        for server in servers[:: 1 if number % 2 else -1]:
            found, rate, elapsed = ask(server, texts, args.clients)
            translations.add(found)
            if number:
                rates[server].append(rate)
                seconds[server] += elapsed
    print(
        f"{args.rounds} rounds of {args.requests} requests of {args.clients} clients; "
        f"the translations are {'the same' if len(translations) == 1 else 'not equal'}"
    )
    for server in servers:
        report(server, rates[server], seconds[server])
        server.stop()
    ratios = [one / other for one, other in zip(*rates.values())]
    print(
        f"Micro-batches answer {statistics.median(ratios):.2f} times as many requests "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
