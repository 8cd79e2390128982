"""Checks that threads and forked processes share a client, and that errors can be pickled."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import socket
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import standin
from standin import AsyncStandin, InvalidValueError, Standin

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
    assert (str(again), again.code, again.attempts) == (str(error), "timeout", 1), again
silent.close()

# A string is a list of letters, which nobody means.
try:
    client.tokenize_values("Ann Lee")
    raise AssertionError("a string for a list")
except ValueError as error:
    assert str(error) == "tokenize_values: takes a list of strings, not one", error
print("ok")
