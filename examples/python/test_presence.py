"""The Python example against the protocol's vectors and the real gateway program."""

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import presence

ROOT = Path(__file__).parents[2]
PROGRAM = os.environ.get("PRESENCE_GATEWAY", str(ROOT / "target/debug/presence-gateway"))
NEVER_S = 30
UNCHECKED = ssl._create_unverified_context()  # whether a gateway is ready, and not who it is


def until(what, is_true):
    deadline = time.monotonic() + NEVER_S
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.02)


class Gateway:
    """The gateway program on a free port, which it keeps over restarts."""

    def __init__(self, *settings):
        self.settings = settings
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PRESENCE_")}
        listen = ["--listen", f"127.0.0.1:{self.port}", "--log", "error"]
        beat = ["--heartbeat", "500ms", "--ttl", "1500ms", "--grace", "500ms"]
        self.process = subprocess.Popen([PROGRAM, "--dev", *listen, *beat, *self.settings], env=env)
        until("the gateway is ready", self.is_ready)

    def is_ready(self):
        assert self.process.poll() is None, "the gateway ended"
        scheme = "https" if "--tls-cert-file" in self.settings else "http"
        ready = f"{scheme}://127.0.0.1:{self.port}/readyz"
        try:
            return urllib.request.urlopen(ready, context=UNCHECKED).status == 200
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


class Program:
    """The example as it is run in a terminal."""

    def __init__(self, *arguments, **env):
        program = [sys.executable, "-u", presence.__file__, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        # A shell starts what goes on in the background deaf to interrupts, and whoever that starts is as well.
        hear = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
        self.process = subprocess.Popen(program, env={**os.environ, **env}, **pipes, **hear)

    def line(self):
        return self.process.stdout.readline().strip()

    def end(self):
        """What else it writes, and its exit code."""
        try:
            said = self.process.communicate(timeout=NEVER_S)[0].strip()
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return said, self.process.returncode


class InATerminal(unittest.TestCase):
    def gateway(self, *settings):
        gateway = Gateway(*settings)
        self.addCleanup(gateway.kill)
        return gateway

    def test_what_is_not_the_url_of_a_gateway_is_refused_in_words(self):
        for url in ["ws://127.0.0.1:8080", "http://127.0.0.1:8080/ws", "127.0.0.1:8080/ws", "ws:///ws"]:
            said = f"{url} is not the URL of a gateway, as ws://127.0.0.1:8080/ws is"
            self.assertEqual(Program(url, "ana", "bo").end(), (said, 1))

    def test_a_user_who_cannot_be_ends_it_with_the_reason(self):
        said, code = Program(self.gateway().url, "", "bo").end()
        self.assertRegex(said, "^the gateway refused: .*this one is empty$")
        self.assertEqual(code, 1)

    def test_an_interrupt_ends_it_without_a_word(self):
        program = Program(self.gateway().url, "ana", "bo")
        self.assertEqual(program.line(), "bo offline")
        program.process.send_signal(signal.SIGINT)
        self.assertEqual(program.end(), ("", 130))

    def test_it_trusts_the_certificates_of_its_machine_and_no_others(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificate, key = f"{folder.name}/certificate.pem", f"{folder.name}/key.pem"
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=test"
        names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
        subprocess.run([*make.split(), *names], check=True, capture_output=True)
        gateway = self.gateway("--tls-cert-file", certificate, "--tls-key-file", key)
        url = gateway.url.replace("ws:", "wss:")

        trusting = Program(url, "ana", "bo", SSL_CERT_FILE=certificate)
        self.assertEqual(trusting.line(), "bo offline")
        doubting = Program(url, "ana", "bo")
        self.assertIn("certificate verify failed", doubting.line())
        for program in (trusting, doubting):
            program.process.send_signal(signal.SIGINT)
            program.end()


class Draining(unittest.TestCase):
    def moves_after(self, reconnect_after_s, close_after_s=None):
        """How long a client stays that is told to go; the gateway may close its socket earlier."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        changes = presence.changes(f"ws://127.0.0.1:{listener.getsockname()[1]}/ws", "ana", ["bo"])
        threading.Thread(target=next, args=[changes], daemon=True).start()
        listener.settimeout(NEVER_S)
        with listener.accept()[0] as peer:
            came_at = time.monotonic()
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            peer.sendall(text({"type": "welcome", "ttl_ms": 30_000}))
            peer.sendall(text({"type": "draining", "reconnect_after_ms": reconnect_after_s * 1000}))
            if close_after_s is not None:
                time.sleep(close_after_s)
                peer.sendall(b"\x88\x02" + struct.pack("!H", 1012))
            with listener.accept()[0]:
                return time.monotonic() - came_at

    def test_it_moves_by_itself_when_the_gateway_leaves_the_socket_open(self):
        moved_after_s = self.moves_after(1.5)
        self.assertTrue(1.4 < moved_after_s < 2.5, moved_after_s)

    def test_a_close_does_not_begin_the_wait_anew(self):
        moved_after_s = self.moves_after(3, close_after_s=2)
        self.assertTrue(2.9 < moved_after_s < 4, moved_after_s)


def text(message):
    payload = json.dumps(message).encode()
    return bytes([0x81, len(payload)]) + payload


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
