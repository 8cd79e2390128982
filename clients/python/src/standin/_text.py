"""Running text, such as the prompts and the answers of language models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from ._answers import REASONS, bad_answer, parse_body
from ._call import Call, Steps, headers_of
from ._data import to_json
from ._options import Settings
from ._replace import Work


@dataclass(frozen=True)
class Span:
    """A value in a text: `text[start:end]`."""

    start: int
    end: int
    kind: str
    """A kind of the policy, of shape `word` with suffix."""


@dataclass(frozen=True)
class TokenizedText:
    """A text with tokens, and where they are."""

    text: str
    spans: list[Span]


@dataclass(frozen=True)
class UnappliedSpan:
    """A token that stays: `text[start:end]` of the text that you passed."""

    start: int
    end: int
    reason: str
    """`unknown`: no such token; `forbidden`: the client may not see values of its kind."""


@dataclass(frozen=True)
class DetokenizedText:
    """A text with the values that the client may see."""

    text: str
    unapplied: list[UnappliedSpan]


T = TypeVar("T")


class TextWork(Work[T]):
    """One request about a text."""

    def __init__(
        self, settings: Settings, operation: str, data: dict[str, Any], timeout_s: float | None
    ) -> None:
        self._call = Call(settings, operation, timeout_s)
        self.requests = iter([self._send(to_json({"data": data}))])

    def _send(self, body: bytes) -> Steps[None]:
        self._answer = yield from self._call.send(body, headers_of(self._call.settings))
        parsed = parse_body(self._answer.body)
        data = parsed.get("data")
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}
        self._unapplied = parsed.get("unapplied", [])
        if not isinstance(self._data.get("text"), str):
            raise self._bad()

    def _bad(self) -> Exception:
        return bad_answer(self._call.operation, self._answer)


class TextTokenization(TextWork[TokenizedText]):
    def __init__(
        self, settings: Settings, text: str, spans: Iterable[Span], timeout_s: float | None
    ) -> None:
        given = list(spans)
        if not all(isinstance(span, Span) for span in given):
            raise ValueError("spans: must be a list of Span(start, end, kind)")
        data = {"text": text, "spans": [asdict(span) for span in given]}
        super().__init__(settings, "text/tokenize", data, timeout_s)

    def result(self) -> TokenizedText:
        try:
            spans = [Span(**span) for span in self._data["spans"]]
        except (KeyError, TypeError):
            raise self._bad() from None
        return TokenizedText(self._data["text"], spans)


class TextDetokenization(TextWork[DetokenizedText]):
    def __init__(self, settings: Settings, text: str, timeout_s: float | None) -> None:
        super().__init__(settings, "text/detokenize", {"text": text}, timeout_s)

    def result(self) -> DetokenizedText:
        if not isinstance(self._unapplied, list):
            raise self._bad()
        return DetokenizedText(self._data["text"], [self._place(one) for one in self._unapplied])

    def _place(self, one: Any) -> UnappliedSpan:
        reason = one.get("reason") if isinstance(one, dict) else None
        place = _PLACE.fullmatch(str(one.get("path"))) if reason in REASONS else None
        if place is None:
            raise self._bad()
        return UnappliedSpan(int(place[1]), int(place[2]), str(reason))


class TextPiece(TextWork[tuple[str, str]]):
    """A piece of a text that goes on: what is restored, and the end that waits."""

    def __init__(self, settings: Settings, text: str, timeout_s: float | None) -> None:
        super().__init__(settings, "text/detokenize", {"text": text, "more": True}, timeout_s)

    def result(self) -> tuple[str, str]:
        rest = self._data.get("rest", "")
        if not isinstance(rest, str):
            raise self._bad()
        return self._data["text"], rest


_PLACE = re.compile(r"data\.text\[(\d{1,9}):(\d{1,9})\]", re.ASCII)
