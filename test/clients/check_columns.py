"""Checks standin.pandas and standin.polars on a service."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any
from unittest import TestCase

import numpy as np
import pandas as pd
import polars as pl
import standin.pandas
import standin.polars
from polars.testing import assert_frame_equal
from standin import AsyncStandin, InvalidValueError, Standin

KEY = os.environ["STANDIN_API_KEY"]
client = Standin(os.environ["STANDIN_URL"], KEY)
raises = TestCase().assertRaisesRegex

# pandas: columns of each type of string, with every kind of missing value.
index = ["d", "d", "b", "a"]
texts = ["ann@example.com", None, "ann@example.com", ""]
frame = pd.DataFrame({"id": [1, 2, 3, 4], "text": texts}, index=index)
frame["object"] = pd.Series(["Ann Lee", np.nan, None, pd.NA], index=index, dtype=object)
frame["string"] = pd.Series(["Bo Ray", None, "Cy Day", ""], index=index, dtype="string")
frame["missing"] = pd.Series([None] * 4, index=index, dtype=object)
frame["category"] = pd.Series(["Ann Lee", None, "Bo Ray", "Ann Lee"], index=index).astype(
    "category"
)
columns = ["text", "object", "string", "missing", "category"]
before = frame.copy(deep=True)
tokens = standin.pandas.tokenize(client, frame, columns, progress=False)
pd.testing.assert_frame_equal(frame, before)
assert tokens["id"].equals(frame["id"])
for name in columns:
    assert (tokens[name].isna() == frame[name].isna()).all(), name
    assert tokens[name].dropna().str.endswith("_tok").all(), name
assert tokens["text"].iloc[0] == tokens["text"].iloc[2] != "ann@example.com"
assert [tokens["object"].iloc[i] for i in (2, 3)] == [None, pd.NA]
values = standin.pandas.detokenize(client, tokens, columns, progress=False)
pd.testing.assert_frame_equal(values, frame)

# An unknown token is an error that names the column.
with raises(InvalidValueError, "^text: is not a known token$"):
    standin.pandas.detokenize(client, frame, ["text"], progress=False)

# Columns are checked before the first request, so that no tokens are made for nothing.
nowhere: Any = Standin("http://127.0.0.1:1", KEY)
several: Any = AsyncStandin("http://127.0.0.1:1", KEY)
twice = pd.concat([frame[["text"]], frame[["text"]]], axis=1)
wrong: list[tuple[Any, Any, Any, type[Exception], str]] = [
    (nowhere, frame, ["text", "nope"], KeyError, "nope"),
    (nowhere, frame, ["text", "id"], InvalidValueError, "^id: must have strings, not int64; conv"),
    (nowhere, frame, "text", ValueError, "columns: must be a list of names"),
    (nowhere, twice, ["text"], ValueError, "columns: the table has several columns text; rename"),
    (nowhere, ["text"], frame, ValueError, "frame: must be a DataFrame of pandas"),
    (several, frame, ["text"], ValueError, r"client: must be a Standin.* \(this is a AsyncStandin"),
    (frame, nowhere, ["text"], ValueError, r"client: must be a Standin.* \(this is a DataFrame"),
]
for by, table, names, kind, told in wrong:
    with raises(kind, told):
        standin.pandas.tokenize(by, table, names, progress=False)
with raises(ValueError, r"client: must be a Standin.* \(this is a str"):
    standin.polars.tokenize(nowhere, "text")  # type: ignore[arg-type]
for missing in (np.nan, pd.NA, pd.NaT):
    with raises(InvalidValueError, r"^data\[1\]: must be JSON.* or leave it out$"):
        client.tokenize_values(["Ann Lee", missing])

# A bar on standard error.
many = pd.DataFrame({"text": [f"Row no {i}" for i in range(30_000)]})
with contextlib.redirect_stderr(io.StringIO()) as progress:
    standin.pandas.tokenize(client, many, ["text"])
assert "100%" in progress.getvalue()

# Polars: strings, categories, and a column without any.
data = {"id": [1, 2, 3], "text": ["ann@example.com", None, "ann@example.com"], "none": [None] * 3}
given = pl.DataFrame(data).with_columns(
    category=pl.Series(["Ann Lee", "Bo Ray", None], dtype=pl.Categorical)
)
for one in (given, given.lazy(), given.clear()):
    shown = (
        one.lazy()
        .with_columns(
            pl.col("text").standin.tokenize(client),  # type: ignore[attr-defined]
            standin.polars.tokenize("none", client),
            standin.polars.tokenize("category", client),
        )
        .collect()
    )
    plain = one.lazy().collect().with_columns(pl.col("none", "category").cast(pl.String))
    assert shown["text"].null_count() == plain["text"].null_count()
    assert shown["text"].drop_nulls().str.ends_with("_tok").all()
    back = standin.polars.detokenize(pl.col("text", "category"), client)
    assert_frame_equal(shown.with_columns(back), plain)
with raises(InvalidValueError, "must have strings, not Int64"):
    given.select(standin.polars.tokenize("id", client))
print("ok")
