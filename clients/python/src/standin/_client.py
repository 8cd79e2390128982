"""What the two clients share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ._options import Retry, check_settings
from ._replace import Lenient, Work, of_values, replacement

Http = TypeVar("Http")
Same = TypeVar("Same", bound="Client[Any]")
# Any dict or list. A TypedDict is a Mapping, too.
Record = TypeVar("Record", bound=Mapping[str, object] | list[Any])


class Client(Generic[Http]):
    """A client of one service.

    Until `timeout_s` is over, the client retries requests that may succeed later: no answer, 408,
    429, 502, 503, 504, and 500 when the database does not answer. It waits as long as Retry-After
    says. A retry does no harm: a stored value keeps its token. In random mode a retry can leave a
    token in the vault that nobody uses.

    The client splits lists, and inputs above `max_values` or `max_bytes`, into several requests.
    A failure can then leave tokens for some of the values in the vault. A deterministic client
    gets the same tokens when it repeats the call.

    Every call raises StandinError, or ValueError for an invalid option.
    """

    def __init__(
        self,
        url: str,
        api_key: str | Callable[[], str],
        *,
        policy: bool = False,
        timeout_s: float = 30.0,
        max_values: int = 2_000,
        max_bytes: int = 900_000,
        concurrency: int = 4,
        on_retry: Callable[[Retry], None] | None = None,
        http: Http | None = None,
    ) -> None:
        """
        `api_key`: an API key, or a JWT where the service accepts them. A function is called before
        each request, also in other threads: it returns a JWT that has not expired, at once.
        `policy`: `tokenize`, `detokenize` and `lookup` take whole records, or lists of them, and
        the service replaces what the policy of the vault names. Without one, they are refused.
        `timeout_s`: for a call with all its attempts and requests.
        `max_values`, `max_bytes`: of one request.
        `concurrency`: requests at once of a split call.
        `on_retry`: called before each pause, also in other threads. Must not raise.
        `http`: your own client of httpx, for certificates or a proxy, which you close. Without
        it, the settings of proxies in the environment are ignored.

        Raises ValueError with the option and the remedy, never with the API key.
        """
        self._settings = check_settings(
            url, api_key, timeout_s, max_values, max_bytes, concurrency, policy, on_retry
        )
        self._given_http = http

    @property
    def policy(self) -> bool:
        """Whether the client sends whole records."""
        return self._settings.policy

    def _with(self: Same, **changes: Any) -> Same:
        """A client with other settings and the same connections."""
        other = copy(self)
        other._settings = replace(self._settings, **changes)
        return other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.url!r})"

    def _replacing(
        self, operation: str, data: Record, fields: Sequence[str] | None, timeout_s: float | None
    ) -> Work[Record]:
        return replacement(self._settings, operation, data, fields, timeout_s)

    def _leniently(
        self, data: Record, fields: Sequence[str] | None, timeout_s: float | None
    ) -> Work[Lenient[Record]]:
        return replacement(self._settings, "detokenize", data, fields, timeout_s, lenient=True)

    def _values(
        self, operation: str, values: Iterable[str], timeout_s: float | None
    ) -> Work[list[str]]:
        return of_values(self._settings, operation, values, timeout_s)
