"""The caller's data: a copy, the places in it, and requests with its strings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ._call import Call
from .errors import InvalidValueError

# Ends data that has itself inside.
MAX_DEPTH = 200
MISSING: Any = object()

T = TypeVar("T")


class Place(NamedTuple):
    """A place in a copy of the caller's data."""

    holder: Any
    name: str | int
    parent: Place | None = None
    """The place of the holder; None: this is the place of all data."""

    @property
    def value(self) -> Any:
        return self.holder[self.name]

    @property
    def path(self) -> str:
        """In the service's notation: `data.customer.emails[1]`, `data["e mail"]`."""
        if self.parent is None:
            return str(self.name)
        if isinstance(self.name, int):
            return f"{self.parent.path}[{self.name}]"
        is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", self.name)
        step = f".{self.name}" if is_plain else f"[{json.dumps(self.name, ensure_ascii=False)}]"
        return self.parent.path + step

    def inside(self, name: str | int) -> Place:
        return Place(self.value, name, self)


def root_of(data: object) -> Place:
    return Place({"data": data}, "data")


def member_of(answer: Any, name: str | int) -> Any:
    """Of an answer, which may be anything."""
    if isinstance(answer, dict):
        return answer.get(name, MISSING)
    is_there = isinstance(answer, list) and isinstance(name, int) and name < len(answer)
    return answer[name] if is_there else MISSING


def answer_at(place: Place, top: Place, answer: Any) -> Any:
    """What an answer to the data at `top` has at a place inside."""
    if place is top or place.parent is None:
        return answer
    return member_of(answer_at(place.parent, top, answer), place.name)


def copy_at(place: Place, depth: int = 1) -> list[Place]:
    """Copies what is at the place, so that the caller cannot change it during the call.

    Returns the places of all that is neither a list nor a dict, in order. Raises InvalidValueError
    for what JSON would change.
    """
    given = place.value
    if given is None or isinstance(given, (str, int)) or _is_finite(given):
        return [place]
    if depth > MAX_DEPTH:
        raise refused(place, f"is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(given, (dict, list)):
        told = given if isinstance(given, (float, Decimal)) else type_name(given)
        raise refused(place, f"must be JSON, not {told}; convert it, or leave it out")
    copy: Any = dict(given) if isinstance(given, dict) else list(given)
    place.holder[place.name] = copy
    found: list[Place] = []
    for name in copy if isinstance(copy, dict) else range(len(copy)):
        if isinstance(copy, dict) and not isinstance(name, str):
            raise refused(place, f"has a field name that is no str but {type_name(name)}")
        found += copy_at(place.inside(name), depth + 1)
    return found


def _is_finite(data: object) -> bool:
    return isinstance(data, (float, Decimal)) and math.isfinite(data)


def type_name(data: object) -> str:
    return "None" if data is None else type(data).__name__


def refused(place: Place, reason: str) -> InvalidValueError:
    return InvalidValueError.at(place.path, reason)


# A step is a name, an index, or every item of a list.
EVERY: Final = None
Step = str | int | None

# The steps of paths as in `standin tokenize --fields`: a name; `[0]`, `[*]` or `["a name"]`.
_NAME = r'[^.,[\]"?\s](?:[^.,[\]"?]*[^.,[\]"?\s])?'
_BRACKETS = r'\[(?:\d{1,15}|\*|"(?:[^"\\]|\\.)*")\]'
_STEP = re.compile(f"{_BRACKETS}|{_NAME}", re.ASCII)
_PATH = re.compile(rf"(?:{_NAME}|{_BRACKETS})(?:\.{_NAME}|{_BRACKETS})*\??", re.ASCII)


def steps_of(path: str) -> list[Step]:
    """Of a path such as `customer.emails[*]`. Raises ValueError."""
    if not isinstance(path, str):
        raise ValueError("fields: must be a list of paths")
    try:
        if _PATH.fullmatch(path):
            return [_step(one) for one in _STEP.findall(path)]
    except ValueError:
        pass  # A name with a wrong escape.
    raise ValueError(
        f"fields: {json.dumps(path)} is no path;"
        ' write paths like email, customer.emails[*] or ["full name"]'
    )


def _step(text: str) -> Step:
    if text == "[*]":
        return EVERY
    # Other brackets are a JSON list of one.
    step: Step = json.loads(text)[0] if text.startswith("[") else text
    return step


def places_at(root: Place, fields: Sequence[str]) -> list[Place]:
    """The places of the strings at some paths of a record, or of each record of a list.

    The rest of the record stays as it is: only what is around these strings is copied. Raises
    ValueError for an invalid path, InvalidValueError with the path of a faulty value.
    """
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not fields:
        raise ValueError("fields: must be a list of at least one path")
    in_list = [EVERY] if isinstance(root.value, list) else []
    # A reference keeps an id from being given to another object.
    copies: dict[int, Any] = {}
    # Two fields may lead to one place.
    found: dict[str, Place] = {}

    def walk(place: Place, steps: Sequence[Step], is_optional: bool) -> None:
        holder, name, _ = place
        is_there = name in holder if isinstance(holder, dict) else 0 <= int(name) < len(holder)
        if not is_there and is_optional:
            return
        if not is_there:
            raise refused(place, "is missing; if it may be, write a question mark after the field")
        given = holder[name]
        if given is None:
            return
        if not steps:
            if not isinstance(given, str):
                raise refused(place, f"must be a string, not {type_name(given)}")
            found[place.path] = place
            return
        step, *rest = steps
        wanted = dict if isinstance(step, str) else list
        if not isinstance(given, wanted):
            raise refused(place, f"must be a {wanted.__name__}, as the field says")
        if id(given) not in copies:
            given = holder[name] = wanted(given)
            copies[id(given)] = given
        for one in range(len(given)) if step is EVERY else [step]:
            walk(place.inside(one), rest, is_optional)

    for field in fields:
        walk(root, in_list + steps_of(field), field.endswith("?"))
    return list(found.values())


# Of a Decimal only the type counts for the service, and the answer gets that of the copy.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=lambda _: 0).encode


def to_json(data: object) -> bytes:
    text = _encode(data)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair.
        return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


@dataclass(frozen=True)
class Batch(Generic[T]):
    """Consecutive items in one request, and its body."""

    items: list[T]
    start: int
    """The index of the first item."""
    body: bytes


# Each look-up confirms a guess, so the service takes few in a request.
MAX_LOOKUPS = 100


def batches_of(
    call: Call, head: bytes, items: Iterable[tuple[T, bytes, int]], tail: bytes
) -> Iterator[Batch[T]]:
    """Splits lazily. An item that is too large by itself gets a batch of its own.

    `items`: each with its JSON, and the number of values that the service may replace in it.
    """
    max_values, max_bytes = call.settings.max_values, call.settings.max_bytes
    if call.operation == "lookup":
        max_values = min(max_values, MAX_LOOKUPS)
    # Each item counts with its comma; the last item has none.
    empty_bytes = len(head) + len(tail) - 1
    batch: list[T] = []
    written: list[bytes] = []
    start, values, size = 0, 0, empty_bytes
    for item, text, count in items:
        more = len(text) + 1
        if batch and (values + count > max_values or size + more > max_bytes):
            yield Batch(batch, start, head + b",".join(written) + tail)
            start += len(batch)
            batch, written, values, size = [], [], 0, empty_bytes
        batch.append(item)
        written.append(text)
        values += count
        size += more
    if batch:
        yield Batch(batch, start, head + b",".join(written) + tail)
