"""Checks that threads and forked processes share a client, and that errors can be pickled."""

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

import standin
from standin import AsyncStandin, InvalidValueError, Standin, StandinError

client = Standin(os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"])


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
    try:
        list(processes.map(refused, [1]))
        raise AssertionError("an unknown token")
    except InvalidValueError as error:
        assert (error.path, error.code, error.status) == ("data.a[0]", "invalid_type", 400)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.request_id) == (str(error), error.request_id)
assert os.environ["STANDIN_API_KEY"] not in repr(client)

# Without a loop of its own: each call of asyncio.run has another.
shared = AsyncStandin(os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"])
for _ in range(2):
    assert asyncio.run(shared.tokenize({"a": "Ann Lee"}))["a"].endswith("_tok")
asyncio.run(shared.aclose())

# Also Python's own class of this name.
silent = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{silent.getsockname()[1]}"
try:
    Standin(url, os.environ["STANDIN_API_KEY"], timeout_s=0.1).tokenize({"a": "Ann Lee"})
    raise AssertionError("no answer in time")
except TimeoutError as error:
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, standin.TimeoutError), again
    assert (str(again), again.code, again.attempts) == (str(error), "timeout", error.attempts)
silent.close()

# A machine that is gone: the next attempt finds another, here one that is not Standin.
standin._call.SHORTEST_ATTEMPT_S = 0.1
servant = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{servant.getsockname()[1]}"


def serves() -> None:
    with servant.accept()[0], servant.accept()[0] as second:
        second.recv(65_536)
        second.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    with servant.accept()[0] as third, suppress(OSError):
        third.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(100):
            third.sendall(b" ")
            sleep(0.1)


thread = Thread(target=serves, daemon=True)
thread.start()
try:
    Standin(url, os.environ["STANDIN_API_KEY"], timeout_s=6).tokenize({"a": "Ann Lee"})
    raise AssertionError("an answer of Standin")
except StandinError as error:
    assert (error.status, error.attempts) == (404, 2), error
# An answer that comes byte by byte is over in time, too.
try:
    Standin(url, os.environ["STANDIN_API_KEY"], timeout_s=2).tokenize({"a": "Ann Lee"})
    raise AssertionError("a whole answer")
except TimeoutError:
    pass
servant.close()

# What no attempt cures is told at the first: the service speaks no TLS.
try:
    secure = os.environ["STANDIN_URL"].replace("http:", "https:")
    Standin(secure, os.environ["STANDIN_API_KEY"], timeout_s=9).tokenize({"a": "Ann Lee"})
    raise AssertionError("an answer over TLS")
except StandinError as error:
    assert (error.code, error.attempts) == ("network_error", 1), error

# A string is a list of letters, which nobody means.
try:
    client.tokenize_values("Ann Lee")
    raise AssertionError("a string for a list")
except ValueError as error:
    assert str(error) == "tokenize_values: takes a list of strings, not one", error
print("ok")
