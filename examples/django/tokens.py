"""A field of Django models that stores tokens instead of values.

Install ../../clients/python, and put STANDIN_URL and STANDIN_API_KEY into your settings.
"""

from functools import cache

from django.conf import settings
from django.db import models

from standin import Standin


class Token(str):
    """What a TokenField reads from the database."""


class TokenField(models.CharField):
    """Assign or look up a value; read a Token.

    `max_length` must be at least four more than that of the value.
    """

    def from_db_value(self, value, expression, connection):
        return value and Token(value)

    def get_prep_value(self, value):
        value = super().get_prep_value(value)
        if not value or isinstance(value, Token):
            return value and str(value)
        return _standin().tokenize({"value": value})["value"]


def restore(tokens: list[Token]) -> list[str]:
    """The values behind tokens, in one request."""
    return _standin().detokenize_values(tokens)


@cache
def _standin() -> Standin:
    return Standin(settings.STANDIN_URL, settings.STANDIN_API_KEY)
