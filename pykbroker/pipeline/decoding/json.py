"""JSON: records as objects with the fields of the reader schema."""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.pipeline.decoding.bad_record import BadRecord, reason
from pykbroker.pipeline.decoding.framing import unframed


class JsonDecoder:
    """A decoder of JSON objects of a type that msgspec knows.

    With `framing`, it skips the schema id before an object.
    """

    def __init__(self, kind: Any, *, framing: bool) -> None:
        self._decoder, self._framing = msgspec.json.Decoder(kind), framing

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return the record. Raise BadRecord if it is no JSON, or lacks a field, or has one of another type."""
        if self._framing:
            _, value = unframed(value)
        try:
            record: dict[str, Any] = self._decoder.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadRecord(reason(error)) from None
        return record
