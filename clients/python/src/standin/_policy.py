"""The policy of the vault, as the client may see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._answers import bad_answer, parse_body
from ._call import Call, Steps, headers_of
from ._options import Settings
from ._replace import Work


@dataclass(frozen=True)
class PolicyField:
    """The strings at a path of a record, and their kind."""

    path: str
    kind: str


@dataclass(frozen=True)
class PolicyInForce:
    """What the policy of the vault names."""

    version: int
    tag: str
    """Another one for each policy: the header ETag."""
    fields: list[PolicyField]


class PolicyQuery(Work[PolicyInForce]):
    def __init__(self, settings: Settings, timeout_s: float | None) -> None:
        self._call = Call(settings, "policy", timeout_s)
        self.requests = iter([self._ask()])

    def result(self) -> PolicyInForce:
        return self._policy

    def _ask(self) -> Steps[None]:
        answer = yield from self._call.send(None, headers_of(self._call.settings))
        body: Any = parse_body(answer.body)
        if answer.tag is None:
            raise bad_answer("policy", answer)
        try:
            fields = [PolicyField(str(one["path"]), str(one["kind"])) for one in body["fields"]]
            self._policy = PolicyInForce(int(body["version"]), answer.tag, fields)
        except (KeyError, TypeError, ValueError):
            raise bad_answer("policy", answer) from None
