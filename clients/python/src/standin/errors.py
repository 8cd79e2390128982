"""Failed calls. No error contains a value, a token, the API key or an answer."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping
from typing import Any


class StandinError(Exception):
    """A failed call, or an answer that no other class describes."""

    code: str = ""
    """The code of the answer (docs/errors.md), or `network_error` (no answer), `timeout` (no
    answer in time), `bad_answer` (an answer that is not Standin's)."""
    status: int | None = None
    """HTTP status of the answer; None without an answer."""
    request_id: str | None = None
    """Identifies the line in the service's log; None without an answer."""
    attempts: int = 0
    """How often the client sent the request; 0 if the client refused it."""
    detail: str | None = None
    """Why there is no answer (`ECONNREFUSED`), or the service's message (`license expired`)."""

    # With the message alone, so that an error can be pickled.
    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.__dict__.update(facts)


class InvalidValueError(StandinError):
    """A value is not acceptable, or a token is not known."""

    path: str = "data"
    """The path in the caller's data: `data.customer.emails[1]`; in a list, `data[17]`."""
    reason: str = ""
    """The fault, without the path."""

    @property
    def index(self) -> int | None:
        """The index in the caller's list, from 0; None if the caller passed a dict."""
        found = re.match(r"data\[(\d+)\]", self.path)
        return int(found[1]) if found else None

    @classmethod
    def at(cls, path: str, reason: str, facts: Mapping[str, object] = {}) -> InvalidValueError:
        told = {"code": "invalid_type", **facts, "path": path, "reason": reason}
        return cls(f"{path}: {reason}", **told)


class UnauthorizedError(StandinError):
    """401: the API key is unknown, expired or revoked."""


class ForbiddenError(StandinError):
    """403: the client may not do this, or not see values of a kind."""

    path: str | None = None
    """The path of a value that the client may not see: `data.card`; None: all are refused."""
    kind: str | None = None
    """The kind of that value."""


class LimitError(StandinError):
    """429: the client exceeded a limit, and the wait is longer than the call may take."""

    retry_after_s: float = 0.0
    """When the service would accept the request, in seconds from now."""


class UnavailableError(StandinError):
    """The service does not answer, or answers 408, 500, 502, 503 or 504.

    The outcome of a tokenize call is unknown. Repeating the call does no harm.
    """


class TimeoutError(StandinError, builtins.TimeoutError):
    """The call did not end within `timeout_s`. The outcome of a tokenize call is unknown."""


def in_terms_of(error: StandinError, path_for: Callable[[str], str | None]) -> StandinError:
    """The error with the path in the caller's data of a path in the request; None: the same."""
    before = error.path if isinstance(error, (InvalidValueError, ForbiddenError)) else None
    path = None if before is None else path_for(before)
    if before is None or path is None:
        return error
    if isinstance(error, InvalidValueError):
        return InvalidValueError.at(path, error.reason, error.__dict__)
    detail = error.detail and error.detail.replace(before, path)
    facts = {**error.__dict__, "path": path, "detail": detail}
    return ForbiddenError(str(error).replace(before, path), **facts)
