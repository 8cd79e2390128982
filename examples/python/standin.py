#!/usr/bin/env python3
"""Replaces values with tokens, and turns the tokens back into values.

Needs Python 3.9 or newer and only the standard library:

    STANDIN_API_KEY=stk_... python3 standin.py
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

DEADLINE_S = 30
REQUEST_TIMEOUT_S = 10


class StandinError(Exception):
    """An answer with an error status. Programs decide on `code`; `message` is for people."""

    def __init__(self, error: urllib.error.HTTPError):
        try:
            body = json.load(error)
        except ValueError:
            body = {}  # The answer comes from a proxy.
        self.status = error.code
        self.code = body.get("error")
        self.message = body.get("message")
        self.request_id = error.headers.get("X-Request-Id")
        said = f"{self.status} {self.code}"
        if self.message:
            said += f": {self.message}"
        super().__init__(f"{said} (request id {self.request_id})")


class Standin:
    def __init__(self, url: str, api_key: str):
        self._url = url
        self._headers = {
            "Authorization": f"Bearer {api_key}",
            "Content-Type": "application/json",
        }

    def tokenize(self, data: dict) -> dict:
        """Replaces every string in `data` with a token."""
        return self._call("tokenize", data)

    def detokenize(self, data: dict) -> dict:
        """Replaces every token in `data` with its value."""
        return self._call("detokenize", data)

    def _call(self, operation: str, data: dict) -> dict:
        request = urllib.request.Request(
            f"{self._url}/api/v1/{operation}",
            data=json.dumps({"data": data}).encode(),
            headers=self._headers,
        )
        give_up_s = time.monotonic() + DEADLINE_S
        while True:
            left_s = give_up_s - time.monotonic()
            try:
                timeout_s = max(1, min(left_s, REQUEST_TIMEOUT_S))
                with urllib.request.urlopen(request, timeout=timeout_s) as response:
                    return json.load(response)["data"]
            except urllib.error.HTTPError as error:
                wait_s = _retry_after_s(error)
                if wait_s is None or time.monotonic() + wait_s >= give_up_s:
                    raise StandinError(error) from None
                error.close()
            time.sleep(wait_s)


def _retry_after_s(error: urllib.error.HTTPError):
    """Seconds to wait before a retry; None: no retry."""
    if error.code not in (429, 503):
        return None
    seconds = error.headers.get("Retry-After", "")
    return int(seconds) if seconds.isdecimal() else 1


def main() -> None:
    api_key = os.environ.get("STANDIN_API_KEY")
    if not api_key:
        sys.exit("standin: set STANDIN_API_KEY to an API key")
    url = os.environ.get("STANDIN_URL", "http://127.0.0.1:8080")
    standin = Standin(url, api_key)
    customer = {"name": "Ann Lee", "emails": ["ann@example.com", "bo@example.org"]}
    try:
        tokens = standin.tokenize({"customer": customer})
        print(json.dumps(tokens))
        print(json.dumps(standin.detokenize(tokens)))
    except StandinError as error:
        sys.exit(f"standin: {error}")
    except OSError as error:
        sys.exit(f"standin: cannot reach {url}: {error}")


if __name__ == "__main__":
    main()
