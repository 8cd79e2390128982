"""Columns of tables, a slice of their values after the other, with progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ._sync import Standin
from .errors import InvalidValueError

# Each slice is a call with a deadline of its own.
SLICE = 20_000
SECONDS_BETWEEN_LINES = 5.0

Operation = Callable[[Standin, list[str]], list[str]]


def tokenize(client: Standin, values: list[str]) -> list[str]:
    return client.tokenize_values(values)


def detokenize(client: Standin, values: list[str]) -> list[str]:
    return client.detokenize_values(values)


def replaced(
    client: Standin, operation: Operation, values: Sequence[str], name: str, is_shown: bool
) -> list[str]:
    """The strings for distinct values, in their order.

    Raises InvalidValueError whose path is the name of the column.
    """
    found: list[str] = []
    with _progress(f"{operation.__name__} {name}", len(values), is_shown) as advance:
        for start in range(0, len(values), SLICE):
            part = list(values[start : start + SLICE])
            try:
                found += operation(client, part)
            except InvalidValueError as error:
                raise InvalidValueError.at(name, error.reason, error) from None
            advance(len(part))
    return found


@contextmanager
def _progress(title: str, total: int, is_shown: bool) -> Iterator[Callable[[int], object]]:
    """A bar of tqdm if that is installed, else lines on standard error."""
    if not is_shown:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield _Lines(title, total).advance
        return
    with tqdm(total=total, desc=title, unit=" values", unit_scale=True) as bar:
        yield bar.update


class _Lines:
    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._done = 0
        self._last_s = time.monotonic()

    def advance(self, count: int) -> None:
        self._done += count
        now_s = time.monotonic()
        if self._done < self._total and now_s - self._last_s < SECONDS_BETWEEN_LINES:
            return
        self._last_s = now_s
        print(f"{self._title}: {self._done:,} of {self._total:,} values", file=sys.stderr)
