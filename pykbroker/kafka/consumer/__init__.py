"""The consumer of the drop-in, under the names of kafka-python's modules.

1. `group` has KafkaConsumer, and `subscription_state` the base classes of rebalance listeners.
"""

from pykbroker.kafka.consumer.group import KafkaConsumer as KafkaConsumer
