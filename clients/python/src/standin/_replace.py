"""What a call sends for the caller's data, and what the answers come to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from . import _data
from ._answers import Answer, Unapplied, bad_answer, check_passed, parse_body, unapplied_in
from ._call import Call, Health, Steps, headers_of
from ._fields import Pick
from ._options import Settings
from .errors import StandinError, in_terms_of

# Each look-up confirms a guess, so the service takes few in a request.
MAX_LOOKUPS = 100

T = TypeVar("T")
PathFor = Callable[[str], str | None]


@dataclass(frozen=True)
class Lenient(Generic[T]):
    """The answer of a lenient detokenize."""

    data: T
    unapplied: list[Unapplied]


class Work(Generic[T]):
    """The requests of a call, which may be under way at once."""

    requests: Iterator[Steps[None]]

    def result(self) -> T:
        """After all requests."""
        raise NotImplementedError


class HealthCheck(Work[Health]):
    def __init__(self, settings: Settings, timeout_s: float | None) -> None:
        self._call = Call(settings, "health", timeout_s)
        self.requests = iter([self._ask()])

    def _ask(self) -> Steps[None]:
        self._health = yield from self._call.health()

    def result(self) -> Health:
        return self._health


class Replacement(Work[Any]):
    """Copies of the caller's data with strings replaced; `Lenient` ones of a lenient call."""

    def __init__(
        self, settings: Settings, operation: str, lenient: bool, timeout_s: float | None
    ) -> None:
        self._call = Call(settings, operation, timeout_s)
        self._is_lenient = lenient
        self._headers = {"Prefer": "handling=lenient"} if lenient else {}
        is_lookup = operation == "lookup"
        most = min(settings.max_values, MAX_LOOKUPS) if is_lookup else settings.max_values
        self._max_values, self._max_bytes = most, settings.max_bytes

    def result(self) -> Any:
        data = self._replaced()
        return Lenient(data, self._places()) if self._is_lenient else data

    def _replaced(self) -> Any:
        raise NotImplementedError

    def _places(self) -> list[Unapplied]:
        """Where strings stay as they were."""
        raise NotImplementedError

    def _send(self, body: bytes, path_for: PathFor) -> Steps[_Reply]:
        """`path_for`: the path in the caller's data of a path in the request."""
        headers = {**headers_of(self._call.settings), **self._headers}
        try:
            answer = yield from self._call.send(body, headers)
        except StandinError as error:
            raise in_terms_of(error, path_for) from None
        parsed = parse_body(answer.body)
        unapplied = unapplied_in(self._call.operation, answer, parsed.get("unapplied"))
        return _Reply(parsed.get("data"), unapplied, answer)

    def _checked(self, twin: Any, answer: Answer) -> str | None:
        if isinstance(twin, str) or (twin is None and self._call.operation == "lookup"):
            return twin
        raise bad_answer(self._call.operation, answer)


class _Reply(NamedTuple):
    twins: Any
    unapplied: list[Unapplied]
    answer: Answer


class Strings(Replacement):
    """All strings replaced, or those at `fields`.

    They go as lists of values, which the service replaces under any policy. Of a record, it would
    replace only what a policy names.
    """

    def __init__(
        self,
        settings: Settings,
        operation: str,
        data: object,
        fields: Sequence[str] | None,
        lenient: bool,
        timeout_s: float | None,
    ) -> None:
        """Raises InvalidValueError and ValueError for what the service would refuse."""
        super().__init__(settings, operation, lenient, timeout_s)
        self._pick = None if fields is None else Pick(data, fields)
        self._copy, values = _data.snapshot(data if self._pick is None else self._pick.values)
        self._by_value: dict[str, str | None] = {}
        self._reasons: dict[str, str] = {}
        bounds = (self._max_values, self._max_bytes)
        batches = _data.batches_of(dict.fromkeys(values), _data.VALUES, *bounds)
        self.requests = map(self._one_batch, batches)

    def _replaced(self) -> Any:
        data = _data.rebuilt(self._copy, lambda value, _: self._by_value[value])
        return data if self._pick is None else self._pick.filled(data)

    def _places(self) -> list[Unapplied]:
        strings = enumerate(_data.places(self._copy, ["data"]))
        return [
            Unapplied(path if self._pick is None else self._pick.path(i), self._reasons[value])
            for i, (value, path) in strings
            if value in self._reasons
        ]

    def _one_batch(self, batch: _data.Batch[str]) -> Steps[None]:
        def value_at(path: str) -> str | None:
            place = _PLACE_IN_BATCH.fullmatch(path)
            return batch.items[int(place[1])] if place else None

        def path_for(path: str) -> str | None:
            value = value_at(path)
            strings = enumerate(_data.places(self._copy, ["data"]))
            found = next(((i, at) for i, (one, at) in strings if one == value), None)
            if found is None or self._pick is None:
                return found and found[1]
            return self._pick.path(found[0])

        twins, unapplied, answer = yield from self._send(batch.body, path_for)
        check_passed(self._call.operation, answer)
        texts = twins.get("values") if isinstance(twins, dict) else None
        if not isinstance(texts, list) or len(texts) != len(batch.items):
            raise bad_answer(self._call.operation, answer)
        for value, text in zip(batch.items, texts):
            self._by_value[value] = self._checked(text, answer)
        for path, reason in unapplied:
            if (value_there := value_at(path)) is not None:
                self._reasons[value_there] = reason


class Records(Replacement):
    """What the policy names replaced, in a record, or in a list of records, which can be split.

    Without a policy, the service would replace every string, so it must have one.
    """

    def __init__(
        self,
        settings: Settings,
        operation: str,
        data: object,
        lenient: bool,
        timeout_s: float | None,
    ) -> None:
        """Raises InvalidValueError for what is no record."""
        super().__init__(settings, operation, lenient, timeout_s)
        self._headers["If-Match"] = settings.policy_tag
        self._is_list = isinstance(data, list)
        self._found: dict[int, Any] = {}
        self._unapplied: dict[int, list[Unapplied]] = {}
        if not isinstance(data, list):
            record = _data.snapshot_of_record(data, ["data"])
            body = _data.to_json({"data": record.copy})
            self.requests = iter([self._one_batch(_data.Batch([record], 0, body))])
            return
        records = [_data.snapshot_of_record(one, ["data", i]) for i, one in enumerate(data)]
        bounds = (self._max_values, self._max_bytes)
        batches = _data.batches_of(records, _data.RECORDS, *bounds)
        self.requests = map(self._one_batch, batches)

    def _replaced(self) -> Any:
        if not self._is_list:
            return self._found[0]
        return [self._found[i] for i in range(len(self._found))]

    def _places(self) -> list[Unapplied]:
        return [one for start in sorted(self._unapplied) for one in self._unapplied[start]]

    def _one_batch(self, batch: _data.Batch[_data.Snapshot]) -> Steps[None]:
        def path_for(path: str) -> str:
            if not self._is_list:
                return path
            return _INDEX.sub(lambda found: f"data[{batch.start + int(found[1])}]", path)

        twins, unapplied, answer = yield from self._send(batch.body, path_for)
        answers = twins if self._is_list else [twins]
        if not isinstance(answers, list) or len(answers) != len(batch.items):
            raise bad_answer(self._call.operation, answer)
        for i, (record, one) in enumerate(zip(batch.items, answers)):
            made = _data.rebuilt(record.copy, lambda _, twin: self._checked(twin, answer), one)
            self._found[batch.start + i] = made
        self._unapplied[batch.start] = [
            Unapplied(path_for(path), reason) for path, reason in unapplied
        ]


_PLACE_IN_BATCH = re.compile(r"data\.values\[(\d{1,9})\]", re.ASCII)
_INDEX = re.compile(r"^data\[(\d{1,9})\]", re.ASCII)


def replacement(
    settings: Settings,
    operation: str,
    data: object,
    fields: Sequence[str] | None,
    timeout_s: float | None,
    lenient: bool = False,
) -> Work[Any]:
    """How the client does a call. Raises InvalidValueError and ValueError."""
    if not settings.policy:
        return Strings(settings, operation, data, fields, lenient, timeout_s)
    if fields is not None:
        raise ValueError("fields: leave them out, because the policy names the fields")
    return Records(settings, operation, data, lenient, timeout_s)


def of_values(
    settings: Settings, operation: str, values: Iterable[str], timeout_s: float | None
) -> Work[list[str]]:
    """With a policy, values are of the kind `text`."""
    if isinstance(values, str):
        raise ValueError(f"{operation}_values: takes a list of strings, not one")
    return Strings(settings, operation, list(values), None, False, timeout_s)
