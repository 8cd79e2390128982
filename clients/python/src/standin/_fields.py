"""`fields`: the strings at some paths of a record."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from ._data import Path, must_be_string, path_text, refused
from .errors import InvalidValueError

# A step is a name, an index, or every item of a list.
EVERY: Final = None
Step = str | int | None

# A name, `[0]`, `[*]` or `["a name"]`, as in `standin tokenize --fields`.
_STEP = re.compile(
    r'\.?([^.,\[\]"?\s](?:[^.,\[\]"?]*[^.,\[\]"?\s])?)|\[(?:(\d{1,15})|(\*)|("(?:[^"\\]|\\.)*"))\]',
    re.ASCII,
)


def _parse(text: object) -> tuple[list[Step], bool]:
    """The steps, and whether the value may be missing. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("fields: must be a list of paths")
    steps: list[Step] = []
    at = 0
    while found := _STEP.match(text, at):
        name, index, every, quoted = found.groups()
        # The first name has no dot; a later name must have one.
        if name is not None and found[0].startswith(".") is (at == 0):
            break
        at = found.end()
        if name is not None:
            steps.append(name)
        elif every is not None:
            steps.append(EVERY)
        else:
            steps.append(_name_in(quoted, text) if index is None else int(index))
    is_optional = text.endswith("?")
    if at == 0 or at + is_optional != len(text):
        raise _no_path(text)
    return steps, is_optional


def steps_of(path: str) -> list[Step]:
    """Of a path such as `customer.emails[*]`. Raises ValueError."""
    return _parse(path)[0]


def _name_in(quoted: str, text: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise _no_path(text) from None


def _no_path(text: str) -> ValueError:
    return ValueError(
        f"fields: {json.dumps(text)} is no path;"
        ' write paths like email, customer.emails[*] or ["full name"]'
    )


class Pick:
    """The strings at some paths of a record, and a copy of the record to put others in."""

    def __init__(self, data: object, fields: Sequence[str]) -> None:
        """`data`: a record, or a list of records that all have the fields.

        Raises ValueError for an invalid path, InvalidValueError with the path of a faulty value.
        """
        if isinstance(fields, str) or not isinstance(fields, Sequence) or not fields:
            raise ValueError("fields: must be a list of at least one path")
        self.values: list[str] = []
        # The container in the copy, the name there, and the path in the record.
        self._places: list[tuple[Any, str | int, str]] = []
        self._root: dict[str, Any] = {"data": data}
        self._copies: dict[int, Any] = {}
        self._taken: set[str] = set()
        for steps, is_optional in map(_parse, fields):
            all_steps = [EVERY, *steps] if isinstance(data, list) else steps
            self._walk(self._root, ["data"], all_steps, is_optional)

    def filled(self, texts: Sequence[Any]) -> Any:
        """The copy with these in place of `values`."""
        for (holder, name, _), text in zip(self._places, texts):
            holder[name] = text
        return self._root["data"]

    def path(self, index: int) -> str:
        """The path in the record of a value of `values`."""
        return self._places[index][2]

    def in_terms_of(self, error: InvalidValueError) -> InvalidValueError:
        """Translates a path in `values` into the path in the record."""
        if error.index is None:
            return error
        return InvalidValueError.at(self.path(error.index), error.reason, error)

    def _walk(self, holder: Any, path: Path, steps: Sequence[Step], is_optional: bool) -> None:
        """`path` leads to a value of the holder; the steps lead on from there."""
        name = path[-1]
        is_there = name in holder if isinstance(holder, dict) else 0 <= int(name) < len(holder)
        if not is_there:
            if is_optional:
                return
            raise refused(path, "is missing; if it may be, write a question mark after the field")
        given = holder[name]
        if given is None:
            return
        if not steps:
            self._take(holder, name, path, given)
            return
        step, *rest = steps
        wanted = dict if isinstance(step, str) else list
        if not isinstance(given, wanted):
            raise refused(path, f"must be a {wanted.__name__}, as the field says")
        copy = self._copied(holder, name, given)
        for one in range(len(given)) if step is EVERY else [step]:
            self._walk(copy, [*path, one], rest, is_optional)

    def _take(self, holder: Any, name: str | int, path: Path, given: object) -> None:
        text = path_text(path)
        # Two fields may lead to one place.
        if text in self._taken:
            return
        self._taken.add(text)
        self.values.append(must_be_string(given, path))
        self._places.append((holder, name, text))

    def _copied(self, holder: Any, name: str | int, given: Any) -> Any:
        """The rest of the record stays as it is: only what is around a picked value is copied."""
        if id(given) in self._copies:
            return given
        copy = list(given) if isinstance(given, list) else dict(given)
        # The reference keeps the id from being given to another object.
        self._copies[id(copy)] = copy
        holder[name] = copy
        return copy
