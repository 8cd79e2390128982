"""The policy of the vault, as the client may see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._answers import bad_answer, parse_body
from ._call import Call, Steps


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


def policy_in_force(call: Call) -> Steps[PolicyInForce]:
    answer = yield from call.send()
    body: Any = parse_body(answer.body)
    try:
        fields = [PolicyField(str(one["path"]), str(one["kind"])) for one in body["fields"]]
        return PolicyInForce(int(body["version"]), answer.headers["etag"], fields)
    except (KeyError, TypeError, ValueError):
        raise bad_answer(call.operation, answer) from None
