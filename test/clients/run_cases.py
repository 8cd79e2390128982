"""Runs the cases of a file with `Standin` or `AsyncStandin`, and prints the outcome of each."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable
from dataclasses import asdict
from typing import Any

from standin import AsyncStandin, Span, Standin, StandinError

OPTIONS = ("timeout_s", "max_values", "max_bytes", "policy")
FACTS = ("attempts", "code", "status", "detail", "path", "reason", "kind")


async def run(case: dict[str, Any], kind: str) -> dict[str, Any]:
    options = dict(case["options"])
    if "timeout_ms" in options:
        options["timeout_s"] = options.pop("timeout_ms") / 1000
    own = {name: options.pop(name) for name in OPTIONS if name in options}
    make: Any = AsyncStandin if kind == "async" else Standin
    client = make(case["url"], case["api_key"], **own)

    async def call(name: str, *data: Any, **more: Any) -> Any:
        answer = getattr(client, name)(*data, **options, **more)
        return await answer if isinstance(answer, Awaitable) else answer

    async def stream(chunks: list[str], **more: Any) -> str:
        async def source() -> AsyncIterator[str]:
            for chunk in chunks:
                yield chunk

        if kind == "async":
            return "".join([one async for one in client.detokenize_stream(source(), **more)])
        return "".join(client.detokenize_stream(chunks, **more))

    async def text(text: str, spans: Any, after: str = "") -> dict[str, Any]:
        """A text that goes there and back, whole and in streams of two chunks."""
        if isinstance(spans, dict):
            starts = {value: text.index(value) for value in spans}
            given = [Span(at, at + len(value), spans[value]) for value, at in starts.items()]
        else:
            given = [Span(**one) for one in spans]
        made = await call("tokenize_text", text, given)
        sent = made.text + after
        back = await call("detokenize_text", sent)
        cuts = range(len(sent) + 1)
        streamed = {await stream([sent[:cut], sent[cut:]]) for cut in cuts}
        return {
            "kinds": [one.kind for one in made.spans],
            "tokens": [made.text[one.start : one.end] for one in made.spans],
            "text": back.text,
            "left": [[sent[one.start : one.end], one.reason] for one in back.unapplied],
            "streams": len({back.text, *streamed}),
        }

    async def conversation(one: str, two: str) -> dict[str, Any]:
        """Two persons of a conversation, and which of them come back."""
        begun = await call("tokenize_text", one, [Span(0, len(one), "person")], conversation=True)
        first = {"conversation": begun.conversation}
        grown = await call("tokenize_text", two, [Span(0, len(two), "person")], **first)
        mail = f"{begun.text}, {grown.text}"
        both = await call("detokenize_text", mail, conversation=grown.conversation)
        back = await call("detokenize_text", mail, **first)
        named = await call("detokenize_text", mail, only=iter([grown.text]), **first)
        none = await call("detokenize_text", mail, only=[])
        chunks = [mail[at : at + 5] for at in range(0, len(mail), 5)]
        texts = {"both": both, "first": back, "named": named, "none": none}
        return {
            **{name: one.text for name, one in texts.items()},
            "reasons": [one.reason for one in back.unapplied],
            "streamed": await stream(chunks, **first),
        }

    try:
        if case["call"] == "text":
            return {"data": await text(**case["data"])}
        if case["call"] == "conversation":
            return {"data": await conversation(*case["data"])}
        if case["call"] in ("health", "policy_in_force"):
            return {"data": asdict(await call(case["call"]))}
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
