"""Tokens in the columns of a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from . import _columns
from ._sync import Standin
from .errors import InvalidValueError


def tokenize(
    client: Standin, frame: pd.DataFrame, columns: Sequence[str], *, progress: bool = True
) -> pd.DataFrame:
    """A copy of `frame` with tokens in the named columns. Missing values stay missing.

    Sends each distinct value of a column once, 20,000 in a call. `progress`: on standard error.
    Raises InvalidValueError whose path is the column, StandinError, KeyError for no such column.
    """
    return _replaced(client, _columns.tokenize, frame, columns, progress)


def detokenize(
    client: Standin, frame: pd.DataFrame, columns: Sequence[str], *, progress: bool = True
) -> pd.DataFrame:
    """A copy of `frame` with values in place of the tokens of the named columns.

    See `tokenize`.
    """
    return _replaced(client, _columns.detokenize, frame, columns, progress)


def _replaced(
    client: Standin,
    operation: _columns.Operation,
    frame: pd.DataFrame,
    columns: Sequence[str],
    progress: bool,
) -> pd.DataFrame:
    if isinstance(columns, str):
        raise ValueError("columns: must be a list of names")
    copy: pd.DataFrame = frame.copy()
    for name in columns:
        copy[name] = _column(client, operation, frame[name], name, progress)
    return copy


def _column(
    client: Standin, operation: _columns.Operation, column: pd.Series, name: str, progress: bool
) -> pd.Series:
    values = list(column.dropna().unique())
    for value in values:
        if not isinstance(value, str):
            told = f"must have strings, not {type(value).__name__}; convert it: astype(str)"
            raise InvalidValueError.at(name, told)
    texts = _columns.replaced(client, operation, values, name, progress)
    found = dict(zip(values, texts))
    # Series.map would change the type of the column, and missing values to NaN.
    new = [found[one] if isinstance(one, str) else one for one in column]
    # Tokens and values have other categories than the column.
    dtype = None if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    series: pd.Series = pd.Series(new, index=column.index, name=column.name, dtype=dtype)
    return series
