"""A caller of the client that openapi-python-client makes."""

import json
import os

from standin import AuthenticatedClient, Client
from standin.api.health import health, live
from standin.api.vault import detokenize, tokenize
from standin.models import (
    DetokenizeAnswer,
    DetokenizeRequest,
    Healthy,
    InvalidType,
    Liveness,
    TokenizeAnswer,
    TokenizeRequest,
    Unauthorized,
)

url = os.environ["STANDIN_URL"]
client = AuthenticatedClient(base_url=url, token=os.environ["STANDIN_API_KEY"])
stranger = AuthenticatedClient(base_url=url, token="stk_wrong")
keyless = Client(base_url=url)

with open("data.json", encoding="utf-8") as file:
    data = json.load(file)
tokens = tokenize.sync(client=client, body=TokenizeRequest(data=data))
assert isinstance(tokens, TokenizeAnswer), tokens
values = detokenize.sync(client=client, body=DetokenizeRequest(data=tokens.data))
assert isinstance(values, DetokenizeAnswer), values

refused = tokenize.sync(client=client, body=TokenizeRequest(data={"age": 7}))
assert isinstance(refused, InvalidType), refused
unauthorized = tokenize.sync(client=stranger, body=TokenizeRequest(data=data))
assert isinstance(unauthorized, Unauthorized), unauthorized

healthy = health.sync(client=keyless)
assert isinstance(healthy, Healthy), healthy
alive = live.sync(client=keyless)
assert isinstance(alive, Liveness), alive

answers = {
    "tokens": tokens.data,
    "request_id": str(tokens.request_id),
    "client_id": tokens.client_id,
    "values": values.data,
    "status": values.status,
    "refused": {"error": refused.error, "message": refused.message},
    "unauthorized": {"error": unauthorized.error},
    "health": {
        "status": healthy.status,
        "timestamp": healthy.timestamp.isoformat(),
        "postgres": healthy.postgres,
        "version": healthy.version,
    },
    "live": alive.status,
}
print(json.dumps(answers))
