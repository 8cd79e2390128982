"""What a call sends for the caller's data, and what the answers come to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ._answers import Answer, Unapplied, bad_answer, check_passed, parse_body, unapplied_in
from ._call import Call, Steps, Work
from ._data import MISSING, Batch, Place, answer_at, batches_of, copy_at, member_of, to_json
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

        data, unapplied, answer = yield from _send(call, batch.body, path_for)
        check_passed(call.operation, answer)
        texts = member_of(data, "values")
        for i, value in enumerate(batch.items):
            replaced[value] = _checked(call, member_of(texts, i), answer)
        for path, reason in unapplied:
            reasons[value_in(path)] = reason

    def result() -> Lenient[Any]:
        left = [Unapplied(one.path, reasons[one.value]) for one in places if one.value in reasons]
        for one in places:
            one.holder[one.name] = replaced[one.value]
        return Lenient(root.value, left)

    values = dict.fromkeys(one.value for one in places)
    items = ((value, to_json(value), 1) for value in values)
    return Work(map(ask, batches_of(call, b'{"data":{"values":[', items, b"]}}")), result)


def replace_records(call: Call, root: Place) -> Work[Lenient[Any]]:
    """Replaces what the policy names in a record, or in a list of records, which can be split.

    Without a policy, the service would replace every string, so it must have one.
    """
    is_list = isinstance(root.value, list)
    if is_list:
        root.holder[root.name] = list(root.value)
    tops = [root.inside(i) for i in range(len(root.value))] if is_list else [root]
    # A record, and the places of its strings.
    records = [(top, [one for one in copy_at(top) if isinstance(one.value, str)]) for top in tops]
    left: dict[int, list[Unapplied]] = {}

    def ask(batch: Batch[tuple[Place, list[Place]]]) -> Steps[None]:
        def path_for(path: str) -> str:
            return _INDEX.sub(lambda found: f"data[{batch.start + int(found[1])}]", path)

        data, unapplied, answer = yield from _send(call, batch.body, path_for)
        for i, (top, strings) in enumerate(batch.items):
            record = member_of(data, i) if is_list else data
            for one in strings:
                one.holder[one.name] = _checked(call, answer_at(one, top, record), answer)
        left[batch.start] = [Unapplied(path_for(path), reason) for path, reason in unapplied]

    def result() -> Lenient[Any]:
        return Lenient(root.value, [one for start in sorted(left) for one in left[start]])

    items = ((one, to_json(one[0].value), len(one[1])) for one in records)
    head, tail = (b'{"data":[', b"]}") if is_list else (b'{"data":', b"}")
    return Work(map(ask, batches_of(call, head, items, tail)), result)


_VALUE = re.compile(r"data\.values\[(\d{1,9})\]", re.ASCII)
_INDEX = re.compile(r"^data\[(\d{1,9})\]", re.ASCII)


def _send(
    call: Call, body: bytes, path_for: PathFor
) -> Steps[tuple[Any, list[Unapplied], Answer]]:
    try:
        answer = yield from call.send(body)
    except StandinError as error:
        raise in_terms_of(error, path_for) from None
    parsed = parse_body(answer.body)
    unapplied = unapplied_in(call.operation, answer, parsed.get("unapplied"))
    return parsed.get("data"), unapplied, answer


def _checked(call: Call, given: Any, answer: Answer) -> str | None:
    if isinstance(given, str) or (given is None and call.operation == "lookup"):
        return given
    raise bad_answer(call.operation, answer)
