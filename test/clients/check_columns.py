"""Checks standin.pandas and standin.polars on a service."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import numpy as np
import pandas as pd
import polars as pl
import standin.pandas
import standin.polars
from polars.testing import assert_frame_equal
from standin import AsyncStandin, InvalidValueError, Standin

client = Standin(os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"])


def progress_of(frame: pd.DataFrame) -> str:
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        standin.pandas.tokenize(client, frame, ["text"])
    return told.getvalue()


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

# A column with anything else, or with an unknown token, is an error that names it.
for call, name, reason in (
    (standin.pandas.tokenize, "id", 'must have strings, not int64; convert it: astype("string")'),
    (standin.pandas.detokenize, "text", "is not a known token"),
):
    try:
        call(client, frame, [name], progress=False)
        raise AssertionError(name)
    except InvalidValueError as error:
        assert (error.path, error.reason) == (name, reason), error

# Columns are checked before the first request, so that no tokens are made for nothing.
nowhere = Standin("http://127.0.0.1:1", os.environ["STANDIN_API_KEY"])
twice = pd.concat([frame[["text"]], frame[["text"]]], axis=1)
for given, names, kind, said in (
    (frame, ["text", "nope"], KeyError, "nope"),
    (frame, ["text", "id"], InvalidValueError, "id: must have strings"),
    (frame, "text", ValueError, "columns: must be a list of names"),
    (twice, ["text"], ValueError, "columns: the table has several columns text; rename them"),
    (["text"], frame, ValueError, "frame: must be a DataFrame of pandas"),
):
    try:
        standin.pandas.tokenize(nowhere, given, names, progress=False)  # type: ignore[arg-type]
        raise AssertionError(names)
    except kind as error:
        assert said in str(error), error
other = AsyncStandin("http://127.0.0.1:1", os.environ["STANDIN_API_KEY"])
for wrong, named in (
    (lambda: standin.pandas.tokenize(other, frame, ["text"]), "AsyncStandin"),  # type: ignore
    (lambda: standin.pandas.tokenize(frame, nowhere, ["text"]), "DataFrame"),  # type: ignore
    (lambda: standin.polars.tokenize(nowhere, "text"), "str"),  # type: ignore
):
    try:
        wrong()
        raise AssertionError(named)
    except ValueError as error:
        assert str(error).startswith("client: must be a Standin"), error
        assert f"(this is a {named})" in str(error), error
for missing in (np.nan, pd.NA, pd.NaT):
    try:
        client.tokenize_values(["Ann Lee", missing])  # type: ignore[list-item]
        raise AssertionError(missing)
    except InvalidValueError as error:
        assert str(error).startswith("data[1]: ") and error.reason.endswith("; leave it out"), error

# A bar, and lines without tqdm.
many = pd.DataFrame({"text": [f"Row no {i}" for i in range(30_000)]})
assert "100%" in progress_of(many)
sys.modules["tqdm"] = None  # type: ignore[assignment]
lines = progress_of(many).splitlines()
assert lines[-1] == "tokenize text: 30,000 of 30,000 values", lines

# Polars: strings, categories, and a column without any.
table = pl.DataFrame(
    {"id": [1, 2, 3], "text": ["ann@example.com", None, "ann@example.com"], "none": [None] * 3}
).with_columns(category=pl.Series(["Ann Lee", "Bo Ray", None], dtype=pl.Categorical))
for one in (table, table.lazy(), table.clear()):
    expression = pl.col("text").standin.tokenize(client)  # type: ignore[attr-defined]
    done = one.lazy().with_columns(
        expression,
        standin.polars.tokenize("none", client),
        standin.polars.tokenize("category", client),
    )
    shown = done.collect()
    assert shown["text"].null_count() == one.lazy().collect()["text"].null_count()
    assert shown["text"].drop_nulls().str.ends_with("_tok").all()
    back = shown.with_columns(
        standin.polars.detokenize(pl.col("text", "category"), client),
    )
    assert_frame_equal(
        back, one.lazy().collect().with_columns(pl.col("none", "category").cast(pl.String))
    )
try:
    table.select(standin.polars.tokenize("id", client))
    raise AssertionError("numbers")
except InvalidValueError as error:
    assert "must have strings, not Int64" in str(error), error
print("ok")
