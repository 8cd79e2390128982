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
for customer in CUSTOMERS:
    producer.send("customers", json.dumps(customer).encode(), str(customer["id"]).encode())
producer.flush()
consumer = KafkaConsumer(
    "customers-tokens",
    bootstrap_servers=servers,
    auto_offset_reset="earliest",
    consumer_timeout_ms=120_000,
)
copies = [(copy.key.decode(), json.loads(copy.value)) for copy, _ in zip(consumer, CUSTOMERS)]
print(json.dumps(copies))
