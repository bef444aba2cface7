#!/usr/bin/env python3
"""Prints who comes and goes: a whole client of the presence gateway, in Python's standard library.

    python3 presence.py ws://127.0.0.1:8080/ws ana bo cy

signs in as ana (on a gateway that runs with --dev) and watches bo and cy.
The upper half is what every client does, see docs/clients.md; the lower half is just enough of
WebSocket for it. A real application would rather use a WebSocket library, TLS and a token.
"""

import base64
import json
import os
import random
import socket
import struct
import sys
import time
from urllib.parse import urlsplit

NEVER_COME_BACK = {1000, 1002, 1003, 1007, 1009, 4002, 4003, 4007, 4008}  # 4002, 4003: not with this token
COME_BACK_LATER = {1001, 1012, 1013, 4006, 4009}


def changes(url, user, watched):
    """Yields the states of watched users as they change. Comes back by itself; never ends."""
    known = {}  # what was known outlives a connection, and so nothing flickers
    failures = 0
    while True:
        began, told_s, hurry = time.monotonic(), None, False
        try:
            with WebSocket(url, "presence.v1.json") as ws:
                for message in session(ws, user, watched):
                    hurry = True  # welcomed: a loss is tried again at once, the first time
                    if message["type"] == "draining":
                        told_s = message["reconnect_after_ms"] / 1000
                    for state in newer(known, message):
                        yield state
        except Closed as closed:
            if closed.code in NEVER_COME_BACK:
                raise
            hurry = hurry and closed.code not in COME_BACK_LATER
        except OSError as lost:  # no network, or nothing was heard for the TTL
            print("trying again:", lost, file=sys.stderr)
        if time.monotonic() - began > 10:
            failures = 0
        longest = 0 if hurry and failures == 0 else min(60, 0.5 * 2**failures)
        failures += 1
        # Full jitter, so that the clients of a lost gateway do not come back in step.
        time.sleep(random.uniform(0, longest) if told_s is None else told_s)


def session(ws, user, watched):
    """Signs in, watches, and yields what the gateway says."""
    ws.send({"type": "hello", "user": user})
    while (message := ws.receive())["type"] != "welcome":
        pass
    # The gateway pings whoever is silent. When not even that is heard for the TTL, it is gone.
    ws.settimeout(message["ttl_ms"] / 1000)
    for start in range(0, len(watched), 200):  # a frame has a limit
        ws.send({"type": "watch", "users": watched[start : start + 200], "id": start})
    while True:
        yield message
        message = ws.receive()
        if message["type"] == "error":
            print("refused:", message["message"], file=sys.stderr)


def newer(known, message):
    """Takes in the states of a message, and yields those that are news: the version decides."""
    if message["type"] not in ("snapshot", "presence"):
        return
    for state in message["users"]:
        old = known.get(state["user"])
        if old and old["version"] >= state["version"]:
            continue
        known[state["user"]] = state
        if not old or {**old, "version": 0} != {**state, "version": 0}:
            yield state


class Closed(Exception):
    """The gateway closed the socket, and said why."""

    def __init__(self, code, reason):
        super().__init__(f"{code} {reason}")
        self.code = code


class WebSocket:
    """RFC 6455, as far as this needs it: whole text frames, and an answer to each Ping."""

    def __init__(self, url, subprotocol):
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=15)
        try:
            self._file = self._socket.makefile("rb")
            key = base64.b64encode(os.urandom(16)).decode()
            self._socket.sendall(
                f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {subprotocol}\r\n\r\n".encode()
            )
            status = self._file.readline()
            if b" 101 " not in status:
                raise ConnectionError(f"no upgrade: {status!r}")
            while self._file.readline().strip():
                pass
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def settimeout(self, seconds):
        self._socket.settimeout(seconds)

    def send(self, message):
        self._send(0x1, json.dumps(message).encode())

    def receive(self):
        """The next message; raises OSError when the network is lost or silent."""
        while True:
            opcode, payload = self._receive_frame()
            if opcode == 0x1:
                return json.loads(payload)
            if opcode == 0x9:
                self._send(0xA, payload)
            if opcode == 0x8:
                self._send(0x8, payload[:2])
                code = struct.unpack("!H", payload[:2])[0] if payload else 1005
                raise Closed(code, payload[2:].decode())

    def _send(self, opcode, payload):
        size = len(payload)
        length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BH", 0xFE, size)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        self._socket.sendall(bytes([0x80 | opcode]) + length + mask + masked)

    def _receive_frame(self):
        first, size = self._read(2)
        if size == 126:
            (size,) = struct.unpack("!H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._read(8))
        return first & 0xF, self._read(size)

    def _read(self, size):
        data = self._file.read(size)
        if len(data) < size:
            raise ConnectionError("the connection was lost")
        return data


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        for change in changes(sys.argv[1], sys.argv[2], sys.argv[3:]):
            shown = change.get("show", change["state"])
            print(change["user"], shown, change.get("text", ""), flush=True)
    except Closed as closed:
        sys.exit(f"the gateway closed for good: {closed}")
