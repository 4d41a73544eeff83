"""Small programs of usual and of wrong use of kafka-python, which run with kafka-python and with the drop-in.

A program is the text of an expression, whose outcome is its value or its error. It has the names of `import kafka` and
of `from kafka import *`, `first` for a partition of the topic `letters`, `other` for a partition that does not exist,
and `make` for an object of a new class. The programs of a group share the client that `drop_in_run` has made for the
group, in their order. `OF_PRODUCER` and `OF_CONSUMER` have the programs whose outcomes differ. A test runs all programs
and compares, and `tools.document` writes the differences into `docs/`.
"""

from __future__ import annotations

from typing import NamedTuple

MAKING_CONSUMERS = (
    "KafkaConsumer(no_such_argument=1)",
    "KafkaConsumer(fetch_max_wait_ms=40_000)",
    "KafkaConsumer(connections_max_idle_ms=10_000)",
    "KafkaConsumer(client_id=5)",
    "KafkaConsumer(api_version='auto')",
    "KafkaConsumer(api_version=(2, 6))",
    "KafkaConsumer(group_id=5)",
    "KafkaConsumer(group_instance_id='a')",
    "KafkaConsumer(isolation_level='unknown')",
    "KafkaConsumer(auto_offset_reset='unknown')",
    "KafkaConsumer(partition_assignment_strategy=[])",
    "KafkaConsumer(partition_assignment_strategy=['range'])",
    "KafkaConsumer(partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor])",
    "KafkaConsumer(security_protocol='unknown')",
    "KafkaConsumer(metric_reporters=[dict])",
    "KafkaConsumer(bootstrap_servers=5)",
    "KafkaConsumer(bootstrap_servers='localhost:port')",
    "KafkaConsumer(bootstrap_servers='localhost:1', bootstrap_timeout_ms=50)",
    "KafkaConsumer(group_id='g', session_timeout_ms=1000, heartbeat_interval_ms=2000)",
    "KafkaConsumer(max_poll_records=0)",
    "KafkaConsumer(retry_backoff_ms=-1)",
    "KafkaConsumer('a b')",
    "KafkaConsumer(5)",
    "KafkaConsumer(['letters'])",
    "KafkaConsumer(value_deserializer=5)",
    "KafkaConsumer(metrics_enabled=False).metrics()",
    "next(KafkaConsumer('letters', consumer_timeout_ms=0))",
    "sorted(kafka.KafkaConsumer.DEFAULT_CONFIG)",
    "KafkaConsumer().config['security_protocol']",
)
MAKING_PRODUCERS = (
    "KafkaProducer(no_such_argument=1)",
    "KafkaProducer(compression_type='unknown')",
    "KafkaProducer(acks=2)",
    "KafkaProducer(linger_ms=-1)",
    "KafkaProducer(batch_size=0)",
    "KafkaProducer(client_id=5)",
    "KafkaProducer(api_version='auto')",
    "KafkaProducer(api_version='newest')",
    "KafkaProducer(max_block_ms=-1)",
    "KafkaProducer(buffer_memory=1_000_000)",
    "KafkaProducer(bootstrap_servers='localhost:1', bootstrap_timeout_ms=50)",
    "KafkaProducer(transactional_id='t', acks=1)",
    "KafkaProducer(transactional_id='t', enable_idempotence=False)",
    "KafkaProducer(key_serializer=5)",
    "KafkaProducer(partitioner=kafka.partitioner.DefaultPartitioner()).send('numbers', b'a', b'k').get(10).partition",
    "KafkaProducer(partitioner=make('P', (), partition=lambda self, *given: len(given) - 1)).send('numbers', b'a')"
    ".get(10).partition",
    "KafkaProducer(partitioner=make('P', (kafka.partitioner.Partitioner,), partition=lambda self, *given: "
    "len(given) - 4)).send('numbers', b'a').get(10).partition",
    "KafkaProducer(delivery_timeout_ms=1)",
    "KafkaProducer(metrics_enabled=False).metrics()",
    "KafkaProducer(proxy_url='unknown', bootstrap_timeout_ms=50)",
    "'buffer_memory' in kafka.KafkaProducer.DEFAULT_CONFIG",
)
NAMES = (
    "kafka.partitioner.murmur2(b'key')",
    "kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor.name",
    "kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor.name",
    "kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor.name",
    "kafka.consumer.group.KafkaConsumer is kafka.KafkaConsumer",
    "issubclass(kafka.ConsumerRebalanceListener, kafka.consumer.subscription_state.ConsumerRebalanceListener)",
    "kafka.version.__version__",
    "kafka.admin.OffsetSpec.LATEST.value",
    "kafka.admin.NewTopic('letters', 1, 1)",
    "KafkaAdminClient(bootstrap_servers='localhost:1', bootstrap_timeout_ms=50)",
)
SENDING = (
    "producer.send('letters')",
    "producer.send(5, b'a')",
    "producer.send('', b'a')",
    "producer.send('a b', b'a')",
    "producer.send('letters', b'a', partition=-1)",
    "producer.send('letters', b'a', partition=9)",
    "producer.send('letters', b'a', partition='0')",
    "producer.send('numbers', b'a', timestamp_ms=-5).get(10).timestamp",
    "producer.send('numbers', b'a', timestamp_ms=1.5)",
    "producer.send('letters', b'a', headers=(('a', b''),))",
    "producer.send('letters', b'a', headers=[('a', None)])",
    "producer.send('letters', 'text')",
    "producer.send('letters', b'a', key=5)",
    "producer.send('letters', bytes(2_000_000))",
    "producer.send('numbers', b'a', b'k', [('h', b'x')], 0, 7).get(10).serialized_header_size",
    "KafkaProducer(max_request_size=3_000_000).send('numbers', bytes(2_000_000)).get(10)",
    "KafkaProducer(value_serializer=int).send('numbers', 'a')",
    "KafkaProducer(acks=0).send('numbers', b'a').get(10).offset",
    "producer.flush()",
    "producer.close(-1)",
    "producer.partitions_for('letters')",
    "producer.partitions_for('a b')",
    "producer.partitions_for(5)",
    "producer.begin_transaction()",
    "producer.init_transactions()",
    "producer.commit_transaction()",
    "producer.abort_transaction()",
    "producer.send_offsets_to_transaction({first: OffsetAndMetadata(1, '', -1)}, 'g')",
    "sorted(name for name in producer.metrics() if 'topic' not in name)",
    "'producer-topic-metrics.numbers' in producer.metrics()",
)
AFTER_CLOSE_OF_PRODUCER = (
    "producer.send('letters', b'a')",
    "producer.flush()",
    "producer.begin_transaction()",
    "producer.metrics()",
    "producer.bootstrap_connected()",
    "producer.close()",
)
TRANSACTIONS = (
    "producer.begin_transaction()",
    "producer.init_transactions()",
    "producer.send('numbers', b'a')",
    "producer.commit_transaction()",
    "producer.abort_transaction()",
    "producer.send_offsets_to_transaction({first: OffsetAndMetadata(1, '', -1)}, 'g')",
    "producer.begin_transaction() or producer.begin_transaction()",
    "producer.init_transactions()",
    "producer.send_offsets_to_transaction({first: OffsetAndMetadata(1, '', -1)}, ConsumerGroupMetadata('g', 5, 'm'))",
    "producer.commit_transaction()",
    "producer.abort_transaction()",
    "producer.begin_transaction()",
    "producer.send('numbers', b'a').get(10).partition in (0, 1, 2)",
    "KafkaProducer(transactional_id='teller').init_transactions()",
    "producer.commit_transaction()",
    "producer.begin_transaction()",
    "producer.abort_transaction()",
)
SENT_AFTER_FENCING = ("producer.commit_transaction()", "producer.begin_transaction()")
ASSIGNING = (
    "consumer.assign([1])",
    "consumer.assign(first)",
    "consumer.unsubscribe() or consumer.assign([first])",
    "consumer.assignment()",
    "consumer.subscription()",
    "consumer.subscribe(['letters'])",
    "consumer.pause(other)",
    "consumer.resume(other)",
    "consumer.pause('letters')",
    "consumer.seek(first, -1)",
    "consumer.seek(first, 1.5)",
    "consumer.seek(other, 1)",
    "consumer.seek('letters', 1)",
    "consumer.seek(('letters', 0), 1)",
    "consumer.seek_to_beginning(other)",
    "consumer.seek_to_end('letters')",
    "consumer.position(other)",
    "consumer.position('letters')",
    "consumer.highwater(other)",
    "consumer.commit()",
    "consumer.commit_async()",
    "consumer.committed(first)",
    "consumer.group_metadata()",
    "consumer.poll(-1)",
    "consumer.poll('1')",
    "consumer.poll(0, max_records=0)",
    "consumer.poll(0, max_records='1')",
    "consumer.offsets_for_times({first: -1})",
    "consumer.offsets_for_times({first: 'now'})",
    "consumer.offsets_for_times([first])",
    "consumer.beginning_offsets(['letters'])",
    "consumer.beginning_offsets([first])",
    "consumer.end_offsets([other], timeout_ms=50)",
    "consumer.end_offsets([])",
    "consumer.partitions_for_topic('letters')",
    "consumer.partitions_for_topic('unknown')",
    "consumer.partitions_for_topic('a b')",
    "consumer.partitions_for_topic(5)",
    "'letters' in consumer.topics()",
    "'consumer-node-metrics.node-1' in consumer.metrics()",
    "consumer.assign([])",
    "consumer.assignment()",
    "consumer.seek_to_beginning()",
)
READING = (
    "consumer.poll(1000)",
    "consumer.position(first)",
    "next(consumer)",
    "consumer.seek(first, 99) or consumer.poll(2000)",
    "consumer.seek(first, 0) or [len(records) for records in consumer.poll(2000).values()]",
    "consumer.position(first)",
)
DESERIALIZING = ("consumer.poll(2000)", "consumer.position(first)")
SUBSCRIBING = (
    "consumer.subscribe()",
    "consumer.subscribe('letters')",
    "consumer.subscribe({'letters'})",
    "consumer.subscribe(name for name in ['letters']) or consumer.subscription()",
    "consumer.subscribe(['a b'])",
    "consumer.subscribe([5])",
    "consumer.subscribe([None])",
    "consumer.subscribe(['.'])",
    "consumer.subscribe([''])",
    "consumer.subscribe(['letters'], pattern='l.*')",
    "consumer.subscribe(['letters'], listener=object())",
    "consumer.unsubscribe() or consumer.subscribe(pattern='(')",
    "consumer.unsubscribe()",
    "consumer.subscription()",
)
IN_A_GROUP = (
    "consumer.poll(10_000) and listener.assigned",
    "consumer.subscription()",
    "consumer.assign([first])",
    "consumer.subscribe(pattern='l.*')",
    "consumer.commit([1])",
    "consumer.commit('letters')",
    "consumer.commit({first: 5})",
    "consumer.commit({first: OffsetAndMetadata(-1, '', -1)})",
    "consumer.commit({first: OffsetAndMetadata(1, None, -1)})",
    "consumer.commit({'letters': OffsetAndMetadata(1, '', -1)})",
    "consumer.commit({})",
    "rival.commit({first: OffsetAndMetadata(1, '', -1)})",
    "consumer.commit({first: OffsetAndMetadata(1, 'note', -1)})",
    "consumer.committed(first, metadata=True)",
    "consumer.committed('letters')",
    "consumer.committed(('letters', 0))",
    "consumer.committed(other)",
    "consumer.commit_async([1])",
    "hasattr(consumer.commit_async({first: OffsetAndMetadata(1, '', -1)}), 'add_both')",
    "sorted(consumer.metrics())",
    "consumer.unsubscribe()",
    "consumer.assignment()",
    "len(listener.revoked)",
    "consumer.poll(0)",
)
AFTER_CLOSE_OF_CONSUMER = (
    "consumer.poll()",
    "next(consumer)",
    "consumer.commit()",
    "consumer.commit_async()",
    "consumer.committed(first, timeout_ms=50)",
    "consumer.position(first, timeout_ms=50)",
    "consumer.highwater(other)",
    "consumer.seek(first, 0)",
    "consumer.pause(first)",
    "consumer.assignment()",
    "consumer.subscription()",
    "consumer.subscribe(['letters'])",
    "consumer.unsubscribe()",
    "consumer.end_offsets([first], timeout_ms=50)",
    "consumer.topics()",
    "consumer.metrics()",
    "consumer.group_metadata().group_id",
    "consumer.bootstrap_connected()",
    "consumer.close()",
)


class Difference(NamedTuple):
    """Programs whose outcomes differ for one reason: the outcomes with kafka-python and with the drop-in."""

    reason: str
    outcomes: dict[str, tuple[str, str]]


OF_PRODUCER = (
    Difference(
        "A value that is not allowed is refused at once, as by Kafka's own client, instead of later or never.",
        {
            "KafkaProducer(acks=2)": ("KafkaProducer", "KafkaConfigurationError"),
            "KafkaProducer(linger_ms=-1)": ("KafkaProducer", "KafkaConfigurationError"),
            "KafkaProducer(max_block_ms=-1)": ("KafkaProducer", "KafkaConfigurationError"),
            "KafkaProducer(key_serializer=5)": ("KafkaProducer", "KafkaConfigurationError"),
        },
    ),
    Difference(
        "A proxy is not supported, and the error says so.",
        {
            "KafkaProducer(proxy_url='unknown', bootstrap_timeout_ms=50)": (
                "KafkaTimeoutError",
                "KafkaConfigurationError",
            )
        },
    ),
    Difference(
        "A producer may be made before its broker is there. The first `send` waits for it, up to `max_block_ms`.",
        {
            "KafkaProducer(bootstrap_servers='localhost:1', bootstrap_timeout_ms=50)": (
                "KafkaTimeoutError",
                "KafkaProducer",
            )
        },
    ),
    Difference(
        "The memory of the producer is limited, as in Kafka's own client.",
        {
            "KafkaProducer(buffer_memory=1_000_000)": ("ValueError", "KafkaProducer"),
            "'buffer_memory' in kafka.KafkaProducer.DEFAULT_CONFIG": ("False", "True"),
        },
    ),
    Difference(
        "There is no admin client. The error names the command of `pykbroker` that does the work.",
        {
            "kafka.admin.NewTopic('letters', 1, 1)": ("NewTopic", "ImportError"),
            "KafkaAdminClient(bootstrap_servers='localhost:1', bootstrap_timeout_ms=50)": (
                "KafkaTimeoutError",
                "ImportError",
            ),
        },
    ),
    Difference(
        "The offset of a record without an acknowledgement is unknown, as in Kafka's own client.",
        {"KafkaProducer(acks=0).send('numbers', b'a').get(10).offset": ("0", "-1")},
    ),
    Difference(
        "Nothing is counted for each topic, because each `send` would pay for it.",
        {"'producer-topic-metrics.numbers' in producer.metrics()": ("True", "False")},
    ),
)
OF_CONSUMER = (
    Difference(
        "A value that is not allowed is refused at once, as by Kafka's own client, instead of later or never.",
        {
            "KafkaConsumer(partition_assignment_strategy=[])": ("KafkaConsumer", "KafkaConfigurationError"),
            "KafkaConsumer(max_poll_records=0)": ("KafkaConsumer", "KafkaConfigurationError"),
            "KafkaConsumer(retry_backoff_ms=-1)": ("KafkaConsumer", "KafkaConfigurationError"),
            "KafkaConsumer(value_deserializer=5)": ("KafkaConsumer", "KafkaConfigurationError"),
            "consumer.commit({first: OffsetAndMetadata(-1, '', -1)})": ("None", "ValueError"),
        },
    ),
    Difference(
        "Reporters, and protocols that do not exist, are not supported, and the error says so.",
        {
            "KafkaConsumer(security_protocol='unknown')": ("KafkaConsumer", "KafkaConfigurationError"),
            "KafkaConsumer(metric_reporters=[dict])": ("AttributeError", "KafkaConfigurationError"),
        },
    ),
    Difference(
        "Kafka's name of an assignor is accepted as its class is.",
        {"KafkaConsumer(partition_assignment_strategy=['range'])": ("TypeError", "KafkaConsumer")},
    ),
    Difference(
        "Any collection of names is accepted, but no text.",
        {
            "consumer.subscribe({'letters'})": ("TypeError", "None"),
            "consumer.subscribe(name for name in ['letters']) or consumer.subscription()": ("TypeError", "{'letters'}"),
        },
    ),
    Difference(
        "A pair is accepted as a partition, such as the TopicPartition of kafka-python.",
        {
            "consumer.seek(('letters', 0), 1)": ("TypeError", "None"),
            "consumer.committed(('letters', 0))": ("TypeError", "1"),
        },
    ),
    Difference(
        "The error says what is expected.",
        {
            "consumer.assign([1])": ("AttributeError", "TypeError"),
            "consumer.assign(first)": ("AttributeError", "TypeError"),
            "consumer.beginning_offsets(['letters'])": ("AttributeError", "TypeError"),
        },
    ),
    Difference(
        "The listener hears of the partitions that `unsubscribe` gives up, as in Kafka's own client.",
        {"len(listener.revoked)": ("0", "3")},
    ),
    Difference(
        "After `close`, every call raises an error that says that the consumer is closed.",
        {
            "consumer.commit()": ("RuntimeError", "IllegalStateError"),
            "consumer.commit_async()": ("RuntimeError", "IllegalStateError"),
            "consumer.committed(first, timeout_ms=50)": ("RuntimeError", "IllegalStateError"),
            "consumer.position(first, timeout_ms=50)": ("1", "IllegalStateError"),
            "consumer.seek(first, 0)": ("None", "IllegalStateError"),
            "consumer.pause(first)": ("None", "IllegalStateError"),
            "consumer.unsubscribe()": ("RuntimeError", "IllegalStateError"),
            "consumer.end_offsets([first], timeout_ms=50)": ("RuntimeError", "IllegalStateError"),
            "consumer.topics()": ("RuntimeError", "IllegalStateError"),
        },
    ),
)
PROGRAMS_OF_PRODUCER = MAKING_PRODUCERS + NAMES + SENDING + AFTER_CLOSE_OF_PRODUCER + TRANSACTIONS + SENT_AFTER_FENCING
PROGRAMS_OF_CONSUMER = (
    MAKING_CONSUMERS + ASSIGNING + READING + DESERIALIZING + SUBSCRIBING + IN_A_GROUP + AFTER_CLOSE_OF_CONSUMER
)
