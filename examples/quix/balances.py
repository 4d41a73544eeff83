"""Keep a balance for each account in a state store and its changelog topic, exactly once, with Quix Streams."""

import sys
import tempfile
import uuid

from quixstreams import Application

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
run = uuid.uuid4().hex[:8]
PAYMENTS = [("Ada", 10), ("Grace", 20), ("Ada", 5), ("Grace", -8)]


def balance(amount, state):
    total = state.get("total", 0) + amount
    state.set("total", total)
    return total


with tempfile.TemporaryDirectory() as directory:
    app = Application(
        broker_address=bootstrap,
        consumer_group=f"ledger-{run}",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=directory,
        loglevel="WARNING",
    )
    payments = app.topic(f"payments-{run}", key_serializer="str", key_deserializer="str")
    balances = app.topic(f"balances-{run}", key_serializer="str", key_deserializer="str")
    with app.get_producer() as producer:
        for account, amount in PAYMENTS:
            message = payments.serialize(key=account, value=amount)
            producer.produce(payments.name, key=message.key, value=message.value)

    stream = app.dataframe(payments).apply(balance, stateful=True).to_topic(balances)
    stream.update(lambda total, account, *_: print(f"{account} has {total}"), metadata=True)
    app.run(count=len(PAYMENTS), timeout=30)
