"""The client with threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import chain, islice
from time import monotonic
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


class Standin(Client[httpx.Client]):
    __doc__ = f"{Client.__doc__}\n    Threads and forked processes can share it.\n"

    _own_http: httpx.Client | None = None
    # Of the process that made `_own_http`.
    _pid = 0

    def tokenize(self, data: Record, *, fields: Fields = None, timeout_s: Seconds = None) -> Record:
        """A copy of `data` with a token in place of each string at any depth.

        `fields`: only the strings at these paths, such as `email`, `customer.emails[*]` or
        `["full name"]`; in a list, those of each item. A path ends in `?` where the value may be
        missing. None stays None. Everything else in the record stays.

        With a policy, `data` is a record or a list of records. The service replaces what the
        policy names, and all other values stay as they are.
        """
        return self._run(self._replacing("tokenize", data, fields, timeout_s)).data

    def detokenize(
        self, data: Record, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Record:
        """A copy of `data` with the value in place of each token. See `tokenize`.

        Raises InvalidValueError for a token that is not known.
        """
        return self._run(self._replacing("detokenize", data, fields, timeout_s)).data

    def detokenize_lenient(
        self, data: Record, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Lenient[Record]:
        """As `detokenize`, but unknown tokens, and values that the client may not see, stay.

        The answer lists their places.
        """
        return self._run(self._replacing("detokenize", data, fields, timeout_s, LENIENT))

    @overload
    def lookup(self, data: list[str], *, timeout_s: Seconds = None) -> list[str | None]: ...
    @overload
    def lookup(
        self, data: dict[str, str], *, fields: Fields = None, timeout_s: Seconds = None
    ) -> dict[str, str | None]: ...
    @overload
    def lookup(
        self, data: AnyRecord, *, fields: Fields = None, timeout_s: Seconds = None
    ) -> Any: ...
    def lookup(self, data: AnyRecord, *, fields: Fields = None, timeout_s: Seconds = None) -> Any:
        """As `tokenize`, but stores nothing: None in place of a value that has no token."""
        return self._run(self._replacing("lookup", data, fields, timeout_s)).data

    def tokenize_values(self, values: Iterable[str], *, timeout_s: Seconds = None) -> list[str]:
        """The tokens of values, in the same order. With a policy, they are of the kind `text`."""
        return self._run(self._values("tokenize", values, timeout_s)).data

    def detokenize_values(self, tokens: Iterable[str], *, timeout_s: Seconds = None) -> list[str]:
        """The values of tokens, in the same order."""
        return self._run(self._values("detokenize", tokens, timeout_s)).data

    def tokenize_text(
        self,
        text: str,
        spans: Iterable[Span],
        *,
        conversation: bool | str = False,
        timeout_s: Seconds = None,
    ) -> TokenizedText:
        """A text with a token in place of each span, in one request.

        The vault needs a policy. `conversation=True` begins a conversation; a string adds these
        tokens to an earlier one. The result has the `conversation` for the next call.
        """
        return self._run(
            self._asking(TOKENIZE, timeout_s, tokenize_text, text, spans, conversation)
        )

    def detokenize_text(
        self,
        text: str,
        *,
        only: Iterable[str] | None = None,
        conversation: str | None = None,
        timeout_s: Seconds = None,
    ) -> DetokenizedText:
        """A text with the value in place of each token, in one request.

        Unknown tokens, and values that the client may not see, stay. If the text may hold what
        strangers wrote, as the answer of a language model may, name what comes back: the tokens of
        `only` and those of the `conversation`.
        """
        named = named_tokens(only, conversation)
        return self._run(self._asking(DETOKENIZE, timeout_s, detokenize_text, text, named))

    def detokenize_stream(
        self,
        chunks: Iterable[str],
        *,
        only: Iterable[str] | None = None,
        conversation: str | None = None,
        timeout_s: Seconds = None,
    ) -> Iterator[str]:
        """As `detokenize_text`, for a text in chunks, such as the answer of a language model.

        What may be a part of a token waits for the next chunk. Each chunk is one request, with
        `timeout_s` of its own.
        """
        named = named_tokens(only, conversation)
        rest = ""
        for chunk in chunks:
            text, rest = self._run(
                self._asking(DETOKENIZE, timeout_s, detokenize_piece, rest + chunk, named)
            )
            if text:
                yield text
        if rest:
            last = self._asking(DETOKENIZE, timeout_s, detokenize_text, rest, named)
            yield self._run(last).text

    def policy_in_force(self, *, timeout_s: Seconds = None) -> PolicyInForce:
        """The fields of the policy in force.

        Raises StandinError with the code `not_found` when the vault has no policy.
        """
        return self._run(self._asking("policy", timeout_s, Call.policy_in_force))

    def health(self, *, timeout_s: Seconds = None) -> Health:
        """Asks the service for its health, once. Status `error` does not raise."""
        return self._run(self._asking("health", timeout_s, Call.health))

    def close(self) -> None:
        """Closes the connections. The next call opens others."""
        if self._own_http is not None:
            self._own_http.close()
            self._own_http = None

    def __enter__(self) -> Standin:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, work: Work[T]) -> T:
        requests = list(islice(work.requests, 2))
        if len(requests) > 1:
            self._run_together(chain(requests, work.requests))
        elif requests:
            _drive(requests[0], self._http(), threading.Event())
        return work.result()

    def _run_together(self, requests: Iterator[Steps[None]]) -> None:
        http, lock, ended = self._http(), threading.Lock(), threading.Event()

        def next_steps() -> Steps[None] | None:
            with lock:
                return next(requests, None)

        def work_off() -> None:
            while not ended.is_set() and (steps := next_steps()) is not None:
                _drive(steps, http, ended)

        count = self._settings.concurrency
        pool = ThreadPoolExecutor(count, thread_name_prefix="standin")
        try:
            for done in as_completed([pool.submit(work_off) for _ in range(count)]):
                done.result()
        finally:
            # Does not wait for requests that are still running.
            ended.set()
            pool.shutdown(wait=False)

    def _http(self) -> httpx.Client:
        if self._given_http is not None:
            return self._given_http
        # A forked process must not read the answers of its parent.
        if self._own_http is None or self._pid != os.getpid():
            self._own_http = httpx.Client(trust_env=False)
            self._pid = os.getpid()
        return self._own_http


def _drive(steps: Steps[None], http: httpx.Client, ended: threading.Event) -> None:
    given: Given = None
    while True:
        try:
            step = steps.send(given)
        except StopIteration:
            return
        if isinstance(step, Attempt):
            given = _attempt(step, http)
        elif ended.wait(step.seconds):
            return
        else:
            given = None


def _attempt(step: Attempt, http: httpx.Client) -> Answer | NoAnswer:
    end_s = monotonic() + step.timeout_s
    try:
        with http.stream(
            step.method,
            step.url,
            headers=step.headers,
            content=step.body,
            timeout=step.timeout_s,
            follow_redirects=False,
        ) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                # The time-outs of httpx are for each read.
                if monotonic() > end_s:
                    return TIMED_OUT
            return Answer(response.status_code, bytes(body), response.headers)
    except httpx.HTTPError as error:
        return no_answer(error)
