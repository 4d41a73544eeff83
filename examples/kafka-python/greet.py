"""Send three greetings and read them in a group, with kafka-python."""

import sys
import uuid

from kafka import KafkaConsumer, KafkaProducer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
topic = f"greetings-{uuid.uuid4().hex[:8]}"

producer = KafkaProducer(bootstrap_servers=bootstrap)
for name in ("Ada", "Grace", "Edsger"):
    producer.send(topic, f"hello {name}".encode())
producer.close()

consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id="greeted", auto_offset_reset="earliest")
for _ in range(3):
    print(next(consumer).value.decode())
consumer.close()
