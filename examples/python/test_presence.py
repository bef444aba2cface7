"""The Python example against the protocol's vectors and the real gateway program."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import presence

ROOT = Path(__file__).parents[2]
PROGRAM = os.environ.get("PRESENCE_GATEWAY", str(ROOT / "target/debug/presence-gateway"))
NEVER_S = 30


def until(what, is_true):
    deadline = time.monotonic() + NEVER_S
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.02)


class Gateway:
    """The gateway program on a free port, which it keeps over restarts."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PRESENCE_")}
        listen = ["--listen", f"127.0.0.1:{self.port}", "--log", "error"]
        beat = ["--heartbeat", "500ms", "--ttl", "1500ms", "--grace", "500ms"]
        self.process = subprocess.Popen([PROGRAM, "--dev", *listen, *beat], env=env)
        until("the gateway is ready", self.is_ready)

    def is_ready(self):
        assert self.process.poll() is None, "the gateway ended"
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz").status == 200
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/ws"


class WithAGateway(unittest.TestCase):
    def setUp(self):
        self.gateway = Gateway()
        self.addCleanup(lambda: self.gateway.kill())
        self.told = []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        for state in presence.changes(self.gateway.url, "ana", ["bo"]):
            self.told.append(state)

    def last(self):
        return self.told[-1]["state"] if self.told else None

    def sign_in(self):
        ws = presence.WebSocket(self.gateway.url, "presence.v1.json")
        next(presence.session(ws, "bo", []))
        return ws

    def test_it_tells_who_comes_and_goes(self):
        until("bo is offline", lambda: self.last() == "offline")
        bo = self.sign_in()
        until("bo is online", lambda: self.last() == "online")
        bo.send({"type": "bye"})
        with self.assertRaises(presence.Closed) as closed:
            while True:
                bo.receive()
        self.assertEqual(closed.exception.code, 1000)
        bo.__exit__()
        until("bo is offline again", lambda: self.last() == "offline")

    def test_it_comes_back_after_a_killed_gateway_and_a_silent_one(self):
        until("bo is offline", lambda: self.last() == "offline")
        self.gateway.kill()
        self.gateway.start()
        bo = self.sign_in()
        until("bo is online", lambda: self.last() == "online")
        bo.__exit__()
        until("bo is offline", lambda: self.last() == "offline")
        self.gateway.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        until("longer than the TTL", lambda: time.monotonic() - stopped > 2)
        self.gateway.process.send_signal(signal.SIGCONT)
        bo = self.sign_in()
        until("bo is online", lambda: self.last() == "online")
        bo.__exit__()


class Vectors(unittest.TestCase):
    def test_every_good_message_of_a_gateway_is_taken_in(self):
        rows = (ROOT / "crates/protocol/vectors.tsv").read_text("utf-8").split("\n")
        count = 0
        for row in rows:
            columns = row.split("\t")
            if columns[0] != "gateway" or columns[2] not in ("exact", "reads"):
                continue
            message = json.loads(columns[3])
            list(presence.newer({}, message))
            count += 1
        self.assertGreater(count, 20)

    def test_an_older_version_changes_nothing(self):
        known = {}
        told = []
        for version, state in [(5, "online"), (4, "offline"), (5, "offline"), (6, "online"), (7, "offline")]:
            users = [{"user": "bo", "state": state, "version": version}]
            told += presence.newer(known, {"type": "presence", "users": users})
        self.assertEqual([state["version"] for state in told], [5, 7])


if __name__ == "__main__":
    unittest.main()
