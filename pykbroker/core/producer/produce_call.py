"""A Produce request with the batches that it carries, and the answer to each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.topic_partition import TopicPartition
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

Encode = Callable[[ProducerBatch], bytes]
TopicIdOf = Callable[[str], bytes]
"""A function that returns the id of a topic, or the nil id if it is unknown."""


class ProduceCall:
    """A Produce request to the broker `node`, with one batch for each partition."""

    def __init__(self, node: int, batches: Sequence[ProducerBatch], topic_id_of: TopicIdOf) -> None:
        self.node = node
        self.batches = {batch.partition: batch for batch in batches}
        self._topic_ids = {
            topic: topic_id_of(topic) for topic in dict.fromkeys(each.partition.topic for each in batches)
        }

    @property
    def topics(self) -> Collection[str]:
        return self._topic_ids.keys()

    @property
    def has_topic_ids(self) -> bool:
        """Whether the ids of all topics are known, which Produce needs from version 13 on."""
        return NIL not in self._topic_ids.values()

    def request(self, acks: int, timeout_ms: int, transactional_id: str | None, encode: Encode) -> ProduceRequest:
        topics = {topic: TopicProduceData(topic, topic_id, []) for topic, topic_id in self._topic_ids.items()}
        for (topic, index), batch in self.batches.items():
            topics[topic].partition_data.append(PartitionProduceData(index, encode(batch)))
        return ProduceRequest(transactional_id, acks, timeout_ms, list(topics.values()))

    def answers(self, response: ProduceResponse) -> Iterator[tuple[ProducerBatch, PartitionProduceResponse]]:
        """Yield every batch with its part of the response.

        A batch that the response leaves out failed with NETWORK_EXCEPTION, since nothing is known of it.
        """
        names = {topic_id: topic for topic, topic_id in self._topic_ids.items() if topic_id != NIL}
        answered = {
            TopicPartition(names.get(topic.topic_id, topic.name), part.index): part
            for topic in response.responses
            for part in topic.partition_responses
        }
        for partition, batch in self.batches.items():
            part = answered.get(partition)
            if part is None:
                text = "the broker's response does not mention this partition"
                part = PartitionProduceResponse(error_code=ErrorCode.NETWORK_EXCEPTION, error_message=text)
            yield batch, part
