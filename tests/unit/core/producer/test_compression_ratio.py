"""The estimated compression ratio follows Kafka's: slowly down, quickly up."""

from __future__ import annotations

import pytest

from pykbroker.core.producer.compression_ratio import CompressionRatio
from wire.records.compression import Codec


def test_the_estimate_falls_slowly_and_rises_quickly() -> None:
    ratios = CompressionRatio(Codec.LZ4)
    assert ratios.of("topic") == 1
    ratios.observe("topic", 0.2)
    assert ratios.of("topic") == pytest.approx(0.995 * 1.05)
    for _ in range(1000):
        ratios.observe("topic", 0.2)
    assert ratios.of("topic") == pytest.approx(0.2 * 1.05)
    ratios.observe("topic", 0.21)
    assert ratios.of("topic") == pytest.approx(0.25 * 1.05)
    ratios.observe("topic", 0.9)
    assert ratios.of("topic") == pytest.approx(0.9 * 1.05)
    assert ratios.of("another") == 1
    ratios.reset("topic")
    assert ratios.of("topic") == 1


def test_without_a_codec_the_ratio_is_one() -> None:
    ratios = CompressionRatio(Codec.NONE)
    ratios.observe("topic", 0.5)
    assert ratios.of("topic") == 1
