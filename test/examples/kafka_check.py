"""Sends customers to the topic that the Kafka recipe reads, and prints what it made of them."""

import json
import os

from kafka import KafkaConsumer, KafkaProducer

CUSTOMERS = [
    {"id": 1, "name": "Ann Lee", "email": "ann@example.com"},
    {"id": 2, "name": "", "email": None},
    {"id": 3, "email": "ann@example.com", "is_new": True},
]
servers = os.environ["KAFKA_SERVERS"]
producer = KafkaProducer(bootstrap_servers=servers, acks="all")
HEADERS = [("trace", b"of the caller")]
for customer in CUSTOMERS:
    key = str(customer["id"]).encode()
    producer.send("customers", json.dumps(customer).encode(), key, headers=HEADERS)
# A deletion of a compacted topic.
producer.send("customers", None, b"4")
producer.flush()
consumer = KafkaConsumer(
    "customers-tokens",
    bootstrap_servers=servers,
    auto_offset_reset="earliest",
    consumer_timeout_ms=120_000,
)
copies = [next(consumer) for _ in range(len(CUSTOMERS) + 1)]
assert [list(copy.headers) for copy in copies] == [HEADERS] * len(CUSTOMERS) + [[]], copies
print(json.dumps([(one.key.decode(), one.value and json.loads(one.value)) for one in copies]))
