"""A caller of the client that openapi-generator makes for Python."""

import json
import os

from standin import (
    ApiClient,
    Configuration,
    DetokenizeRequest,
    HealthApi,
    InvalidType,
    TokenizeRequest,
    Unauthorized,
    VaultApi,
)
from standin.exceptions import BadRequestException, UnauthorizedException

url = os.environ["STANDIN_URL"]


def vault_of(api_key: str) -> VaultApi:
    return VaultApi(ApiClient(Configuration(host=url, access_token=api_key)))


vault = vault_of(os.environ["STANDIN_API_KEY"])
with open("data.json", encoding="utf-8") as file:
    data = json.load(file)
tokens = vault.tokenize(TokenizeRequest(data=data))
values = vault.detokenize(DetokenizeRequest(data=tokens.data))

try:
    vault.tokenize(TokenizeRequest(data={"age": 7}))
    raise AssertionError("a number was not refused")
except BadRequestException as error:
    refused = error.data
assert isinstance(refused, InvalidType), refused
try:
    vault_of("stk_wrong").tokenize(TokenizeRequest(data=data))
    raise AssertionError("a wrong API key was not refused")
except UnauthorizedException as error:
    unauthorized = error.data
assert isinstance(unauthorized, Unauthorized), unauthorized

health = HealthApi(ApiClient(Configuration(host=url)))
healthy = health.health()
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
    "live": health.live().status,
}
print(json.dumps(answers))
