"""A partition by its topic's name and its index: the key of almost everything that a broker keeps."""

from __future__ import annotations

TopicPartition = tuple[str, int]
