"""Runs the cases of a file with `Standin` or `AsyncStandin`, and prints the outcome of each."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from dataclasses import asdict
from typing import Any

from standin import AsyncStandin, Standin, StandinError

CALLS = ("timeout_s", "max_values", "max_bytes", "policy")
FACTS = ("attempts", "code", "status", "detail", "path", "reason", "kind")


def options_of(case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the client, and of the call."""
    options = dict(case["options"])
    if "timeout_ms" in options:
        options["timeout_s"] = options.pop("timeout_ms") / 1000
    own = {name: options.pop(name) for name in CALLS if name in options}
    return own, options


def run(case: dict[str, Any]) -> dict[str, Any]:
    own, options = options_of(case)
    with Standin(case["url"], case["api_key"], **own) as client:
        if case["call"] == "health":
            return {"data": asdict(client.health())}
        if case["call"] == "round_trip":
            tokens = client.tokenize(case["data"], **options)
            return {"tokens": tokens, "data": client.detokenize(tokens, **options)}
        return shown(case["call"], getattr(client, case["call"])(case["data"], **options))


async def run_async(case: dict[str, Any]) -> dict[str, Any]:
    own, options = options_of(case)
    async with AsyncStandin(case["url"], case["api_key"], **own) as client:
        if case["call"] == "health":
            return {"data": asdict(await client.health())}
        if case["call"] == "round_trip":
            tokens = await client.tokenize(case["data"], **options)
            return {"tokens": tokens, "data": await client.detokenize(tokens, **options)}
        return shown(case["call"], await getattr(client, case["call"])(case["data"], **options))


def shown(call: str, answer: Any) -> dict[str, Any]:
    if call == "detokenize_lenient":
        unapplied = [one._asdict() for one in answer.unapplied]
        return {"data": answer.data, "unapplied": unapplied}
    return {"tokens" if call == "tokenize" else "data": answer}


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
            outcome = asyncio.run(run_async(case)) if kind == "async" else run(case)
        except Exception as error:
            outcome = {"error": error_of(error)}
        print(json.dumps({"name": case["name"], **outcome}))


main(*sys.argv[1:])
