"""Checks tables on a service whose policy has the fields `email` and `card`, a kind of digits."""

from __future__ import annotations

import os

import httpx
import pandas as pd
import polars as pl
import standin.pandas
import standin.polars
from standin import ForbiddenError, PolicyField, Standin, StandinError

URL = os.environ["STANDIN_URL"]
client = Standin(URL, os.environ["STANDIN_API_KEY"], policy=True)
policy = client.policy_in_force()
assert policy.fields == [
    PolicyField("email", "email"),
    PolicyField('["card no"]', "card"),
    PolicyField("customer.name", "text"),
    PolicyField("orders[1].to[*]", "text"),
]
assert policy.tag.startswith('"') and policy.version == 1, policy

# A column has the tokens of its kind, as a record has them.
rows = {"email": ["ann@example.com", None], "card no": ["4111111111111111", "5500005555555559"]}
frame = pd.DataFrame({**rows, "name": ["Ann", "Bo"]})
tokens = standin.pandas.tokenize(client, frame, ["email", "card no"], progress=False)

# A column inside a record has the name of its path, as for `standin tokenize --policy`.
deep = pd.DataFrame({"customer.name": ["Ann Lee", "Bo Ray"], "orders[1].to[*]": ["Cy Ono", None]})
hidden = standin.pandas.tokenize(client, deep, list(deep), progress=False)
assert hidden["customer.name"].str.endswith("_tok").all(), hidden
assert hidden["orders[1].to[*]"][0].endswith("_tok"), hidden
assert hidden["orders[1].to[*]"].isna().tolist() == [False, True], hidden
shown = pl.from_pandas(hidden).select(standin.polars.detokenize(pl.all(), client))
assert shown.to_dicts() == pl.from_pandas(deep).to_dicts(), shown
record = client.tokenize({"email": "ann@example.com", "card no": "4111111111111111", "name": "Ann"})
assert tokens.iloc[0].to_dict() == record, tokens
assert tokens["card no"].str.endswith(("1111_tok", "5559_tok")).all(), tokens
back = standin.pandas.detokenize(client, tokens, ["email", "card no"], progress=False)
pd.testing.assert_frame_equal(back, frame)
table = pl.DataFrame(rows).lazy()
same = table.with_columns(standin.polars.tokenize(pl.all(), client)).collect()
assert same.to_dicts() == pl.from_pandas(tokens[["email", "card no"]]).to_dicts(), same

# A column that the policy does not name would stay in clear.
told = (
    "columns: the policy has no field name; add it to the policy, or rename the column to one of"
    " email, card no, customer.name, orders[1].to[*]"
)
for act in (
    lambda: standin.pandas.tokenize(client, frame, ["name"], progress=False),
    lambda: pl.from_pandas(frame).select(standin.polars.tokenize("name", client)),
):
    try:
        act()
        raise AssertionError("a column without a kind")
    except ValueError as error:
        assert told in str(error), error

# A policy that changes meanwhile could leave a column in clear.
old = client._with(policy_tag='"of another policy"')
try:
    old.tokenize({"email": "ann@example.com"})
    raise AssertionError("another policy")
except StandinError as error:
    assert (error.code, error.status) == ("precondition_failed", 412), error
sent: list[str] = []
http = httpx.Client(event_hooks={"request": [lambda one: sent.append(one.headers.get("if-match"))]})
told_of = Standin(URL, os.environ["STANDIN_API_KEY"], policy=True, http=http)
standin.pandas.tokenize(told_of, frame, ["email"], progress=False)
assert sent == [None, policy.tag], sent

# The rights of the client hold.
courier = Standin(URL, os.environ["STANDIN_COURIER_KEY"], policy=True)
standin.pandas.detokenize(courier, tokens, ["email"], progress=False)
try:
    standin.pandas.detokenize(courier, tokens, ["email", "card no"], progress=False)
    raise AssertionError("a kind that the client may not see")
except ForbiddenError as error:
    assert (error.path, error.kind) == ("card no", "card"), error
    assert str(error).startswith("detokenize: 403 forbidden: card no: "), error
print("ok")
