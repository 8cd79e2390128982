"""What a call sends for the caller's data, and what the answers come to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ._answers import Answer, Unapplied, bad_answer, check_passed, parse_body, unapplied_in
from ._call import Call, Steps, Work
from ._data import (
    MISSING,
    VALUES,
    Batch,
    Place,
    Record,
    answer_at,
    batches_of,
    copy_at,
    member_of,
    records_form,
    root_of,
)
from .errors import StandinError, in_terms_of

T = TypeVar("T")
# The path in the caller's data of a path in the request; None: the same.
PathFor = Callable[[str], str | None]


@dataclass(frozen=True)
class Lenient(Generic[T]):
    """The answer of a lenient detokenize."""

    data: T
    unapplied: list[Unapplied]


def replace_strings(call: Call, root: Place, places: list[Place]) -> Work[Lenient[Any]]:
    """Replaces the strings at some places of a copy.

    They go as lists of values, which the service replaces under any policy. Of a record, it would
    replace only what a policy names.
    """
    replaced: dict[Any, str | None] = {}
    reasons: dict[Any, str] = {}

    def ask(batch: Batch[Any]) -> Steps[None]:
        def value_in(path: str) -> Any:
            found = _VALUE.fullmatch(path)
            return member_of(batch.items, int(found[1])) if found else MISSING

        def path_for(path: str) -> str | None:
            value = value_in(path)
            return next((one.path for one in places if one.value == value), None)

        reply = yield from _send(call, batch.body, path_for)
        check_passed(call.operation, reply.answer)
        texts = member_of(reply.data, "values")
        for i, value in enumerate(batch.items):
            replaced[value] = _checked(call, member_of(texts, i), reply.answer)
        for path, reason in reply.unapplied:
            reasons[value_in(path)] = reason

    def result() -> Lenient[Any]:
        left = [Unapplied(one.path, reasons[one.value]) for one in places if one.value in reasons]
        for one in places:
            one.holder[one.name] = replaced[one.value]
        return Lenient(root.value, left)

    values = dict.fromkeys(one.value for one in places)
    return Work(map(ask, batches_of(call, values, VALUES)), result)


def replace_records(call: Call, data: object) -> Work[Lenient[Any]]:
    """Replaces what the policy names in a record, or in a list of records, which can be split.

    Without a policy, the service would replace every string, so it must have one.
    """
    is_list = isinstance(data, list)
    root = root_of(list(data) if isinstance(data, list) else data)
    tops = [root.inside(i) for i in range(len(root.value))] if is_list else [root]
    records = [
        Record(top, [one for one in copy_at(top) if isinstance(one.value, str)]) for top in tops
    ]
    left: dict[int, list[Unapplied]] = {}

    def ask(batch: Batch[Record]) -> Steps[None]:
        def path_for(path: str) -> str:
            return _INDEX.sub(lambda found: f"data[{batch.start + int(found[1])}]", path)

        reply = yield from _send(call, batch.body, path_for)
        for i, (top, strings) in enumerate(batch.items):
            record = member_of(reply.data, i) if is_list else reply.data
            for one in strings:
                text = _checked(call, answer_at(one, top, record), reply.answer)
                one.holder[one.name] = text
        left[batch.start] = [Unapplied(path_for(path), why) for path, why in reply.unapplied]

    def result() -> Lenient[Any]:
        return Lenient(root.value, [one for start in sorted(left) for one in left[start]])

    return Work(map(ask, batches_of(call, records, records_form(is_list))), result)


_VALUE = re.compile(r"data\.values\[(\d{1,9})\]", re.ASCII)
_INDEX = re.compile(r"^data\[(\d{1,9})\]", re.ASCII)


class _Reply(NamedTuple):
    data: Any
    unapplied: list[Unapplied]
    answer: Answer


def _send(call: Call, body: bytes, path_for: PathFor) -> Steps[_Reply]:
    try:
        answer = yield from call.send(body)
    except StandinError as error:
        raise in_terms_of(error, path_for) from None
    parsed = parse_body(answer.body)
    unapplied = unapplied_in(call.operation, answer, parsed.get("unapplied"))
    return _Reply(parsed.get("data"), unapplied, answer)


def _checked(call: Call, given: Any, answer: Answer) -> str | None:
    if isinstance(given, str) or (given is None and call.operation == "lookup"):
        return given
    raise bad_answer(call.operation, answer)
