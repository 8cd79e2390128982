"""A plugin of dbt-duckdb that gives SQL the function standin_tokenize(text).

It needs numpy, pyarrow, the Python client (../../clients/python), STANDIN_URL and STANDIN_API_KEY.
"""

import os

import pyarrow as pa
from dbt.adapters.duckdb.plugins import BasePlugin

from standin import Standin


class Plugin(BasePlugin):
    def configure_connection(self, conn):
        standin = Standin(os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"])

        # DuckDB passes some 2,000 rows at a time: a request or two.
        def tokenize(texts):
            values = texts.to_pylist()
            tokens = iter(standin.tokenize_values(one for one in values if one is not None))
            return pa.array([None if one is None else next(tokens) for one in values], pa.string())

        conn.create_function(
            "standin_tokenize", tokenize, ["VARCHAR"], "VARCHAR", type="arrow", side_effects=True
        )
