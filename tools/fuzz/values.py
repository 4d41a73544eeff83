"""Requests as a client might send them, built from the declarations with values that are meaningful for this broker."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from msgspec.structs import replace

from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import NIL, Request
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.compression import Codec, compress, decompress
from wire.records.crc import crc32c
from wire.schema import Field, Type, fields_of

TOPICS = ("a", "b")
"""The topics that the broker has at first. The fuzzer may change or delete them."""
NAMES = (
    *TOPICS * 4,
    "absent",
    "new-1",
    "new-2",
    "",
    ".",
    "a/b",
    "x" * 249,
    "x" * 250,
    "\u00e9",
    "__consumer_offsets",
    "a.b",
)
GROUPS = ("g", "g", "h", "")
CONFIGS = (
    "retention.ms",
    "cleanup.policy",
    "segment.bytes",
    "max.message.bytes",
    "compression.type",
    "nonsense",
    "num.partitions",
    "flush.messages",
    "segment.ms",
    "log.cleaner.threads",
    "background.threads",
)
"""Names of configs, some of them unknown. None of them can make the broker serve other clients worse."""
TEXTS = ("", "1", "0", "-1", "delete", "compact", "99999999999999999999", "zstd", "User:me", "\0", "\u00e9" * 99, "1e3")
INTEGERS = {
    "b": (0, 1, 2, 3, 4, 5, 8, 16, 32, -1, -128, 127),
    "h": (0, 1, 2, 3, -1, -32768, 32767),
    "H": (0, 1, 9092, 65535),
    "i": (0, 1, 2, 3, 5, -1, -2, -(2**31), 2**31 - 1),
    "I": (0, 1, 2**32 - 1),
    "q": (0, 1, 2, 3, 7, -1, -2, -3, -4, -5, -6, 1_700_000_000_000, -(2**63), 2**63 - 1),
}
HINTS: dict[str, tuple[Any, ...]] = {
    "acks": (-1, 0, 1, 2),
    "broker_id": (1, 2, -1),
    "broker_ids": (1, 1, 1, 2),
    "replicas": (1, 1, 1, 2),
    "partition": (0, 0, 1),
    "partition_index": (0, 0, 1),
    "partition_indexes": (0, 0, 1),
    "index": (0, 0, 1),
    "partitions": (0, 0, 1),
    "count": (1, 2, 3, 4, 5, 9),
    "num_partitions": (1, 2, 3, -1),
    "timeout_ms": (0, 100, -1),
    "replication_factor": (1, 1, -1, 2),
    "resource_type": (2, 2, 4, 4, 8, 16, 32),
    "replica_id": (-1, -1, -1, 1),
    "fetch_offset": (0, 0, 1, 2, -1),
    "max_bytes": (1, 100, 1 << 20),
    "partition_max_bytes": (0, 100, 1 << 20),
    "max_wait_ms": (0, 0, 5000),
    "min_bytes": (0, 1, 1 << 20),
    "session_id": (0, 0, 1),
    "session_epoch": (0, -1, 1, 2),
    "current_leader_epoch": (-1, -1, 0, 1),
    "leader_epoch": (-1, 0, 1),
    "last_fetched_epoch": (-1, -1, 0),
    "isolation_level": (0, 1),
    "timestamp": (-1, -2, -3, -4, -5, 0, 1_700_000_000_000),
    "offset": (0, 1, -1),
    "name": NAMES,
    "topic": NAMES,
    "topic_name": NAMES,
    "topic_names": NAMES,
    "resource_name": (*TOPICS, "1", "", "2"),
    "configuration_keys": CONFIGS,
    "cluster_id": ("", "me"),
    "replica_epoch": (-1, 0),
    "transactional_id": ("t",),
    "group_id": GROUPS,
    "groups": GROUPS,
    "groups_names": GROUPS,
    "key_": GROUPS,
    "coordinator_keys": GROUPS,
    "member_id": ("", "m"),
    "generation_id": (-1, 0, 1),
    "session_timeout_ms": (6000, 10_000, 1),
    "protocol_type": ("consumer", ""),
    "key_type": (0, 0, 1),
    "config_operation": (0, 0, 1, 2, 3),
    "mechanism": (1, 2),
    "iterations": (4096, 4095, 16384, 2**31 - 1),
    "entity_type": ("user", "client-id", "ip", "nonsense"),
    "entity_name": ("me", "", "10.0.0.7", "nowhere"),
    "key": ("producer_byte_rate", "request_percentage", "connection_creation_rate", "nonsense"),
    "match_type": (0, 1, 2),
    "upgrade_type": (1, 2, 3),
    "election_type": (0, 1),
    "port": (9092, 0),
    "feature": ("metadata.version", "kraft.version", "group.version", "nonsense"),
    "max_version_level": (0, 1, 7, 30),
}
HINTED, NULL, DEFAULT = 0.85, 0.1, 0.25
"""The probabilities of a meaningful value, of null where allowed, and of the default of a tagged field."""
RECORDS_MAX = 5
SHAPE_BYTES, LYING_BYTES_MAX = 16, 1 << 20
"""The number of first bytes of a small batch, which include lengths and counts, and the largest decompressed size."""
VALUES = (None, b"", *[b"v" * 50] * 20, bytes(50_000))
"""The values of records. The last one makes a frame that is large enough for its own buffer."""
CONFIG_STRUCTS = ("CreatableTopicConfig", "AlterableConfig", "AlterConfigsConfig")


class Maker:
    """A maker of requests with one random generator. `topic_ids` are the ids of existing topics."""

    def __init__(self, dice: random.Random, topic_ids: tuple[bytes, ...]) -> None:
        self.dice, self._topic_ids = dice, (*topic_ids, *topic_ids, NIL, b"\xff" * 16)

    def request(self, key: ApiKey, version: int) -> Request[Any]:
        """Return a well-formed request of this API, usually with valid values."""
        made = self.struct(APIS[key].request, version)
        assert isinstance(made, Request)
        return made

    def struct(self, cls: type[msgspec.Struct], version: int) -> msgspec.Struct:
        """Return a struct with values in the fields that the version has."""
        fields = [field for field in fields_of(cls) if version in field.versions]
        return cls(**{field.name: self.value(field, version, cls.__name__) for field in fields})

    def value(self, field: Field, version: int, owner: str = "") -> Any:
        if version in field.nullable and self.dice.random() < NULL:
            return None
        may_be_default = field.tag is not None and (field.default is not None or version in field.nullable)
        if may_be_default and not isinstance(field.default, list) and self.dice.random() < DEFAULT:
            return field.default
        name = "configuration_keys" if field.name == "name" and owner in CONFIG_STRUCTS else field.name
        return self._of_type(field.type, name, version)

    def _of_type(self, of: Type, name: str, version: int) -> Any:
        dice = self.dice
        if of.struct:
            return self.struct(of.struct, version)
        if of.item:
            return [self._of_type(of.item, name, version) for _ in range(dice.choice((0, 1, 1, 1, 1, 2, 3)))]
        if of.is_records:
            return self.records()
        if name in HINTS and dice.random() < HINTED:
            value = dice.choice(HINTS[name])
            if fits(of, value):
                return value
        if of.fixed:
            return self._fixed(of.fixed.code)
        return dice.choice(TEXTS) if of.is_string else dice.randbytes(dice.choice((0, 1, 16, 40)))

    def _fixed(self, code: str) -> Any:
        match code:
            case "?":
                return self.dice.random() < 0.5
            case "d":
                return self.dice.choice((0.0, 1.5, -1.0, 1e300))
            case "16s":
                return self.dice.choice(self._topic_ids)
        return self.dice.choice(INTEGERS[code])

    def records(self) -> bytes:
        """Return a batch as producers build it, or a batch with a false header. The checksum is usually correct."""
        dice = self.dice
        builder = BatchBuilder(
            codec=dice.choice((Codec.NONE, *Codec)),
            producer_id=dice.choice((-1, -1, 0, 1)),
            producer_epoch=dice.choice((-1, 0, 0, 1)),
            base_sequence=dice.choice((-1, 0, 0, 1)),
        )
        for _ in range(dice.randint(1, RECORDS_MAX)):
            builder.append(dice.choice((None, b"k")), dice.choice(VALUES), (), dice.choice((0, 1 << 40)))
        batch = bytearray(builder.build() if dice.random() < 0.5 else self._lying(builder))
        if dice.random() < 0.3:
            batch[dice.randrange(61)] ^= 1 << dice.randrange(8)
        if dice.random() < 0.2:
            batch[dice.randrange(len(batch))] = dice.randrange(256)
        if dice.random() < 0.7:
            batch[17:21] = crc32c(bytes(batch), 21).to_bytes(4, "big")
        return bytes(batch) * dice.choice((1, 1, 1, 2))

    def _lying(self, builder: BatchBuilder) -> bytes:
        """Return a batch whose records contradict its header or each other. All other fields are correct."""
        dice, whole = self.dice, Batch.read(builder.build())
        payload = bytearray(decompress(whole.codec, whole.payload, LYING_BYTES_MAX))
        size = len(payload)
        at = dice.choice((dice.randrange(min(size, SHAPE_BYTES)), dice.randrange(size), size - 1))
        match dice.randrange(5):
            case 0:
                payload[at] ^= 1 << dice.randrange(8)
            case 1:
                payload[at] = dice.choice((0, 1, 3, 0x7F, 0x80, 0xFF))
            case 2:
                payload[at:at] = dice.randbytes(dice.randint(1, 3))
            case 3:
                del payload[at : at + dice.randint(1, 3)]
            case _:
                whole = replace(whole, max_timestamp=dice.choice((-1, 0, whole.max_timestamp - 1, 2**63 - 1)))
        return sealed(whole, compress(whole.codec, payload))


def fits(of: Type, value: Any) -> bool:
    """Whether the value suggested for the name of a field has the type of the field."""
    if isinstance(value, str):
        return of.is_string
    return of.fixed is not None and of.fixed.code in INTEGERS and value in range(*RANGES[of.fixed.code])


RANGES = {
    "b": (-(2**7), 2**7),
    "h": (-(2**15), 2**15),
    "H": (0, 2**16),
    "i": (-(2**31), 2**31),
    "I": (0, 2**32),
    "q": (-(2**63), 2**63),
}
