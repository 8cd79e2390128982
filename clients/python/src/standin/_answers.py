"""What an answer says: a success, or a failure and whether it passes."""

from __future__ import annotations

import errno
import json
import re
import socket
import ssl
from typing import Any, NamedTuple

import httpx

from .errors import (
    ForbiddenError,
    InvalidValueError,
    LimitError,
    StandinError,
    UnauthorizedError,
    UnavailableError,
)


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: httpx.Headers
    attempts: int = 1
    """How often the client sent the request before this answer."""


class NoAnswer(NamedTuple):
    """The answer is missing or incomplete."""

    reason: str
    """Only a code of the error, because its fields may hold bytes of an answer."""
    is_lasting: bool = False


TIMED_OUT = NoAnswer("ETIMEDOUT")


class Failure(NamedTuple):
    error: StandinError
    is_passing: bool
    """Whether the same request may succeed later."""
    retry_after_s: float = 0.0
    """The least time before a retry."""


# A path such as `data.customer["e mail"][1]`, and the fault there.
PATH = r'data(?:\.[A-Za-z_][\w-]*|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*'
_PATH = re.compile(PATH, re.DOTALL | re.ASCII)
_MESSAGE = re.compile(rf"({PATH}): (.{{1,1000}})", re.DOTALL | re.ASCII)
_NO_RIGHT = re.compile(
    rf"({PATH}): this client may not see values of kind (\w{{1,32}});"
    r" an operator can allow it in the policy",
    re.DOTALL | re.ASCII,
)
# Too narrow for a value, a token or an API key.
_CODE = re.compile(r"[a-z_]{1,40}")
# The service's messages by code, word for word: those of another server could quote a value or
# the API key.
_DETAILS = {
    "internal_error": r"[a-z ]{1,100}|keys of JWT_ISSUER unavailable|Presidio unavailable"
    r"|the policy names an entity of Presidio, but PRESIDIO_URL is not set",
    "forbidden": r"this client may not (tokenize|detokenize|lookup); an operator can allow it:"
    rf" standin client update CLIENT --can [a-z,]{{1,40}}|{_NO_RIGHT.pattern}",
    "not_found": r"no such path; the paths are (/[a-z0-9/]{1,30}(, | and |)){1,12}"
    r"|the vault has no policy; an operator can apply one: standin policy apply FILE",
    "precondition_failed": r"the policy in force is not the one of If-Match;"
    r" GET /api/v1/policy answers with its ETag",
    "method_not_allowed": r"this path takes [A-Z, ]{3,40}",
    "payload_too_large": r"the body has more than \d{1,10} bytes \(BODY_LIMIT\);"
    r" send fewer values in a request",
    "unsupported_media_type": r"send one header Content-Type: application/json \(UTF-8\),"
    r" and no Content-Encoding",
}

# Statuses of a temporary failure, of the service or of a proxy before it.
_PASSING = {408, 429, 502, 503, 504}

_REMEDIES = {
    401: "the API key is unknown, expired or revoked;"
    " issue another with standin api-key issue --client NAME",
    404: "is url the address of the service itself?",
    412: "the vault has no policy, or another one since the call began; apply one, call again,"
    " or leave out policy=True",
    413: "lower max_bytes, or raise BODY_LIMIT of the service",
    429: "the client exceeded a limit, and the wait is longer than timeout_s;"
    " send less, or raise timeout_s",
    503: "the service is overloaded or draining",
}

_NOT_STANDIN = (
    "this answer comes from a proxy or another server, not from Standin;"
    " is url the address of the service itself?"
)


_CLASSES = {401: UnauthorizedError, 403: ForbiddenError, 408: UnavailableError, 429: LimitError}


def failure_of(operation: str, answer: Answer) -> Failure | None:
    """None: the answer is a success."""
    status, body = answer.status, parse_body(answer.body)
    if status == 200:
        return None
    code = _text_of(body.get("error"), _CODE) or "bad_answer"
    detail = _text_of(body.get("message"), re.compile(_DETAILS.get(code, "(?!)"), re.ASCII))
    retry_after_s = _seconds_of(body.get("retry_after", answer.headers.get("retry-after")))
    remedy = _NOT_STANDIN if code == "bad_answer" else _REMEDIES.get(status)
    said = (f"{operation}: {status} {code}", detail, remedy)
    facts = {**_facts_of(answer), "code": code, "detail": detail}
    error: StandinError
    if code == "invalid_type":
        found = _MESSAGE.fullmatch(str(body.get("message")))
        path, reason = found.groups() if found else ("data", "is not acceptable")
        error = InvalidValueError.at(path, reason, facts)
    else:
        kind = _CLASSES.get(status, UnavailableError if status >= 500 else StandinError)
        error = kind(": ".join(part for part in said if part is not None), **facts)
    if isinstance(error, ForbiddenError) and (found := _NO_RIGHT.fullmatch(detail or "")):
        error.path, error.kind = found.groups()
    if isinstance(error, LimitError):
        error.retry_after_s = retry_after_s
    is_passing = status in _PASSING or (status == 500 and detail == "database unavailable")
    return Failure(error, is_passing, retry_after_s)


def _facts_of(answer: Answer) -> dict[str, Any]:
    request_id = answer.headers.get("x-request-id")
    return {"status": answer.status, "request_id": request_id, "attempts": answer.attempts}


def network_failure(operation: str, given: NoAnswer, attempts: int) -> Failure:
    message = (
        f"{operation}: no answer from the service ({given.reason});"
        " is url right, and is the service running?"
    )
    error = UnavailableError(message, code="network_error", attempts=attempts, detail=given.reason)
    return Failure(error, not given.is_lasting)


def bad_answer(operation: str, answer: Answer) -> StandinError:
    """A status 200 without Standin's JSON, or with another structure than the request's."""
    message = f"{operation}: the answer does not match the request: {_NOT_STANDIN}"
    return StandinError(message, **_facts_of(answer), code="bad_answer")


def check_passed(operation: str, answer: Answer) -> None:
    """Raises StandinError when a path of the policy begins with `values`, and strings passed."""
    if not re.search("passed=[1-9]", answer.headers.get("standin-strings", "")):
        return
    message = (
        f"{operation}: the policy left strings in clear, because one of its paths begins with"
        " values; rename that field in the policy"
    )
    raise StandinError(message, **_facts_of(answer), code="passed")


class Unapplied(NamedTuple):
    """A place that stays as it was sent."""

    path: str
    """In the caller's data: `data.customer.email`; in a list, `data[17]`."""
    reason: str
    """`unknown`: not a known token. `forbidden`: the client may not see values of its kind."""


REASONS = ("unknown", "forbidden", "excluded")


def unapplied_in(operation: str, answer: Answer, given: object) -> list[Unapplied]:
    """The places that a lenient answer left out."""
    found = []
    for one in given if isinstance(given, list) else []:
        path, reason = (one.get("path"), one.get("reason")) if isinstance(one, dict) else ("", "")
        if not _PATH.fullmatch(str(path)) or reason not in REASONS:
            raise bad_answer(operation, answer)
        found.append(Unapplied(str(path), str(reason)))
    return found


def parse_body(text: bytes) -> dict[str, Any]:
    """Anything but a JSON object becomes {}: the error of the parser would quote the text."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _text_of(given: object, form: re.Pattern[str]) -> str | None:
    return given if isinstance(given, str) and form.fullmatch(given) else None


def _seconds_of(retry_after: object) -> float:
    """A proxy may send a date instead, which counts as 0."""
    text = str(retry_after)
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII) else 0.0


def no_answer(error: BaseException) -> NoAnswer:
    """Looks for the code in the errors that caused this one."""
    one: BaseException | None = error
    for _ in range(8):
        if isinstance(one, ssl.SSLError):
            # Certificates and versions stay wrong; a connection that ended may come back.
            return NoAnswer(one.reason or "SSL", "EOF" not in (one.reason or "EOF"))
        if isinstance(one, socket.gaierror):
            return NoAnswer("ENOTFOUND")
        if isinstance(one, TimeoutError):
            return TIMED_OUT
        if isinstance(one, OSError) and one.errno is not None and one.errno in errno.errorcode:
            return NoAnswer(errno.errorcode[one.errno])
        if one is not None:
            one = one.__cause__ or one.__context__
    return NoAnswer(type(error).__name__)
