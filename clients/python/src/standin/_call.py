"""The requests of one call, without their input and output: what to send, when, and why again.

Generators yield attempts and pauses; `_sync.py` and `_async.py` make them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from ._answers import (
    TIMED_OUT,
    Answer,
    NoAnswer,
    bad_answer,
    failure_of,
    network_failure,
    parse_body,
)
from ._options import Retry, Settings, check_timeout
from .errors import StandinError, TimeoutError

# Bounds of the random pause before an attempt: the bound doubles with each attempt.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# The client abandons an attempt without an answer after this time, or after a third of `timeout_s`
# if that is longer: the connection may lead to a dead machine. The service answers within 5 s.
SHORTEST_ATTEMPT_S = 10.0

T = TypeVar("T")


@dataclass(frozen=True)
class Health:
    """The answer of `/health`."""

    status: str
    """`ok`, or `error`: the database does not answer, or the service is shutting down."""
    timestamp: str
    """ISO 8601, UTC."""
    postgres: str
    """`ok` or `error`."""
    version: str
    """Version of the interface: 1.0.5 or 1.0.4."""


@dataclass(frozen=True)
class PolicyField:
    """The strings at a path of a record, and their kind."""

    path: str
    kind: str


@dataclass(frozen=True)
class PolicyInForce:
    """What the policy of the vault names."""

    version: int
    tag: str
    """Another one for each policy: the header ETag."""
    fields: list[PolicyField]


class Attempt(NamedTuple):
    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeout_s: float


class Pause(NamedTuple):
    seconds: float


# An attempt gives an answer or none; a pause gives None.
Given = Answer | NoAnswer | None
Steps = Generator[Attempt | Pause, Given, T]


@dataclass(frozen=True)
class Work(Generic[T]):
    """The requests of a call, which may be under way at once."""

    requests: Iterator[Steps[None]]
    result: Callable[[], T]
    """After all requests."""


def one_request(steps: Steps[T]) -> Work[T]:
    found: list[T] = []

    def ask() -> Steps[None]:
        found.append((yield from steps))

    return Work(iter([ask()]), lambda: found[0])


class Call:
    """All requests of a call, with one deadline."""

    def __init__(
        self,
        settings: Settings,
        operation: str,
        timeout_s: float | None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Raises ValueError for an invalid timeout_s."""
        self.settings = settings
        self.operation = operation
        self.timeout_s = settings.timeout_s if timeout_s is None else check_timeout(timeout_s)
        self._headers = headers or {}
        self._deadline_s = monotonic() + self.timeout_s
        # The failure that caused the latest retry.
        self._last: StandinError | None = None

    def send(self, body: bytes | None = None) -> Steps[Answer]:
        """POSTs, or GETs without a body, until a request succeeds. Raises StandinError."""
        method, path = "GET" if body is None else "POST", f"api/v1/{self.operation}"
        attempts = 0
        while True:
            attempts += 1
            # A JWT can be another for each request.
            headers = {
                "Authorization": f"Bearer {self.settings.api_key()}",
                "Content-Type": "application/json",
                **self._headers,
            }
            given = yield from self._attempt(method, path, headers, body, attempts)
            if isinstance(given, NoAnswer):
                failure = network_failure(self.operation, given, attempts)
            elif (failed := failure_of(self.operation, given)) is not None:
                failure = failed
            else:
                return given
            longest_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 10))
            # With full jitter: callers that failed together do not retry together.
            pause_s = failure.retry_after_s + random.random() * longest_s
            # The failure tells more than a time-out at the deadline would.
            if not failure.is_passing or monotonic() + pause_s >= self._deadline_s:
                raise failure.error
            self._last = failure.error
            self.settings.on_retry(Retry(failure.error, pause_s))
            yield Pause(pause_s)

    def health(self) -> Steps[Health]:
        """GETs once, without the API key. Raises StandinError without an answer of the service."""
        given = yield from self._attempt("GET", "health", {}, None, 1)
        if isinstance(given, NoAnswer):
            raise network_failure(self.operation, given, 1).error
        body = parse_body(given.body)
        if body.get("status") not in ("ok", "error"):
            raise bad_answer(self.operation, given)
        names = ("status", "timestamp", "postgres", "version")
        return Health(*(str(body.get(name)) for name in names))

    def policy_in_force(self) -> Steps[PolicyInForce]:
        answer = yield from self.send()
        body = parse_body(answer.body)
        try:
            fields = [PolicyField(str(one["path"]), str(one["kind"])) for one in body["fields"]]
            return PolicyInForce(int(body["version"]), answer.headers["etag"], fields)
        except (KeyError, TypeError, ValueError):
            raise bad_answer(self.operation, answer) from None

    def _attempt(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None, attempts: int
    ) -> Steps[Answer | NoAnswer]:
        left_s = self._deadline_s - monotonic()
        if left_s <= 0:
            raise self._ended(attempts - 1)
        longest_s = max(SHORTEST_ATTEMPT_S, self.timeout_s / 3)
        url = f"{self.settings.url}/{path}"
        given = yield Attempt(method, url, headers, body, min(left_s, longest_s))
        # Timers may be a little early, so the clock does not decide.
        if given == TIMED_OUT and left_s <= longest_s:
            raise self._ended(attempts)
        assert given is not None
        return given._replace(attempts=attempts) if isinstance(given, Answer) else given

    def _ended(self, attempts: int) -> TimeoutError:
        last = "" if self._last is None else f"; last failure: {self._last}"
        message = f"{self.operation}: no answer within {self.timeout_s:g} s{last}"
        detail = self._last and self._last.detail
        return TimeoutError(message, code="timeout", attempts=attempts, detail=detail)
