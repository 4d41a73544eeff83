"""The sticky partitioner: records without a key stay on one partition for a batch (KIP-480)."""

from __future__ import annotations

from pykbroker.kafka.partitioner.default import DefaultPartitioner


class StickyPartitioner(DefaultPartitioner):
    """A partitioner that fills whole batches with records without a key.

    KafkaProducer does so without this class too. Its `partition` alone chooses as that of DefaultPartitioner.
    """
