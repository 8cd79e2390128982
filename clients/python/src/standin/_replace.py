"""What a call sends for the caller's data, and what the answers come to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from . import _data
from ._answers import PATH, Answer, bad_answer, parse_body
from ._call import Call, Health, Steps
from ._fields import Pick
from ._options import Settings
from .errors import InvalidValueError

# Each look-up confirms a guess, so the service takes few in a request.
MAX_LOOKUPS = 100

T = TypeVar("T")


class Unapplied(NamedTuple):
    """A place that stays as it was sent."""

    path: str
    """In the caller's data: `data.customer.email`; in a list, `data[17]`."""
    reason: str
    """`unknown`: not a known token. `forbidden`: the client may not see values of its kind."""


@dataclass(frozen=True)
class Lenient(Generic[T]):
    """The answer of a lenient detokenize."""

    data: T
    unapplied: list[Unapplied]


class Work:
    """The requests of a call, which may be under way at once."""

    requests: Iterator[Steps[None]]


class HealthCheck(Work):
    def __init__(self, settings: Settings, timeout_s: float | None) -> None:
        self._call = Call(settings, "health", timeout_s)
        self.requests = iter([self._ask()])

    def _ask(self) -> Steps[None]:
        self._health = yield from self._call.health()

    def result(self) -> Health:
        return self._health


class Replacement(Work):
    """Every string of the caller's data replaced, or those at `fields`, or as the policy says."""

    def __init__(
        self,
        settings: Settings,
        operation: str,
        data: object,
        *,
        fields: Sequence[str] | None = None,
        by_policy: bool = False,
        lenient: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Raises InvalidValueError and ValueError for what the service would refuse."""
        if fields is not None and by_policy:
            raise ValueError("fields: leave it out, or by_policy; the policy names the fields")
        self._call = Call(settings, operation, timeout_s)
        self._headers = {
            "Authorization": f"Bearer {settings.api_key}",
            "Content-Type": "application/json",
        }
        if lenient:
            self._headers["Prefer"] = "handling=lenient"
        self._pick = None if fields is None else Pick(data, fields)
        given = data if self._pick is None else self._pick.values
        self._copy, values = _data.snapshot(given, is_record=by_policy)
        self._result: Any = None
        self._unapplied: list[Unapplied] = []
        self._by_value: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}
        body = self._whole_body(values, by_policy)
        self.requests = self._batches(values) if body is None else iter([self._whole(body)])

    def result(self) -> Any:
        data = self._result
        if data is None:
            data = _data.rebuilt(self._copy, lambda value, _: self._by_value[value])
        return data if self._pick is None else self._pick.filled(data)

    def lenient_result(self) -> Lenient[Any]:
        return Lenient(self.result(), self._unapplied or list(self._unapplied_places()))

    def _max_values(self) -> int:
        most = self._call.settings.max_values
        return min(most, MAX_LOOKUPS) if self._call.operation == "lookup" else most

    def _whole_body(self, values: Sequence[str], by_policy: bool) -> bytes | None:
        """The caller's structure as one request; None: the client must split it."""
        if by_policy:
            return _data.to_json({"data": self._copy})
        # The service accepts no list as `data`.
        if isinstance(self._copy, list) or len(values) > self._max_values():
            return None
        body = _data.to_json({"data": self._copy})
        return None if len(body) > self._call.settings.max_bytes else body

    def _whole(self, body: bytes) -> Steps[None]:
        answer = yield from self._call.send(body, self._headers)
        parsed = parse_body(answer.body)
        self._result = _data.rebuilt(
            self._copy, lambda value, twin: self._checked(value, twin, answer), parsed.get("data")
        )
        self._unapplied = [Unapplied(*one) for one in _unapplied_in(parsed)]

    def _batches(self, values: Sequence[str]) -> Iterator[Steps[None]]:
        most = self._call.settings.max_bytes
        for batch in _data.batches_of(dict.fromkeys(values), self._max_values(), most):
            yield self._one_batch(batch)

    def _one_batch(self, batch: _data.Batch) -> Steps[None]:
        try:
            answer = yield from self._call.send(batch.body, self._headers)
        except InvalidValueError as error:
            raise self._in_terms_of_caller(batch, error) from None
        parsed = parse_body(answer.body)
        data = parsed.get("data")
        twins = data.get("values") if isinstance(data, dict) else None
        if not isinstance(twins, list) or len(twins) != len(batch.values):
            raise bad_answer(self._call.operation, answer)
        for value, twin in zip(batch.values, twins):
            self._by_value[value] = self._checked(value, twin, answer)
        for path, reason in _unapplied_in(parsed):
            if (place := _PLACE_IN_BATCH.fullmatch(path)) is not None:
                self._reasons[batch.values[int(place[1])]] = reason

    def _checked(self, value: Any, twin: Any, answer: Answer) -> Any:
        """What stands in the place of a string, or, in a record, of anything else."""
        if not isinstance(value, str):
            is_right = twin == value and isinstance(twin, bool) == isinstance(value, bool)
        else:
            is_right = isinstance(twin, str) or (twin is None and self._call.operation == "lookup")
        if not is_right:
            raise bad_answer(self._call.operation, answer)
        return twin

    def _in_terms_of_caller(
        self, batch: _data.Batch, error: InvalidValueError
    ) -> InvalidValueError:
        """Translates the path in the batch into the path in the caller's data."""
        place = _PLACE_IN_BATCH.fullmatch(error.path)
        if place is None:
            return error
        value = batch.values[int(place[1])]
        path = next(path for one, path in _data.places(self._copy, ["data"]) if one == value)
        told = InvalidValueError.at(path, error.reason, error)
        return told if self._pick is None else self._pick.in_terms_of(told)

    def _unapplied_places(self) -> Iterator[Unapplied]:
        if not self._reasons:
            return
        for i, (value, path) in enumerate(_data.places(self._copy, ["data"])):
            if value in self._reasons:
                told = path if self._pick is None else self._pick.path(i)
                yield Unapplied(told, self._reasons[value])


_PLACE_IN_BATCH = re.compile(r"data\.values\[(\d{1,9})\]", re.ASCII)
_ANY_PATH = re.compile(PATH, re.ASCII)


def _unapplied_in(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    given = body.get("unapplied")
    for one in given if isinstance(given, list) else []:
        fields = one if isinstance(one, dict) else {}
        path, reason = str(fields.get("path")), str(fields.get("reason"))
        if _ANY_PATH.fullmatch(path) and reason in ("unknown", "forbidden"):
            yield path, reason
