"""The drop-in for kafka-python 3: replace `from kafka` by `from pykbroker.kafka`.

1. Names, arguments, defaults and errors are those of kafka-python. Where kafka-python is installed, the errors here are
   subclasses of its errors, so that existing `except` clauses catch them.
2. The use of a name of kafka-python's admin client raises an error that names the command to use instead.
3. Arguments for TLS, SASL, proxies and other parts that this client lacks are refused by their names.
4. `tests/interop/drop_in_programs.py` has programs that run with kafka-python and with the drop-in. The pages of the
   producer and of the consumer list those whose outcome differs, with the reason.
"""

from pykbroker.kafka.admin import KafkaAdminClient as KafkaAdminClient
from pykbroker.kafka.consumer import KafkaConsumer as KafkaConsumer
from pykbroker.kafka.consumer.subscription_state import AsyncConsumerRebalanceListener as AsyncConsumerRebalanceListener
from pykbroker.kafka.consumer.subscription_state import ConsumerRebalanceListener as ConsumerRebalanceListener
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
from pykbroker.kafka.version import __version__ as __version__
