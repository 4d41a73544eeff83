"""Send three greetings and read them in a group, with aiokafka."""

import asyncio
import sys
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
topic = f"greetings-{uuid.uuid4().hex[:8]}"


async def main():
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for name in ("Ada", "Grace", "Edsger"):
            await producer.send_and_wait(topic, f"hello {name}".encode())
    readers = {"group_id": "greeted", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **readers) as consumer:
        for _ in range(3):
            print((await consumer.getone()).value.decode())


asyncio.run(main())
