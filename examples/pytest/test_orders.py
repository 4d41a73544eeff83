"""A test of a service's Kafka side: pykbroker brings the fixtures `kafka_broker` and `kafka_topic`."""

from kafka import KafkaConsumer, KafkaProducer


def place(bootstrap, topic, order):
    """Send an order and return its offset: the code under test."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        return producer.send(topic, order.encode()).get(timeout=10).offset
    finally:
        producer.close()


def test_an_order_is_sent_once(kafka_broker, kafka_topic):
    assert place(kafka_broker.bootstrap, kafka_topic, "two teapots") == 0
    consumer = KafkaConsumer(
        kafka_topic, bootstrap_servers=kafka_broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=500
    )
    assert [record.value for record in consumer] == [b"two teapots"]
    consumer.close()
