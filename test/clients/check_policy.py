"""Checks tables on a service whose policy has the fields `email` and `card`, a kind of digits."""

from __future__ import annotations

import os
from unittest import TestCase

import httpx
import pandas as pd
import polars as pl
import standin.pandas
import standin.polars
from standin import ForbiddenError, Standin, StandinError

PLACE = (os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"])
client = Standin(*PLACE, policy=True)
raises = TestCase().assertRaisesRegex
policy = client.policy_in_force()

# A column has the tokens of its kind, as a record has them.
rows = {"email": ["ann@example.com", None], "card no": ["4111111111111111", "5500005555555559"]}
frame = pd.DataFrame({**rows, "name": ["Ann", "Bo"]})
tokens = standin.pandas.tokenize(client, frame, ["email", "card no"], progress=False)
record = client.tokenize({"email": "ann@example.com", "card no": "4111111111111111", "name": "Ann"})
assert tokens.iloc[0].to_dict() == record, tokens
assert tokens["card no"].str.endswith(("1111_tok", "5559_tok")).all(), tokens
back = standin.pandas.detokenize(client, tokens, ["email", "card no"], progress=False)
pd.testing.assert_frame_equal(back, frame)
same = pl.DataFrame(rows).lazy().with_columns(standin.polars.tokenize(pl.all(), client)).collect()
assert same.to_dicts() == pl.from_pandas(tokens[["email", "card no"]]).to_dicts(), same

# A column inside a record has the name of its path, as for `standin tokenize --policy`.
deep = pd.DataFrame({"customer.name": ["Ann Lee", "Bo Ray"], "orders[1].to[*]": ["Cy Ono", None]})
hidden = standin.pandas.tokenize(client, deep, list(deep), progress=False)
assert hidden["customer.name"].str.endswith("_tok").all(), hidden
assert hidden["orders[1].to[*]"].dropna().str.endswith("_tok").tolist() == [True], hidden
shown = pl.from_pandas(hidden).select(standin.polars.detokenize(pl.all(), client))
assert shown.to_dicts() == pl.from_pandas(deep).to_dicts(), shown

# A column that the policy does not name would stay in clear.
told = "columns: the policy has no field name; .* to one of email, card no, customer.name, orders"
with raises(ValueError, told):
    standin.pandas.tokenize(client, frame, ["name"], progress=False)
with raises(ValueError, told):
    pl.from_pandas(frame).select(standin.polars.tokenize("name", client))

# A policy that changes meanwhile could leave a column in clear.
with raises(StandinError, "412 precondition_failed"):
    client._with(policy_tag='"of another policy"').tokenize({"email": "ann@example.com"})
sent: list[str] = []
http = httpx.Client(event_hooks={"request": [lambda one: sent.append(one.headers.get("if-match"))]})
told_of = Standin(*PLACE, policy=True, http=http)
standin.pandas.tokenize(told_of, frame, ["email"], progress=False)
assert sent == [None, policy.tag], sent

# The rights of the client hold.
courier = Standin(PLACE[0], os.environ["STANDIN_COURIER_KEY"], policy=True)
standin.pandas.detokenize(courier, tokens, ["email"], progress=False)
with raises(ForbiddenError, "^detokenize: 403 forbidden: card no: ") as forbidden:
    standin.pandas.detokenize(courier, tokens, ["email", "card no"], progress=False)
assert (forbidden.exception.path, forbidden.exception.kind) == ("card no", "card")
print("ok")
