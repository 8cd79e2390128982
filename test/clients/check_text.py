"""Checks the texts of the clients on a service whose policy has the kind `person`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from standin import AsyncStandin, InvalidValueError, Span, Standin, UnappliedSpan

PLACE = (os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"])
TEXT = "👩🏽 (Ann Lee) wrote: Bo's 📧 isn't known. 我叫Bo 👋"
SPANS = [
    Span(TEXT.index(value), TEXT.index(value) + len(value), "person") for value in ("Ann Lee", "Bo")
]

with Standin(*PLACE) as client:
    tokenized = client.tokenize_text(TEXT, SPANS)
    assert "Ann Lee" not in tokenized.text
    for span in tokenized.spans:
        assert tokenized.text[span.start : span.end].endswith("_tok")
    restored = client.detokenize_text(tokenized.text + " nobodyhere_tok")
    assert restored.text == TEXT + " nobodyhere_tok"
    end = len(tokenized.text)
    assert restored.unapplied == [UnappliedSpan(end + 1, end + 15, "unknown")]
    for cut in range(len(tokenized.text) + 1):
        pieces = client.detokenize_stream([tokenized.text[:cut], tokenized.text[cut:]])
        assert "".join(pieces) == TEXT, cut
    code = 'enum { EOF_TOK, NUM_TOK };\nmax\\_tok = "5"; // \\_TOK'
    for cut in range(len(code) + 1):
        assert "".join(client.detokenize_stream([code[:cut], code[cut:]])) == code, cut
    assert list(client.detokenize_stream([])) == []
    try:
        client.tokenize_text(TEXT, [Span(0, len(TEXT) + 1, "person")])
        raise AssertionError("a span behind the end")
    except InvalidValueError as error:
        assert error.path == "data.spans[0]", error
    try:
        client.tokenize_text(TEXT, [(0, 1, "person")])  # type: ignore[list-item]
        raise AssertionError("a tuple for a span")
    except ValueError as error:
        assert str(error) == "spans: must be a list of Span(start, end, kind)", error


async def check() -> None:
    async def letters() -> AsyncIterator[str]:
        for letter in same.text:
            yield letter

    async with AsyncStandin(*PLACE) as client:
        same = await client.tokenize_text(TEXT, SPANS)
        assert same == tokenized
        assert (await client.detokenize_text(same.text)).text == TEXT
        assert "".join([piece async for piece in client.detokenize_stream(letters())]) == TEXT


asyncio.run(check())
print("ok")
