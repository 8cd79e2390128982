"""Checked options of a client."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from .errors import StandinError


@dataclass(frozen=True)
class Retry:
    """Why the client sends a request again, and when."""

    error: StandinError
    pause_s: float


@dataclass(frozen=True)
class Settings:
    url: str
    api_key: Callable[[], str] = field(repr=False)
    timeout_s: float
    max_values: int
    max_bytes: int
    concurrency: int
    policy: bool
    on_retry: Callable[[Retry], None]
    policy_tag: str = "*"
    """Of the only policy that may serve records; `*`: of any."""


MAX_TIMEOUT_S = 2_147_483


def check_timeout(given: float) -> float:
    """Raises ValueError."""
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if is_number and 0 < given <= MAX_TIMEOUT_S:
        return float(given)
    raise ValueError(
        f"timeout_s: must be a number of seconds, more than 0, at most {MAX_TIMEOUT_S}"
    )


def check_whole(name: str, given: int, most: int) -> int:
    if type(given) is int and 1 <= given <= most:
        return given
    raise ValueError(f"{name}: must be a whole number from 1 to {most}")


def check_url(text: str) -> str:
    parts = _split(text)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url: must be like http://127.0.0.1:8080 or https://standin.example.com")
    if "@" in parts.netloc:
        raise ValueError("url: must not contain a user or password; the API key goes in api_key")
    if parts.query or parts.fragment:
        raise ValueError("url: must not contain a query or fragment")
    base = parts.path.rstrip("/")
    if re.search(r"/(?:api/v1(?:/\w+)?|health)$", base):
        raise ValueError("url: must be the base address; the client adds /api/v1 itself")
    return f"{parts.scheme}://{parts.netloc}{base}"


def _split(text: object) -> SplitResult | None:
    if not isinstance(text, str) or not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return None
    return parts


def check_credential(given: str | Callable[[], str]) -> Callable[[], str]:
    if callable(given):
        return lambda: _api_key(given())
    key = _api_key(given)
    return lambda: key


# The service, not the client, verifies check digits and signatures.
def _api_key(text: object) -> str:
    form = r"stk_[0-9A-Za-z]{34}|[\w-]+\.[\w-]+\.[\w-]+"
    if isinstance(text, str) and re.fullmatch(form, text, re.ASCII):
        return text
    if text is None or text == "":
        raise ValueError("api_key: is missing")
    raise ValueError(
        "api_key: must be stk_ and 34 letters and digits, or a JWT, without spaces or line ends"
    )
