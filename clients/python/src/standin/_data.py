"""The caller's data: its strings, their places, and copies with other strings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar

from .errors import InvalidValueError

# The service's limits (docs/api.md). The client sends nothing that the service would refuse.
MAX_VALUE_BYTES = 65_536
MAX_NAME_BYTES = 256
MAX_DEPTH = 16
# The service has no such limit for a record. This one ends a record that has itself inside.
MAX_RECORD_DEPTH = 200

Path = list[str | int]
T = TypeVar("T")


class Snapshot(NamedTuple):
    """A copy, which the caller cannot change during the call, and its strings in order."""

    copy: Any
    values: list[str]


# Of a Decimal only the type counts for the service, and the answer gets that of the copy.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=lambda _: 0).encode


def to_json(data: object) -> bytes:
    text = _encode(data)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, at a place of a record that the policy does not name.
        return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def snapshot(data: object) -> Snapshot:
    """Raises InvalidValueError with the path of the faulty value, never with the value."""
    if not isinstance(data, (dict, list)):
        raise refused(["data"], f"must be a dict or a list, not {_type_name(data)}")
    values: list[str] = []
    return Snapshot(_copied(data, ["data"], values, MAX_DEPTH), values)


def snapshot_of_record(record: object, path: Path) -> Snapshot:
    """Of a record, of which the service checks only what the policy names."""
    if not isinstance(record, dict):
        raise refused(path, f"must be a record, a dict, not {_type_name(record)}")
    values: list[str] = []
    return Snapshot(_copied(record, path, values, MAX_RECORD_DEPTH, True), values)


def _copied(
    data: object, path: Path, values: list[str], max_depth: int, is_record: bool = False
) -> Any:
    if isinstance(data, str):
        if not is_record:
            check_text(data, path)
        values.append(data)
        return data
    if is_record and _is_other(data):
        return data
    if not isinstance(data, (dict, list)):
        raise _not_json(data, path) if is_record else _not_a_string(data, path)
    if len(path) > max_depth:
        raise refused(path, f"is nested deeper than {max_depth} levels")

    def inside(name: str | int, one: object) -> Any:
        path.append(name)
        copy = _copied(one, path, values, max_depth, is_record)
        path.pop()
        return copy

    if isinstance(data, list):
        return [inside(i, one) for i, one in enumerate(data)]
    for name in data:
        _check_name(name, path)
    return {name: inside(name, one) for name, one in data.items()}


def _is_other(data: object) -> bool:
    """What JSON has besides strings, lists and objects."""
    if isinstance(data, (float, Decimal)):
        return math.isfinite(data)
    return data is None or isinstance(data, (bool, int))


def rebuilt(data: Any, replace: Callable[[str, Any], Any], twin: Any = None) -> Any:
    """A copy of `data` with every string replaced.

    `replace` gets the string, and what `twin`, an answer of the same structure, has at its path.
    """
    if isinstance(data, str):
        return replace(data, twin)
    if isinstance(data, list):
        twins = twin if isinstance(twin, list) and len(twin) == len(data) else [None] * len(data)
        return [rebuilt(one, replace, other) for one, other in zip(data, twins)]
    if isinstance(data, dict):
        others = twin if isinstance(twin, dict) else {}
        return {name: rebuilt(one, replace, others.get(name)) for name, one in data.items()}
    return data


def places(data: Any, path: Path) -> Iterator[tuple[str, str]]:
    """Every string of a copy, with its path as text."""
    if isinstance(data, (dict, list)):
        for name, one in enumerate(data) if isinstance(data, list) else data.items():
            yield from places(one, [*path, name])
    elif isinstance(data, str):
        yield data, path_text(path)


@dataclass(frozen=True)
class Batch(Generic[T]):
    """Consecutive items in one request, and its body."""

    items: list[T]
    start: int
    """The index of the first item."""
    body: bytes


@dataclass(frozen=True)
class Form(Generic[T]):
    """How a list of items is sent."""

    head: bytes
    tail: bytes
    json_of: Callable[[T], bytes]
    count_of: Callable[[T], int]
    """How many values of an item the service may have to replace."""


VALUES: Form[str] = Form(b'{"data":{"values":[', b"]}}", to_json, lambda _: 1)
# With a policy, the service takes a list of records.
RECORDS: Form[Snapshot] = Form(
    b'{"data":[', b"]}", lambda one: to_json(one.copy), lambda one: len(one.values)
)


def batches_of(
    items: Iterable[T], form: Form[T], max_values: int, max_bytes: int
) -> Iterator[Batch[T]]:
    """Splits lazily. An item that is too large by itself gets a batch of its own."""
    # Each item counts with its comma; the last item has none.
    empty_bytes = len(form.head) + len(form.tail) - 1
    batch: list[T] = []
    written: list[bytes] = []
    start, values, size = 0, 0, empty_bytes

    def made() -> Batch[T]:
        return Batch(batch, start, form.head + b",".join(written) + form.tail)

    for item in items:
        text, count = form.json_of(item), form.count_of(item)
        more = len(text) + 1
        if batch and (values + count > max_values or size + more > max_bytes):
            yield made()
            start += len(batch)
            batch, written, values, size = [], [], 0, empty_bytes
        batch.append(item)
        written.append(text)
        values += count
        size += more
    if batch:
        yield made()


def must_be_string(value: object, path: Path) -> str:
    """Raises InvalidValueError unless the value is a string that the service takes."""
    if not isinstance(value, str):
        raise _not_a_string(value, path)
    check_text(value, path)
    return value


def check_text(text: str, path: Path) -> None:
    size = utf8_bytes(text)
    if size is None:
        raise refused(path, "must be well-formed Unicode; it has half of a surrogate pair")
    if size > MAX_VALUE_BYTES:
        raise refused(path, f"must not be longer than {MAX_VALUE_BYTES} bytes")


def utf8_bytes(text: str) -> int | None:
    """None: no well-formed Unicode."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _check_name(name: object, path: Path) -> None:
    if not isinstance(name, str):
        raise refused(path, f"has a field name that is no str but {_type_name(name)}")
    if name == "__proto__":
        raise refused(path, "has a field named __proto__, which is not allowed")
    size = utf8_bytes(name)
    if size is None:
        raise refused(path, "has a field name that is not well-formed Unicode")
    if size > MAX_NAME_BYTES:
        raise refused(path, f"has a field name longer than {MAX_NAME_BYTES} bytes")


def _not_a_string(value: object, path: Path) -> InvalidValueError:
    return refused(path, f"must be a string, not {_type_name(value)}{_remedy(value)}")


def _not_json(value: object, path: Path) -> InvalidValueError:
    if isinstance(value, (float, Decimal)):
        return refused(path, f"must be JSON, not {value}")
    return refused(path, f"must be JSON, not {_type_name(value)}{_remedy(value)}")


def _type_name(data: object) -> str:
    return "None" if data is None else type(data).__name__


def _remedy(data: object) -> str:
    if _is_missing(data):
        return "; leave it out"
    if isinstance(data, (int, float)) and not isinstance(data, bool):
        return "; convert it to a string, because JSON numbers lose digits"
    if isinstance(data, (bytes, bytearray)):
        return "; decode it"
    return "; use str, dict and list"


def _is_missing(data: object) -> bool:
    """Also the values of pandas that mean this."""
    is_nan = isinstance(data, float) and math.isnan(data)
    return data is None or is_nan or _type_name(data) in ("NAType", "NaTType")


def refused(path: Path, reason: str) -> InvalidValueError:
    return InvalidValueError.at(path_text(path), reason)


def path_text(path: Path) -> str:
    """In the service's notation: `data.customer.emails[1]`, `data["e mail"]`."""
    root, *steps = path
    return str(root) + "".join(_step_text(step) for step in steps)


def _step_text(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
        return f".{step}"
    return f"[{json.dumps(step, ensure_ascii=False)}]"
