"""The client of Standin, a self-hosted tokenization service."""

from ._answers import Unapplied
from ._async import AsyncStandin
from ._call import Health, PolicyField, PolicyInForce
from ._options import Retry
from ._replace import Lenient
from ._sync import Standin
from ._text import DetokenizedText, Span, TokenizedText, UnappliedSpan
from .errors import (
    ForbiddenError,
    InvalidValueError,
    LimitError,
    StandinError,
    TimeoutError,
    UnauthorizedError,
    UnavailableError,
)

__all__ = [
    "AsyncStandin", "DetokenizedText", "ForbiddenError", "Health", "InvalidValueError", "Lenient",
    "LimitError", "PolicyField", "PolicyInForce", "Retry", "Span", "Standin", "StandinError",
    "TimeoutError", "TokenizedText", "Unapplied", "UnappliedSpan", "UnauthorizedError",
    "UnavailableError",
]
