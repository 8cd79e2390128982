"""`fields`: the strings at some paths of a record."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from ._data import Place, refused, type_name

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
