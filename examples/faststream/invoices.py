"""Write an invoice for each order that arrives, with FastStream."""

import asyncio
import sys
import uuid

from faststream import FastStream
from faststream.kafka import KafkaBroker

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
run = uuid.uuid4().hex[:8]
orders, invoices = f"orders-{run}", f"invoices-{run}"
broker = KafkaBroker(bootstrap, logger=None)
app = FastStream(broker, logger=None)
printed = []


@broker.subscriber(orders, group_id=f"billing-{run}", auto_offset_reset="earliest")
@broker.publisher(invoices)
async def bill(order: dict) -> str:
    return f"{order['customer']} pays {order['teapots'] * 12}"


@broker.subscriber(invoices, group_id=f"printing-{run}", auto_offset_reset="earliest")
async def show(invoice: str) -> None:
    print(invoice)
    printed.append(invoice)
    if len(printed) == 2:
        app.exit()


@app.after_startup
async def order() -> None:
    await broker.publish({"customer": "Ada", "teapots": 2}, orders)
    await broker.publish({"customer": "Grace", "teapots": 5}, orders)


asyncio.run(app.run())
