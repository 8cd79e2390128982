"""Runs the cases of a file with `Standin` or `AsyncStandin`, and prints the outcome of each."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any

from standin import AsyncStandin, Standin, StandinError

OPTIONS = ("timeout_s", "max_values", "max_bytes", "policy")
FACTS = ("attempts", "code", "status", "detail", "path", "reason", "kind")


async def run(case: dict[str, Any], kind: str) -> dict[str, Any]:
    options = dict(case["options"])
    if "timeout_ms" in options:
        options["timeout_s"] = options.pop("timeout_ms") / 1000
    own = {name: options.pop(name) for name in OPTIONS if name in options}
    make: Any = AsyncStandin if kind == "async" else Standin
    client = make(case["url"], case["api_key"], **own)

    async def call(name: str, *data: Any) -> Any:
        answer = getattr(client, name)(*data, **options)
        return await answer if isinstance(answer, Awaitable) else answer

    try:
        if case["call"] == "health":
            return {"data": asdict(await call("health"))}
        if case["call"] == "round_trip":
            tokens = await call("tokenize", case["data"])
            return {"tokens": tokens, "data": await call("detokenize", tokens)}
        answer = await call(case["call"], case["data"])
        if case["call"] == "detokenize_lenient":
            unapplied = [one._asdict() for one in answer.unapplied]
            return {"data": answer.data, "unapplied": unapplied}
        return {"tokens" if case["call"] == "tokenize" else "data": answer}
    finally:
        await client.aclose() if kind == "async" else client.close()


def error_of(error: Exception) -> dict[str, Any]:
    text = "".join(traceback.format_exception(error))
    if isinstance(error, ValueError):
        return {"class": "usage", "text": text}
    assert isinstance(error, StandinError), text
    facts = {name: getattr(error, name, None) for name in FACTS}
    # Also what a program would see that looks further than a traceback.
    text += repr((error, error.__dict__, error.__context__, error.__cause__))
    return {"class": type(error).__name__, "text": text, **facts}


def main(path: str, kind: str) -> None:
    with open(path, encoding="utf-8") as file:
        cases = json.load(file)
    for case in cases:
        try:
            outcome = asyncio.run(run(case, kind))
        except Exception as error:
            outcome = {"error": error_of(error)}
        print(json.dumps({"name": case["name"], **outcome}))


main(*sys.argv[1:])
