"""The compressed size of a topic's records, estimated from earlier batches, as in Kafka's producer."""

from __future__ import annotations

from wire.records.compression import Codec

IMPROVING_STEP, DETERIORATING_STEP = 0.005, 0.05
MARGIN = 1.05
"""An estimate is taken 5 % larger, since a batch that comes out too large is refused and must be split."""


class CompressionRatio:
    """The expected ratio of a batch's compressed size to its size before compression, for each topic.

    The estimate falls slowly and rises quickly. Without a codec it is always 1.
    """

    def __init__(self, codec: Codec) -> None:
        self._is_fixed = codec is Codec.NONE
        self._ratios: dict[str, float] = {}

    def of(self, topic: str) -> float:
        """Return the estimate with its margin."""
        ratio = self._ratios.get(topic)
        return 1.0 if ratio is None else ratio * MARGIN

    def observe(self, topic: str, ratio: float) -> None:
        """Note the ratio of a batch."""
        if self._is_fixed:
            return
        estimate = self._ratios.get(topic, 1.0)
        if ratio > estimate:
            self._ratios[topic] = max(estimate + DETERIORATING_STEP, ratio)
        else:
            self._ratios[topic] = max(estimate - IMPROVING_STEP, ratio)

    def reset(self, topic: str) -> None:
        """Expect no compression, because a batch was refused as too large."""
        self._ratios.pop(topic, None)
