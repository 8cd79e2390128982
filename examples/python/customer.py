#!/usr/bin/env python3
"""Replaces values with tokens, and turns the tokens back into values.

pip install ../../clients/python
STANDIN_API_KEY=stk_... python3 customer.py
"""

import json
import os
import sys

from standin import Standin, StandinError


def main() -> None:
    api_key = os.environ.get("STANDIN_API_KEY")
    if not api_key:
        sys.exit("standin: set STANDIN_API_KEY to an API key")
    standin = Standin(os.environ.get("STANDIN_URL", "http://127.0.0.1:8080"), api_key)
    customer = {"name": "Ann Lee", "emails": ["ann@example.com", "bo@example.org"]}
    try:
        tokens = standin.tokenize({"customer": customer})
        print(json.dumps(tokens))
        print(json.dumps(standin.detokenize(tokens)))
    except StandinError as error:
        sys.exit(f"standin: {error} (request id {error.request_id})")


if __name__ == "__main__":
    main()
