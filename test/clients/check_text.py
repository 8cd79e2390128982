"""Checks the texts of the clients on a service whose policy has the kind `person`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any
from unittest import TestCase

from standin import AsyncStandin, InvalidValueError, Span, Standin, UnappliedSpan

PLACE = (os.environ["STANDIN_URL"], os.environ["STANDIN_API_KEY"])
TEXT = "👩🏽 (Ann Lee) wrote: Bo's 📧 isn't known. 我叫Bo 👋"
CODE = 'enum { EOF_TOK, NUM_TOK };\nmax\\_tok = "5"; // \\_TOK'
SPANS = [
    Span(TEXT.index(value), TEXT.index(value) + len(value), "person") for value in ("Ann Lee", "Bo")
]
raises = TestCase().assertRaisesRegex

with Standin(*PLACE) as client:
    tokenized = client.tokenize_text(TEXT, SPANS)
    assert "Ann Lee" not in tokenized.text
    for span in tokenized.spans:
        assert tokenized.text[span.start : span.end].endswith("_tok")
    restored = client.detokenize_text(tokenized.text + " nobodyhere_tok")
    assert restored.text == TEXT + " nobodyhere_tok"
    end = len(tokenized.text)
    assert restored.unapplied == [UnappliedSpan(end + 1, end + 15, "unknown")]
    for text, whole in ((tokenized.text, TEXT), (CODE, CODE)):
        for cut in range(len(text) + 1):
            assert "".join(client.detokenize_stream([text[:cut], text[cut:]])) == whole, cut
    assert list(client.detokenize_stream([])) == []
    begun = client.tokenize_text("Ann Lee", [Span(0, 7, "person")], conversation=True)
    grown = client.tokenize_text("Eve", [Span(0, 3, "person")], conversation=begun.conversation)
    mail, first = f"{begun.text}, {grown.text}", begun.conversation
    assert client.detokenize_text(mail, conversation=grown.conversation).text == "Ann Lee, Eve"
    assert client.detokenize_text(mail, conversation=first).unapplied[0].reason == "excluded"
    assert client.detokenize_text(mail, only=[grown.text], conversation=first).text == "Ann Lee, Eve"
    assert client.detokenize_text(mail, only=[]).text == mail
    for size in (1, 5):
        pieces = [mail[at : at + size] for at in range(0, len(mail), size)]
        stream = client.detokenize_stream(pieces, conversation=first)
        assert "".join(stream) == f"Ann Lee, {grown.text}"
    with raises(InvalidValueError, r"^data.spans\[0\]: "):
        client.tokenize_text(TEXT, [Span(0, len(TEXT) + 1, "person")])
    pair: Any = (0, 1, "person")
    with raises(ValueError, r"^spans: must be a list of Span\(start, end, kind\)$"):
        client.tokenize_text(TEXT, [pair])


async def check() -> None:
    async def letters() -> AsyncIterator[str]:
        for letter in same.text:
            yield letter

    async with AsyncStandin(*PLACE) as client:
        same = await client.tokenize_text(TEXT, SPANS)
        assert same == tokenized
        assert (await client.detokenize_text(same.text)).text == TEXT
        assert "".join([piece async for piece in client.detokenize_stream(letters())]) == TEXT
        stream = client.detokenize_stream(letters(), only=iter(()))
        assert "".join([piece async for piece in stream]) == same.text


asyncio.run(check())
print("ok")
