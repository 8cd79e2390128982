#!/usr/bin/env python3
"""Asks a language model about a conversation that leaves this machine without personal data.

Presidio finds names, mail addresses, phone and card numbers, Standin replaces them with tokens, and
the answer gets them back while it streams: those of this conversation, and no stranger's. Reads {"names": [...], "messages": [...]}, where
`names` are those that may occur, such as the customer's:

    pip install -r requirements.txt
    STANDIN_API_KEY=stk_... OPENAI_API_KEY=... python3 private_chat.py < conversation.json
"""

import json
import os
import sys
from collections.abc import Iterator

import httpx
from presidio_analyzer import EntityRecognizer, PatternRecognizer, RecognizerResult
from presidio_analyzer.predefined_recognizers import (
    CreditCardRecognizer,
    EmailRecognizer,
    PhoneRecognizer,
)
from standin import Span, Standin

STANDIN_URL = os.environ.get("STANDIN_URL", "http://127.0.0.1:8080")
MODEL_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")

# The kinds of policy.yaml.
KINDS = {"PERSON": "person", "EMAIL_ADDRESS": "mail", "PHONE_NUMBER": "phone", "CREDIT_CARD": "card"}


def recognizers_of(names: list[str]) -> list[EntityRecognizer]:
    recognizers = [
        # EmailRecognizer itself leaves out addresses without a public domain.
        PatternRecognizer("EMAIL_ADDRESS", patterns=EmailRecognizer.PATTERNS),
        PhoneRecognizer(),
        CreditCardRecognizer(),
    ]
    if names:
        recognizers.append(PatternRecognizer("PERSON", deny_list=names))
    return recognizers


def spans_in(text: str, recognizers: list[EntityRecognizer]) -> list[Span]:
    """What is personal. Finds that overlap become one, of the longest one's kind."""
    found = [
        one
        for recognizer in recognizers
        for one in recognizer.analyze(text, recognizer.supported_entities, None)
    ]
    groups, end = [], 0
    for one in sorted(found, key=lambda one: one.start):
        if one.start < end:
            groups[-1].append(one)
        else:
            groups.append([one])
        end = max(end, one.end)
    return [span_of(group) for group in groups]


def span_of(group: list[RecognizerResult]) -> Span:
    longest = max(group, key=lambda one: one.end - one.start)
    end = max(one.end for one in group)
    return Span(group[0].start, end, KINDS[longest.entity_type])


def ask(messages: list[dict]) -> Iterator[str]:
    """The answer of an OpenAI-compatible service, in pieces."""
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    body = {"model": MODEL, "messages": messages, "stream": True}
    url = f"{MODEL_URL}/chat/completions"
    with httpx.stream("POST", url, headers=headers, json=body, timeout=60) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            data = line.removeprefix("data:").strip()
            if not line.startswith("data:") or data == "[DONE]":
                continue
            for choice in json.loads(data)["choices"]:
                yield choice["delta"].get("content") or ""


def main() -> None:
    conversation = json.load(sys.stdin)
    recognizers = recognizers_of(conversation["names"])
    with Standin(STANDIN_URL, os.environ["STANDIN_API_KEY"]) as standin:
        messages, tokens = [], True
        for message in conversation["messages"]:
            text = message["content"]
            tokenized = standin.tokenize_text(
                text, spans_in(text, recognizers), conversation=tokens
            )
            tokens = tokenized.conversation
            messages.append({**message, "content": tokenized.text})
        for piece in standin.detokenize_stream(ask(messages), conversation=tokens):
            print(piece, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
