"""Tokenizes the file of a day before anything else reads it.

The task needs the command `standin` and, in its environment, STANDIN_URL and STANDIN_API_KEY.
"""

from datetime import datetime, timedelta

from airflow.sdk import dag, task


@dag(schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False)
def customers():
    # A retry continues where the last attempt stopped.
    @task.bash(retries=3, retry_delay=timedelta(minutes=1), cwd="{{ var.value.customers_folder }}")
    def tokenize() -> str:
        return (
            "[ -e {{ ds }}-tokens.csv ] ||"
            " standin tokenize {{ ds }}.csv --fields name,email -o {{ ds }}-tokens.csv --resume"
        )

    tokenize()


customers()
