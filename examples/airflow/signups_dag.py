"""Hands on the sign-ups of a day with tokens: no other task, and no XCom, sees a value.

The workers need the Python client (../../clients/python), STANDIN_URL and STANDIN_API_KEY.
"""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import Variable, dag, task

from standin import Standin


@dag(schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False)
def signups():
    # A repeated task gets the same tokens.
    @task(retries=3, retry_delay=timedelta(minutes=1))
    def tokenize(ds: str) -> list[dict]:
        file = Path(Variable.get("signups_folder"), f"{ds}.json")
        with Standin(os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"]) as standin:
            return standin.tokenize(json.loads(file.read_text()), fields=["name", "email?"])

    @task
    def load(customers: list[dict], ds: str) -> None:
        file = Path(Variable.get("signups_folder"), f"{ds}-tokens.json")
        file.write_text(json.dumps(customers))

    load(tokenize())


signups()
