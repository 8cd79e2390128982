"""Checks what is Python's own: threads and forks that share a client, pickled errors, JWTs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import socket
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from time import sleep
from unittest import TestCase

import httpx
import standin
from standin import AsyncStandin, InvalidValueError, Standin, StandinError, UnauthorizedError

URL, KEY = os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"]
client = Standin(URL, KEY)
raises = TestCase().assertRaisesRegex


def round_trips(worker: int) -> bool:
    """Another process's answer would have other values."""
    for i in range(30):
        values = {"a": f"Worker {worker} has {i}", "list": [f"{worker} {i}"]}
        if client.detokenize(client.tokenize(values)) != values:
            return False
    return True


def refused(_: int) -> None:
    client.detokenize({"a": ["lxo owr_tok"]})


assert round_trips(99)
with ThreadPoolExecutor(8) as threads:
    assert all(threads.map(round_trips, range(8)))
# The connection that is open now must not be used by several processes.
with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as processes:
    assert all(processes.map(round_trips, range(8)))
    assert round_trips(9)
    with raises(InvalidValueError, r"^data.a\[0\]: is not a known token$") as told:
        list(processes.map(refused, [1]))
error = told.exception
assert (error.path, error.code, error.status) == ("data.a[0]", "invalid_type", 400)
again = pickle.loads(pickle.dumps(error))
assert (str(again), again.request_id) == (str(error), error.request_id)
assert KEY not in repr(client)

# Without a loop of its own: each call of asyncio.run has another.
shared = AsyncStandin(URL, KEY)
for _ in range(2):
    assert asyncio.run(shared.tokenize({"a": "Ann Lee"}))["a"].endswith("_tok")
asyncio.run(shared.aclose())

# Also Python's own class of this name.
silent = socket.create_server(("127.0.0.1", 0))
silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
with raises(TimeoutError, "no answer within 0.1 s") as late:
    Standin(silent_url, KEY, timeout_s=0.1).tokenize({"a": "Ann Lee"})
again = pickle.loads(pickle.dumps(late.exception))
assert isinstance(again, standin.TimeoutError) and again.code == "timeout", again
silent.close()

# A machine that is gone: the next attempt finds another, here one that is not Standin.
standin._call.SHORTEST_ATTEMPT_S = 0.1
servant = socket.create_server(("127.0.0.1", 0))
servant_url = f"http://127.0.0.1:{servant.getsockname()[1]}"


def serves() -> None:
    with servant.accept()[0], servant.accept()[0] as second:
        second.recv(65_536)
        second.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    with servant.accept()[0] as third, suppress(OSError):
        third.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(100):
            third.sendall(b" ")
            sleep(0.1)


Thread(target=serves, daemon=True).start()
with raises(StandinError, "404") as gone:
    Standin(servant_url, KEY, timeout_s=6).tokenize({"a": "Ann Lee"})
assert gone.exception.attempts == 2
# An answer that comes byte by byte is over in time, too.
with raises(TimeoutError, "no answer within 2 s"):
    Standin(servant_url, KEY, timeout_s=2).tokenize({"a": "Ann Lee"})
servant.close()

# What no attempt cures is told at the first: the service speaks no TLS.
with raises(StandinError, "no answer from the service") as secure:
    Standin(URL.replace("http:", "https:"), KEY, timeout_s=9).tokenize({"a": "Ann Lee"})
assert (secure.exception.code, secure.exception.attempts) == ("network_error", 1)

# A string is a list of letters, which nobody means. A name that is no string becomes one in JSON.
with raises(ValueError, "^tokenize_values: takes a list of strings, not one$"):
    client.tokenize_values("Ann Lee")
with raises(ValueError, r"^spans: must be a list of Span\(start, end, kind\)$"):
    client.tokenize_text("Ann", [(0, 1, "person")])
with raises(InvalidValueError, r"^data\[0\]: has a field name that is no str but int$"):
    client.tokenize([{7: "Ann Lee"}])

# A JWT, from a function that is asked before each request. This service refuses it.
sent: list[str] = []


async def note(request: httpx.Request) -> None:
    sent.append(request.headers["authorization"])


async def call() -> None:
    async with httpx.AsyncClient(event_hooks={"request": [note]}) as own:
        with raises(UnauthorizedError, "401"):
            await AsyncStandin(URL, lambda: next(jwts), http=own).tokenize({"a": "b"})


jwts = iter(["a.b.1", "a.b.2", "no key"])
hook = lambda one: sent.append(one.headers["authorization"])  # noqa: E731
http = httpx.Client(event_hooks={"request": [hook]})
with raises(UnauthorizedError, "401"):
    Standin(URL, lambda: next(jwts), http=http).tokenize({"a": "b"})
asyncio.run(call())
with raises(ValueError, "or a JWT") as unsent:
    Standin(URL, lambda: next(jwts), http=http).tokenize({"a": "b"})
assert "no key" not in str(unsent.exception)
with raises(UnauthorizedError, "401"):
    Standin(URL, "a.b.fixed", http=http).tokenize({"a": "b"})
assert sent == ["Bearer a.b.1", "Bearer a.b.2", "Bearer a.b.fixed"], sent
print("ok")
