"""Tokens in columns of Polars, by an expression."""

from __future__ import annotations

import polars as pl

from . import _columns
from ._sync import Standin
from .errors import InvalidValueError


def tokenize(column: str | pl.Expr, client: Standin, *, progress: bool = False) -> pl.Expr:
    """An expression of tokens for a column of strings or categories: `pl.String`.

    Nulls stay null. Sends each distinct value once, 20,000 in a call. With a policy, the name of
    the column is the path of its values. `progress`: by tqdm, on standard error.
    Raises StandinError and ValueError when the expression is evaluated; Polars 1.0 tells them as
    its ComputeError.
    """
    return _replaced(column, client, _columns.TOKENIZE, progress)


def detokenize(column: str | pl.Expr, client: Standin, *, progress: bool = False) -> pl.Expr:
    """An expression of the values of a column of tokens. See `tokenize`."""
    return _replaced(column, client, _columns.DETOKENIZE, progress)


@pl.api.register_expr_namespace("standin")
class Namespace:
    """`pl.col("email").standin.tokenize(client)`"""

    def __init__(self, column: pl.Expr) -> None:
        self._column = column

    def tokenize(self, client: Standin, *, progress: bool = False) -> pl.Expr:
        return tokenize(self._column, client, progress=progress)

    def detokenize(self, client: Standin, *, progress: bool = False) -> pl.Expr:
        return detokenize(self._column, client, progress=progress)


def _replaced(
    column: str | pl.Expr, client: Standin, operation: str, progress: bool
) -> pl.Expr:
    _columns.must_be_client(client)

    def mapped(series: pl.Series) -> pl.Series:
        if series.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
            told = f"must have strings, not {series.dtype}; convert it: cast(pl.String)"
            raise InvalidValueError.at(series.name, told)
        name = series.name
        checked, paths = _columns.checked(client, [name])
        path = paths.get(name)
        plain = series.cast(pl.String)
        values = plain.drop_nulls().unique()
        texts = _columns.replaced(checked, operation, values.to_list(), name, path, progress)
        new = pl.Series(texts, dtype=pl.String)
        found: pl.Series = plain.replace_strict(values, new, default=None, return_dtype=pl.String)
        return found

    expr = pl.col(column) if isinstance(column, str) else column
    return expr.map_batches(mapped, return_dtype=pl.String)
