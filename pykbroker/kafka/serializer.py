"""The serializers of kafka-python, under its names."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

RecordHeaders = list[tuple[str, bytes]]


class Serializer(ABC):
    """The base class of objects that turn keys or values into bytes."""

    @abstractmethod
    def serialize(self, topic: str, headers: RecordHeaders, data: Any) -> Any:
        """Return bytes or None."""

    def close(self) -> None:  # noqa: B027 - most serializers hold nothing
        """Free what the object holds, when the producer is closed."""


class Deserializer(ABC):
    """The base class of objects that make keys or values from bytes."""

    @abstractmethod
    def deserialize(self, topic: str, headers: RecordHeaders, data: bytes) -> Any:
        """Return the key or the value."""

    def close(self) -> None:  # noqa: B027 - most deserializers hold nothing
        """Free what the object holds, when the consumer is closed."""


class DefaultSerializer(Serializer, Deserializer):
    """A serializer and deserializer of texts in an encoding. Bytes and None are sent as they are."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, headers: RecordHeaders, data: Any) -> Any:
        """Return text as bytes."""
        return data if data is None or isinstance(data, bytes | bytearray | memoryview) else data.encode(self.encoding)

    def deserialize(self, topic: str, headers: RecordHeaders, data: bytes | None) -> Any:
        """Return bytes as text."""
        return None if data is None else data.decode(self.encoding)


class JsonSerializer(DefaultSerializer):
    """A serializer and deserializer of JSON texts in an encoding. None is a tombstone."""

    def serialize(self, topic: str, headers: RecordHeaders, data: Any) -> Any:
        """Return an object as JSON."""
        return None if data is None else super().serialize(topic, headers, json.dumps(data))

    def deserialize(self, topic: str, headers: RecordHeaders, data: bytes | None) -> Any:
        """Return the object that JSON describes."""
        return None if data is None else json.loads(super().deserialize(topic, headers, data))
