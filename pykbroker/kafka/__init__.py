"""The drop-in for kafka-python 3: replace `from kafka` by `from pykbroker.kafka`.

1. Names, arguments, defaults and errors are those of kafka-python. Where kafka-python is installed, the errors here are
   subclasses of its errors, so that existing `except` clauses catch them.
2. kafka-python's admin client is not part of the drop-in. Its import raises an ImportError with a sentence.
3. Arguments for TLS, SASL and proxies other than their defaults are refused with a sentence.
"""

from typing import Any

from pykbroker.kafka.consumer import AsyncConsumerRebalanceListener as AsyncConsumerRebalanceListener
from pykbroker.kafka.consumer import ConsumerRebalanceListener as ConsumerRebalanceListener
from pykbroker.kafka.consumer import KafkaConsumer as KafkaConsumer
from pykbroker.kafka.enums import IsolationLevel as IsolationLevel
from pykbroker.kafka.enums import OffsetSpec as OffsetSpec
from pykbroker.kafka.producer import KafkaProducer as KafkaProducer
from pykbroker.kafka.serializer import DefaultSerializer as DefaultSerializer
from pykbroker.kafka.serializer import Deserializer as Deserializer
from pykbroker.kafka.serializer import JsonSerializer as JsonSerializer
from pykbroker.kafka.serializer import Serializer as Serializer
from pykbroker.kafka.structs import ConsumerGroupMetadata as ConsumerGroupMetadata
from pykbroker.kafka.structs import OffsetAndMetadata as OffsetAndMetadata
from pykbroker.kafka.structs import OffsetAndTimestamp as OffsetAndTimestamp
from pykbroker.kafka.structs import TopicPartition as TopicPartition
from pykbroker.kafka.structs import TopicPartitionReplica as TopicPartitionReplica


def __getattr__(name: str) -> Any:
    """Raise ImportError for the admin client, and AttributeError for any other unknown name."""
    if name == "KafkaAdminClient":
        raise ImportError(
            "KafkaAdminClient is not part of pykbroker.kafka: keep importing it from kafka, which works beside "
            "pykbroker.kafka",
            name=__name__,
        )
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
