"""The caller's data: its strings, their places, and copies with other strings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .errors import InvalidValueError

# The service's limits (docs/api.md). The client sends nothing that the service would refuse.
MAX_VALUE_BYTES = 65_536
MAX_NAME_BYTES = 256
MAX_DEPTH = 16

Path = list[str | int]

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_json(data: object) -> bytes:
    return _ENCODER.encode(data).encode()


def snapshot(data: object, *, is_record: bool = False) -> tuple[Any, list[str]]:
    """A copy, which the caller cannot change during the call, and its strings in order.

    `is_record`: numbers, booleans and None pass. Raises InvalidValueError with the path of the
    faulty value, never with the value.
    """
    if is_record and not isinstance(data, dict):
        raise refused(["data"], f"must be a dict, not {_type_name(data)}; send each record alone")
    if not isinstance(data, (dict, list)):
        raise refused(["data"], f"must be a dict or a list, not {_type_name(data)}")
    values: list[str] = []
    return _copied(data, ["data"], values, is_record), values


def _copied(data: object, path: Path, values: list[str], is_record: bool) -> Any:
    if isinstance(data, str):
        check_text(data, path)
        values.append(data)
        return data
    if is_record and (data is None or isinstance(data, (bool, int, float))):
        if isinstance(data, float) and not math.isfinite(data):
            raise refused(path, "must be finite: JSON has no such number")
        return data
    if not isinstance(data, (dict, list)):
        raise _not_a_string(data, path)
    if len(path) > MAX_DEPTH:
        raise refused(path, f"is nested deeper than {MAX_DEPTH} levels")

    def inside(name: str | int, one: object) -> Any:
        path.append(name)
        copy = _copied(one, path, values, is_record)
        path.pop()
        return copy

    if isinstance(data, list):
        return [inside(i, one) for i, one in enumerate(data)]
    for name in data:
        _check_name(name, path)
    return {name: inside(name, one) for name, one in data.items()}


def rebuilt(data: Any, replace: Callable[[Any, Any], Any], twin: Any = None) -> Any:
    """A copy of `data` with everything replaced that is no dict and no list.

    `replace` gets that, and what `twin`, an answer of the same structure, has at its path.
    """
    if not isinstance(data, (dict, list)):
        return replace(data, twin)
    if isinstance(data, list):
        twins = twin if isinstance(twin, list) and len(twin) == len(data) else [None] * len(data)
        return [rebuilt(one, replace, other) for one, other in zip(data, twins)]
    others = twin if isinstance(twin, dict) else {}
    return {name: rebuilt(one, replace, others.get(name)) for name, one in data.items()}


def places(data: Any, path: Path) -> Iterator[tuple[str, str]]:
    """Every string of a copy, with its path as text."""
    if isinstance(data, (dict, list)):
        for name, one in enumerate(data) if isinstance(data, list) else data.items():
            yield from places(one, [*path, name])
    elif isinstance(data, str):
        yield data, path_text(path)


class Batch(NamedTuple):
    """The values of one request, and its body."""

    values: list[str]
    body: bytes


_HEAD = b'{"data":{"values":['
_TAIL = b"]}}"
# Each value counts with its comma; the last value has none.
_EMPTY_BYTES = len(_HEAD) + len(_TAIL) - 1


def batches_of(values: Iterable[str], max_values: int, max_bytes: int) -> Iterator[Batch]:
    """Splits lazily. A value larger than `max_bytes` gets a batch of its own."""
    batch: list[str] = []
    written: list[bytes] = []
    size = _EMPTY_BYTES
    for value in values:
        text = to_json(value)
        more = len(text) + 1
        if batch and (len(batch) == max_values or size + more > max_bytes):
            yield Batch(batch, _HEAD + b",".join(written) + _TAIL)
            batch, written, size = [], [], _EMPTY_BYTES
        batch.append(value)
        written.append(text)
        size += more
    if batch:
        yield Batch(batch, _HEAD + b",".join(written) + _TAIL)


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


def _type_name(data: object) -> str:
    return "None" if data is None else type(data).__name__


def _remedy(data: object) -> str:
    if data is None:
        return "; leave it out"
    if isinstance(data, (int, float)):
        return "; convert it to a string, because JSON numbers lose digits"
    return "; use str, dict and list"


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
