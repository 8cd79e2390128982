"""What the two clients share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ._call import Call, Steps, Work, one_request
from ._data import copy_at, places_at, refused, root_of
from ._options import Retry, Settings, check_credential, check_timeout, check_url, check_whole
from ._replace import Lenient, replace_records, replace_strings

Http = TypeVar("Http")
T = TypeVar("T")
Same = TypeVar("Same", bound="Client[Any]")
LENIENT = "handling=lenient"
Fields = Sequence[str] | None
Seconds = float | None
# Any dict or list. A TypedDict is a Mapping, too.
AnyRecord = Mapping[str, object] | list[Any]
Record = TypeVar("Record", bound=AnyRecord)


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
        if not isinstance(policy, bool):
            raise ValueError("policy: must be True or False")
        self._settings = Settings(
            url=check_url(url),
            api_key=check_credential(api_key),
            timeout_s=check_timeout(timeout_s),
            max_values=check_whole("max_values", max_values, 1_000_000),
            max_bytes=check_whole("max_bytes", max_bytes, 67_108_864),
            concurrency=check_whole("concurrency", concurrency, 64),
            policy=policy,
            on_retry=on_retry or (lambda _: None),
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

    def _asking(
        self, operation: str, timeout_s: Seconds, ask: Callable[..., Steps[T]], *given: object
    ) -> Work[T]:
        return one_request(ask(Call(self._settings, operation, timeout_s), *given))

    def _replacing(
        self, operation: str, data: Record, fields: Fields, timeout_s: Seconds, prefer: str = ""
    ) -> Work[Lenient[Record]]:
        """Raises InvalidValueError and ValueError."""
        policy = self._settings.policy
        headers = {"If-Match": self._settings.policy_tag} if policy else {}
        if prefer:
            headers["Prefer"] = prefer
        call = Call(self._settings, operation, timeout_s, headers)
        root = root_of(data)
        if not isinstance(data, (dict, list)):
            raise refused(root, "must be a dict or a list")
        if policy and fields is not None:
            raise ValueError("fields: leave them out, because the policy names the fields")
        if policy:
            return replace_records(call, root)
        places = copy_at(root) if fields is None else places_at(root, fields)
        return replace_strings(call, root, places)

    def _values(
        self, operation: str, values: Iterable[str], timeout_s: Seconds
    ) -> Work[Lenient[list[str]]]:
        """With a policy, values are of the kind `text`."""
        if isinstance(values, str):
            raise ValueError(f"{operation}_values: takes a list of strings, not one")
        root = root_of(list(values))
        return replace_strings(Call(self._settings, operation, timeout_s), root, copy_at(root))
