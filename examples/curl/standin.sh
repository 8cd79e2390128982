#!/bin/sh
# Replaces values with tokens, and turns the tokens back into values. Needs curl 7.84 or newer.
#
#   STANDIN_API_KEY=stk_... sh standin.sh
set -eu
: "${STANDIN_API_KEY:?set it to an API key}"
url=${STANDIN_URL:-http://127.0.0.1:8080}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# call OPERATION < request > answer
# curl retries after 408, 429, 500, 502, 503 and 504. It waits as long as Retry-After says, but gives
# up 30 s after the first request. Each request has ten seconds.
# The API key and the values go through files, because other users can see a program's arguments.
call() {
  if ! report=$(
    curl --silent --fail-with-body --output "$answer" \
      --write-out '%{http_code}, request id %header{x-request-id}' \
      --retry 30 --retry-max-time 30 --max-time 10 \
      --config /dev/fd/3 --data-binary @- "$url/api/v1/$1" 3<<CONFIG
header = "Authorization: Bearer $STANDIN_API_KEY"
header = "Content-Type: application/json"
CONFIG
  ); then
    echo "standin: $1: $report: $(cat "$answer")" >&2
    return 1
  fi
  cat "$answer"
}

# A list under the name "values" gets tokens under any policy. Of any other data, a policy can leave
# strings in clear.
tokens=$(
  call tokenize <<'JSON'
{"data":{"values":["Ann Lee","ann@example.com","bo@example.org"]}}
JSON
)
echo "$tokens"

# The service ignores fields beside "data", so detokenize accepts an answer of tokenize unchanged.
echo "$tokens" | call detokenize
