"""The partitioners of kafka-python, under the names of its modules.

1. All partitioners choose the partition of a key as Kafka does, by `murmur2`.
"""

from pykbroker.kafka.partitioner.abc import Partitioner as Partitioner
from pykbroker.kafka.partitioner.default import DefaultPartitioner as DefaultPartitioner
from pykbroker.kafka.partitioner.default import murmur2 as murmur2
from pykbroker.kafka.partitioner.sticky import StickyPartitioner as StickyPartitioner
