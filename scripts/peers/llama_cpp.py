"""Pairs of runs of the same questions: our engine, then llama-server, in turn.

The server runs at its best for them: a document's common prefix is evaluated once in slot 0, its state is saved and
restored into the other slots, then the document's questions are asked side by side. Standard library only.
"""

import concurrent.futures
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from pairs import arguments, compare, n_errors, plain


class Server:
    """A llama-server on the loopback address, for the time of one run."""

    def __init__(self, a, gguf, longest):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        ram = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.states = tempfile.TemporaryDirectory(dir=ram)
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [os.path.abspath(a.server), "-m", os.path.abspath(gguf), "--host", "127.0.0.1", "--port", str(self.port),
             "-c", str(longest * a.slots), "-np", str(a.slots), "-t", str(a.threads), "-tb", str(a.threads),
             "--slot-save-path", self.states.name,
             *(["-rtr"] if a.ik else [])],
            cwd=self.states.name,  # ik_llama.cpp's leaves a log where it was started
            stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def __enter__(self):
        began = time.time()
        while time.time() - began < 180:
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f"error: llama-server ended:\n{self.log.read().decode(errors='replace')[-2000:]}")
            try:
                if self.post("GET", "/health")[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit("error: llama-server was not ready after 180 s")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        self.states.cleanup()

    def post(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def ask(self, path, body):
        status, raw = self.post("POST", path, body)
        if status != 200:
            sys.exit(f"error: llama-server answered {status} to {path}: {raw[:300]!r}")
        return json.loads(raw)

    def complete(self, ids, slot, n, schema=None):
        body = {"prompt": ids, "n_predict": n, "id_slot": slot, "cache_prompt": True, "temperature": 0.0, "seed": 0,
                "top_k": 1, "samplers": ["top_k", "temperature"]}
        if schema is not None:
            body["json_schema"] = schema
        return self.ask("/completion", body)


def theirs(a, gguf, requests, lengths):
    longest = max(len(r["prompt_ids"]) + r["max_tokens"] for r in requests) + 16
    documents = {}
    for request in requests:
        documents.setdefault(request["doc"], []).append(request)
    with Server(a, gguf, -(-longest // 256) * 256) as server:
        server.complete([1, 2, 3], 0, 2)
        computed = generated = 0
        answers = []
        began = time.perf_counter()
        for group in documents.values():
            computed += share(server, group, min(a.slots, len(group)))
            for request, reply in answer(server, a, group, lengths):
                computed += reply["timings"]["prompt_n"]
                generated += reply["timings"]["predicted_n"]
                answers.append(n_errors(reply["content"]))
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "computed": computed, "generated": generated,
            "valid": sum(n is not None for n in answers), "spans": sum(n or 0 for n in answers)}


def share(server, group, n_slots):
    """Evaluates the common prefix of a document once and copies it into the slots that will need it."""
    if n_slots < 2:
        return 0
    common = os.path.commonprefix([r["prompt_ids"] for r in group])
    reply = server.complete(common, 0, 1)
    server.ask("/slots/0?action=save", {"filename": "prefix.bin"})
    for slot in range(1, n_slots):
        server.ask(f"/slots/{slot}?action=restore", {"filename": "prefix.bin"})
    return reply["timings"]["prompt_n"]


def answer(server, a, group, lengths):
    waiting = list(group)

    def take_turns(slot):
        done = []
        while waiting:
            request = waiting.pop(0)
            n = lengths[request["id"]] if lengths else request["max_tokens"]
            schema = plain(request["schema"]) if request["schema"] else None
            done.append((request, server.complete(request["prompt_ids"], slot, n, schema)))
        return done

    with concurrent.futures.ThreadPoolExecutor(a.slots) as pool:
        return [pair for done in pool.map(take_turns, range(min(a.slots, len(group)))) for pair in done]


if __name__ == "__main__":
    p = arguments("scripts/peers/llama_cpp.sh", __doc__.split("\n")[0])
    p.add_argument("--server", required=True)
    p.add_argument("--slots", type=int, default=8)
    p.add_argument("--ik", action="store_true")
    a = p.parse_args()
    compare(a, "ik_llama.cpp" if a.ik else "llama-server", theirs)
