"""Running text, such as the prompts and the answers of language models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ._answers import REASONS, Answer, bad_answer, parse_body
from ._call import Call, Steps
from ._data import to_json


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
    conversation: str = ""
    """With the argument `conversation`, what the next call takes. It expires after 24 h."""


@dataclass(frozen=True)
class UnappliedSpan:
    """A token that stays: `text[start:end]` of the text that you passed."""

    start: int
    end: int
    reason: str
    """`unknown`: no such token; `forbidden`: the client may not see values of its kind; `excluded`:
    neither `only` nor `conversation` names it."""


@dataclass(frozen=True)
class DetokenizedText:
    """A text with the values that the client may see."""

    text: str
    unapplied: list[UnappliedSpan]


TOKENIZE = "text/tokenize"
DETOKENIZE = "text/detokenize"
_PLACE = re.compile(r"data\.text\[(\d{1,9}):(\d{1,9})\]", re.ASCII)


Named = dict[str, Any]


def named_tokens(only: Iterable[str] | None, conversation: str | None) -> Named:
    """Of a request: the tokens that come back. Without a name, all that are known."""
    fields = {"only": None if only is None else list(only), "conversation": conversation}
    return {name: field for name, field in fields.items() if field is not None}


def tokenize_text(
    call: Call, text: str, spans: Iterable[Span], conversation: bool | str
) -> Steps[TokenizedText]:
    given = list(spans)
    if not all(isinstance(span, Span) for span in given):
        raise ValueError("spans: must be a list of Span(start, end, kind)")
    request: dict[str, Any] = {"text": text, "spans": [asdict(span) for span in given]}
    if conversation is not False:
        request["conversation"] = conversation
    answer, data, _ = yield from _send(call, request)
    try:
        found = [Span(span["start"], span["end"], span["kind"]) for span in data["spans"]]
        return TokenizedText(data["text"], found, str(data.get("conversation", "")))
    except (KeyError, TypeError):
        raise bad_answer(call.operation, answer) from None


def detokenize_text(call: Call, text: str, named: Named) -> Steps[DetokenizedText]:
    answer, data, unapplied = yield from _send(call, {"text": text, **named})
    found = []
    for one in unapplied if isinstance(unapplied, list) else [unapplied]:
        reason = one.get("reason") if isinstance(one, dict) else None
        place = _PLACE.fullmatch(str(one.get("path"))) if reason in REASONS else None
        if place is None:
            raise bad_answer(call.operation, answer)
        found.append(UnappliedSpan(int(place[1]), int(place[2]), str(reason)))
    return DetokenizedText(data["text"], found)


def detokenize_piece(call: Call, text: str, named: Named) -> Steps[tuple[str, str]]:
    """Of a text that goes on: what is restored, and the end that waits."""
    answer, data, _ = yield from _send(call, {"text": text, "more": True, **named})
    rest = data.get("rest", "")
    if not isinstance(rest, str):
        raise bad_answer(call.operation, answer)
    return data["text"], rest


def _send(call: Call, request: dict[str, Any]) -> Steps[tuple[Answer, dict[str, Any], Any]]:
    answer = yield from call.send(to_json({"data": request}))
    body = parse_body(answer.body)
    data = body.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("text"), str):
        raise bad_answer(call.operation, answer)
    return answer, data, body.get("unapplied", [])
