"""Columns of tables, a slice of their values after the other, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ._data import EVERY, Step, steps_of
from ._sync import Standin
from .errors import ForbiddenError, InvalidValueError, in_terms_of

# Each slice is a call with a deadline of its own.
SLICE = 20_000

# Also the words of the progress.
TOKENIZE = "tokenize"
DETOKENIZE = "detokenize"


def must_be_client(client: object) -> None:
    """Raises ValueError, at the call: swapped arguments would fail in words of the table."""
    if not isinstance(client, Standin):
        told = "must be a Standin; an AsyncStandin cannot fill a table"
        raise ValueError(f"client: {told} (this is a {type(client).__name__})")


def checked(client: Standin, names: Sequence[Any]) -> tuple[Standin, dict[Any, list[Step]]]:
    """The client for these columns, and the path of each in a record; no paths without a policy.

    A column has the name of its path, as for `standin tokenize --policy`. With a policy, only the
    one of now serves the client. Raises ValueError for a column that it does not name,
    StandinError.
    """
    if not client.policy:
        return client, {}
    policy = client.policy_in_force()
    known: dict[Any, list[Step]] = {}
    for field in policy.fields:
        steps = steps_of(field.path)
        is_name = len(steps) == 1 and isinstance(steps[0], str)
        known.setdefault(steps[0] if is_name else field.path, steps)
    for name in names:
        # The service would hand its values back as they are.
        if name not in known:
            raise ValueError(
                f"columns: the policy has no field {name}; add it to the policy,"
                f" or rename the column to one of {', '.join(map(str, known))}"
            )
    return client._with(policy_tag=policy.tag), known


def replaced(
    client: Standin,
    operation: str,
    values: Sequence[str],
    name: Any,
    path: list[Step] | None,
    is_shown: bool,
) -> list[str]:
    """The strings for distinct values, in their order. `path`: of `checked`.

    Raises InvalidValueError and ForbiddenError whose path is the name of the column.
    """
    found: list[str] = []
    with _progress(f"{operation} {name}", len(values), is_shown) as advance:
        for start in range(0, len(values), SLICE):
            part = list(values[start : start + SLICE])
            try:
                found += _slice(client, operation, part, path)
            except (InvalidValueError, ForbiddenError) as error:
                raise in_terms_of(error, lambda _: str(name)) from None
            advance(len(part))
    return found


def _slice(
    client: Standin, operation: str, values: list[str], path: list[Step] | None
) -> list[str]:
    if path is None:
        act = client.tokenize_values if operation == TOKENIZE else client.detokenize_values
        return act(values)
    replace = client.tokenize if operation == TOKENIZE else client.detokenize
    return [_value_in(one, path) for one in replace([_least(value, path) for value in values])]


def _least(value: str, path: list[Step]) -> Any:
    """The smallest record that has the value at the path."""
    record: Any = value
    for step in reversed(path):
        # A list has null before its item.
        record = {step: record} if isinstance(step, str) else [None] * (step or 0) + [record]
    return record


def _value_in(record: Any, path: list[Step]) -> str:
    for step in path:
        record = record[0 if step is EVERY else step]
    return str(record)


@contextmanager
def _progress(title: str, total: int, is_shown: bool) -> Iterator[Callable[[int], object]]:
    """A bar of tqdm, if that is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        is_shown = False
    if not is_shown:
        yield lambda _: None
        return
    with tqdm(total=total, desc=title, unit=" values", unit_scale=True) as bar:
        yield bar.update
