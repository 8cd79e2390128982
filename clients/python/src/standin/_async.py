"""The client with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any, TypeVar, overload

import httpx

from ._answers import TIMED_OUT, Answer, NoAnswer, no_answer
from ._call import Attempt, Call, Given, Health, PolicyInForce, Steps, Work
from ._client import LENIENT, AnyRecord, Client, Fields, Record, Seconds
from ._replace import Lenient
from ._text import (
    DETOKENIZE,
    TOKENIZE,
    DetokenizedText,
    Span,
    TokenizedText,
    detokenize_piece,
    detokenize_text,
    named_tokens,
    tokenize_text,
)

T = TypeVar("T")


class AsyncStandin(Client[httpx.AsyncClient]):
    __doc__ = f"{Client.__doc__}\n    Event loops of asyncio can share it one after the other.\n"

    _own_http: httpx.AsyncClient | None = None
    # Of the connections of `_own_http`.
    _loop: asyncio.AbstractEventLoop | None = None

    async def tokenize(
        self, data: Record, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Record:
        """See `Standin`."""
        return (await self._run(self._replacing("tokenize", data, fields, timeout_s))).data

    async def detokenize(
        self, data: Record, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Record:
        """See `Standin`."""
        return (await self._run(self._replacing("detokenize", data, fields, timeout_s))).data

    async def detokenize_lenient(
        self, data: Record, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Lenient[Record]:
        """See `Standin`."""
        return await self._run(self._replacing("detokenize", data, fields, timeout_s, LENIENT))

    @overload
    async def lookup(self, data: list[str], *, timeout_s: Seconds = None) -> list[str | None]: ...
    @overload
    async def lookup(
        self, data: dict[str, str], *, fields: Fields = None, timeout_s: Seconds = None
    ) -> dict[str, str | None]: ...
    @overload
    async def lookup(
        self, data: AnyRecord, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Any: ...
    async def lookup(
        self, data: AnyRecord, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Any:
        """See `Standin`."""
        return (await self._run(self._replacing("lookup", data, fields, timeout_s))).data

    async def tokenize_values(
        self, values: Iterable[str], *, timeout_s: Seconds = None
    ) -> list[str]:
        """See `Standin`."""
        return (await self._run(self._values("tokenize", values, timeout_s))).data

    async def detokenize_values(
        self, tokens: Iterable[str], *, timeout_s: Seconds = None
    ) -> list[str]:
        """See `Standin`."""
        return (await self._run(self._values("detokenize", tokens, timeout_s))).data

    async def tokenize_text(
        self,
        text: str,
        spans: Iterable[Span],
        *,
        conversation: bool | str = False,
        timeout_s: Seconds = None,
    ) -> TokenizedText:
        """See `Standin`."""
        return await self._run(
            self._asking(TOKENIZE, timeout_s, tokenize_text, text, spans, conversation)
        )

    async def detokenize_text(
        self,
        text: str,
        *,
        only: Iterable[str] | None = None,
        conversation: str | None = None,
        timeout_s: Seconds = None,
    ) -> DetokenizedText:
        """See `Standin`."""
        named = named_tokens(only, conversation)
        return await self._run(self._asking(DETOKENIZE, timeout_s, detokenize_text, text, named))

    async def detokenize_stream(
        self,
        chunks: AsyncIterable[str],
        *,
        only: Iterable[str] | None = None,
        conversation: str | None = None,
        timeout_s: Seconds = None,
    ) -> AsyncIterator[str]:
        """See `Standin`."""
        named = named_tokens(only, conversation)
        rest = ""
        async for chunk in chunks:
            text, rest = await self._run(
                self._asking(DETOKENIZE, timeout_s, detokenize_piece, rest + chunk, named)
            )
            if text:
                yield text
        if rest:
            last = self._asking(DETOKENIZE, timeout_s, detokenize_text, rest, named)
            yield (await self._run(last)).text

    async def policy_in_force(self, *, timeout_s: Seconds = None) -> PolicyInForce:
        """See `Standin`."""
        return await self._run(self._asking("policy", timeout_s, Call.policy_in_force))

    async def health(self, *, timeout_s: Seconds = None) -> Health:
        """See `Standin`."""
        return await self._run(self._asking("health", timeout_s, Call.health))

    async def aclose(self) -> None:
        """Closes the connections. The next call opens others."""
        http, self._own_http = self._own_http, None
        if http is not None and self._loop is asyncio.get_running_loop():
            await http.aclose()

    async def __aenter__(self) -> AsyncStandin:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _run(self, work: Work[T]) -> T:
        http = self._http()

        async def work_off() -> None:
            for steps in work.requests:
                await _drive(steps, http)

        tasks = [asyncio.ensure_future(work_off()) for _ in range(self._settings.concurrency)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return work.result()

    def _http(self) -> httpx.AsyncClient:
        if self._given_http is not None:
            return self._given_http
        # The connections of a loop that ended cannot be used, nor closed.
        loop = asyncio.get_running_loop()
        if self._own_http is None or self._loop is not loop:
            self._own_http = httpx.AsyncClient(trust_env=False)
            self._loop = loop
        return self._own_http


async def _drive(steps: Steps[None], http: httpx.AsyncClient) -> None:
    given: Given = None
    while True:
        try:
            step = steps.send(given)
        except StopIteration:
            return
        if isinstance(step, Attempt):
            given = await _attempt(step, http)
        else:
            await asyncio.sleep(step.seconds)
            given = None


async def _attempt(step: Attempt, http: httpx.AsyncClient) -> Answer | NoAnswer:
    request = http.request(
        step.method,
        step.url,
        headers=step.headers,
        content=step.body,
        timeout=step.timeout_s,
        follow_redirects=False,
    )
    try:
        response = await asyncio.wait_for(request, step.timeout_s)
    except asyncio.TimeoutError:
        return TIMED_OUT
    except httpx.HTTPError as error:
        return no_answer(error)
    return Answer(response.status_code, response.content, response.headers)
