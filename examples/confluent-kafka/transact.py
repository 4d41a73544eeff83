"""Commit one transaction, abort another, and read only what was committed, with confluent-kafka."""

import sys
import uuid

from confluent_kafka import Consumer, Producer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
topic = f"payments-{uuid.uuid4().hex[:8]}"

producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "cashier"})
producer.init_transactions(10)
producer.begin_transaction()
producer.produce(topic, b"10 to Ada")
producer.abort_transaction(10)
producer.begin_transaction()
producer.produce(topic, b"20 to Grace")
producer.commit_transaction(10)

consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "ledger",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
)
consumer.subscribe([topic])
for message in consumer.consume(1, timeout=10):
    print(message.value().decode())
consumer.close()
