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
    """A copy of `frame` with tokens in the named columns.

    Index, types and missing values stay; the order of categories is lost. Sends each distinct
    value of a column once, 20,000 in a call, after a check of all columns. With a policy, the name
    of the column is the path of its values. `progress`: by tqdm, on standard error.

    Raises KeyError for no such column; InvalidValueError, ForbiddenError whose path is the column;
    ValueError for an invalid argument; StandinError.
    """
    return _replaced(client, _columns.TOKENIZE, frame, columns, progress)


def detokenize(
    client: Standin, frame: pd.DataFrame, columns: Sequence[str], *, progress: bool = True
) -> pd.DataFrame:
    """A copy of `frame` with values in place of the tokens of the named columns.

    See `tokenize`.
    """
    return _replaced(client, _columns.DETOKENIZE, frame, columns, progress)


def _replaced(
    client: Standin, operation: str, frame: pd.DataFrame, columns: Sequence[str], progress: bool
) -> pd.DataFrame:
    _columns.must_be_client(client)
    if not isinstance(frame, pd.DataFrame):
        raise ValueError("frame: must be a DataFrame of pandas; the columns come after it")
    if isinstance(columns, str):
        raise ValueError("columns: must be a list of names")
    values_of = {name: _values(frame, name) for name in columns}
    client, paths = _columns.checked(client, columns)
    copy: pd.DataFrame = frame.copy()
    for name, values in values_of.items():
        texts = _columns.replaced(client, operation, values, name, paths.get(name), progress)
        copy[name] = _filled(frame[name], dict(zip(values, texts)))
    return copy


def _values(frame: pd.DataFrame, name: str) -> list[str]:
    """The distinct ones. Raises KeyError, ValueError and InvalidValueError."""
    column = frame[name]
    if isinstance(column, pd.DataFrame):
        raise ValueError(f"columns: the table has several columns {name}; rename them")
    values = list(column.dropna().unique())
    for value in values:
        if not isinstance(value, str):
            # With astype(str), missing values would become the text "nan".
            told = f'must have strings, not {type(value).__name__}; convert it: astype("string")'
            raise InvalidValueError.at(name, told)
    return values


def _filled(column: pd.Series, found: dict[str, str]) -> pd.Series:
    # Series.map would change the type of the column, and missing values to NaN.
    new = [found[one] if isinstance(one, str) else one for one in column]
    # Tokens and values have other categories than the column.
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    dtype = "category" if is_category else column.dtype
    series: pd.Series = pd.Series(new, index=column.index, name=column.name, dtype=dtype)
    return series
