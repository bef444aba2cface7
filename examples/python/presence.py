#!/usr/bin/env python3
"""Prints who comes and goes: a whole client of the presence gateway, in Python's standard library.

    python3 presence.py ws://127.0.0.1:8080/ws ana bo cy

signs in as ana (on a gateway that runs with --dev) and watches bo and cy.
The upper half is what every client does, see docs/clients.md; the lower half is just enough of
WebSocket for it. A real application would rather use a WebSocket library, wss:// and a token.
"""

import base64
import json
import math
import os
import random
import socket
import ssl
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
        began, move_at, hurry = time.monotonic(), None, False
        try:
            with WebSocket(url, "presence.v1.json") as ws:
                for message in session(ws, user, watched):
                    hurry = True  # welcomed: a loss is tried again at once, the first time
                    if message["type"] == "draining":
                        move_at = time.monotonic() + message["reconnect_after_ms"] / 1000
                        ws.give_up_at(move_at)  # the gateway may close earlier, or never
                    for state in newer(known, message):
                        yield state
        except Closed as closed:
            if closed.code in NEVER_COME_BACK:
                raise
            hurry = hurry and closed.code not in COME_BACK_LATER
        except OSError as lost:  # no network, nothing was heard for the TTL, or it is time to move
            why = "the gateway is going away" if move_at else lost
            print("trying again:", why, file=sys.stderr)
        if time.monotonic() - began > 10:
            failures = 0
        longest = 0 if hurry and failures == 0 else min(60, 0.5 * 2**failures)
        failures += 1
        # Full jitter, so that the clients of a lost gateway do not come back in step.
        wait = random.uniform(0, longest) if move_at is None else move_at - time.monotonic()
        time.sleep(max(0, wait))


def session(ws, user, watched):
    """Signs in, watches, and yields what the gateway says."""
    ws.send({"type": "hello", "user": user})
    while (message := ws.receive())["type"] != "welcome":
        if message["type"] == "error":
            raise Refused(message["message"])
    # The gateway pings whoever is silent. When not even that is heard for the TTL, it is gone.
    ws.silence_max_s = message["ttl_ms"] / 1000
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


class Refused(Exception):
    """The gateway did not take the hello, and would not take it another time."""


class Closed(Exception):
    """The gateway closed the socket, and said why."""

    def __init__(self, code, reason):
        super().__init__(f"{code} {reason}")
        self.code = code


class WebSocket:
    """RFC 6455, as far as this needs it: whole text frames, and an answer to each Ping."""

    def __init__(self, url, subprotocol):
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname or not parts.path:
            raise ValueError(f"{url} is not the URL of a gateway, as ws://127.0.0.1:8080/ws is")
        is_secure = parts.scheme == "wss"
        self.silence_max_s = 15
        self._give_up_at = math.inf
        address = parts.hostname, parts.port or (443 if is_secure else 80)
        self._socket = socket.create_connection(address, self.silence_max_s)
        try:
            if is_secure:
                context = ssl.create_default_context()
                self._socket = context.wrap_socket(self._socket, server_hostname=parts.hostname)
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

    def give_up_at(self, moment):
        """From then on nothing is received any more."""
        self._give_up_at = moment

    def send(self, message):
        self._send(0x1, json.dumps(message).encode())

    def receive(self):
        """The next message; raises OSError when the network is lost or silent, or it is given up."""
        while (left := self._give_up_at - time.monotonic()) > 0:
            self._socket.settimeout(min(self.silence_max_s, left))
            opcode, payload = self._receive_frame()
            if opcode == 0x1:
                return json.loads(payload)
            if opcode == 0x9:
                self._send(0xA, payload)
            if opcode == 0x8:
                self._send(0x8, payload[:2])
                code = struct.unpack("!H", payload[:2])[0] if payload else 1005
                raise Closed(code, payload[2:].decode())
        raise TimeoutError("given up")

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
    except Refused as refused:
        sys.exit(f"the gateway refused: {refused}")
    except ValueError as mistake:
        sys.exit(str(mistake))
    except KeyboardInterrupt:
        sys.exit(130)
