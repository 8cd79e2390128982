"""Copies the topic `customers` to `customers-tokens`, with tokens in place of personal data.

    pip install kafka-python ../../clients/python
    STANDIN_API_KEY=stk_... python3 tokenize_topic.py

After a crash it sends the last messages again. A deterministic client gives them the same tokens.
A message that is not JSON ends it: nothing goes on in clear. Deletions of a compacted topic go on.
"""

import json
import os

from kafka import KafkaConsumer, KafkaProducer

from standin import Standin

FIELDS = ("name", "email")

servers = os.environ.get("KAFKA_SERVERS", "127.0.0.1:9092")
standin = Standin(
    os.environ.get("STANDIN_URL", "http://127.0.0.1:8080"), os.environ["STANDIN_API_KEY"]
)
consumer = KafkaConsumer(
    "customers",
    bootstrap_servers=servers,
    group_id="standin",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
)
producer = KafkaProducer(bootstrap_servers=servers, acks="all")


def copy(messages) -> None:
    customers = [message.value and json.loads(message.value) for message in messages]
    # One request for all of them: requests cost more than values.
    values = [{name: one[name] for name in FIELDS if one and one.get(name)} for one in customers]
    tokens = standin.tokenize({"customers": values})["customers"]
    sent = []
    for message, customer, replaced in zip(messages, customers, tokens):
        text = customer and json.dumps({**customer, **replaced}).encode()
        to = ("customers-tokens", text, message.key)
        sent.append(producer.send(*to, headers=message.headers, timestamp_ms=message.timestamp))
    for each in sent:
        each.get(timeout=30)
    # Only now, so that no message is lost.
    consumer.commit()


while True:
    by_partition = consumer.poll(timeout_ms=1000, max_records=500)
    if by_partition:
        copy([message for messages in by_partition.values() for message in messages])
