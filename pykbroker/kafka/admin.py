"""The names of kafka-python's admin client. Each says which command of `pykbroker` does its work.

`pykbroker.kafka` has no admin client. A program that imports one of these names runs until it uses the name.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pykbroker.kafka.enums import OffsetSpec as OffsetSpec

TOPICS, CONFIGS, GROUPS = "`pykbroker topics create NAME`", "`pykbroker configs alter`", "`pykbroker groups`"
TRANSACTIONS, PRODUCERS = "`pykbroker transactions`", "`pykbroker producers describe`"
THEIRS_ONLY = ""
COMMANDS = {
    "KafkaAdminClient": "`pykbroker topics`, `configs`, `groups`, `brokers` and `transactions`",
    "NewTopic": "`pykbroker topics create NAME --partitions COUNT --replicas COUNT`",
    "NewPartitions": "`pykbroker topics alter NAME --partitions COUNT`",
    "OffsetTimestamp": "`pykbroker topics offsets NAME --at TIME`, or KafkaConsumer.offsets_for_times",
    "ConfigResource": CONFIGS,
    "ConfigResourceType": CONFIGS,
    "ConfigType": "`pykbroker configs describe`",
    "ConfigSourceType": "`pykbroker configs describe`",
    "ConfigFilterType": "`pykbroker configs describe --all`",
    "AlterConfigOp": "`pykbroker configs alter --set`, `--delete`, `--append` or `--subtract`",
    "GroupState": "`pykbroker groups list --state`",
    "GroupType": "`pykbroker groups list --type`",
    "MemberToRemove": "`pykbroker groups describe --members`, and close the member",
    "UpdateFeatureType": "`pykbroker features describe`",
    "AbortTransactionSpec": TRANSACTIONS,
    "TransactionDescription": TRANSACTIONS,
    "TransactionListing": TRANSACTIONS,
    "TransactionState": TRANSACTIONS,
    "PartitionProducerState": PRODUCERS,
    "ProducerState": PRODUCERS,
    **dict.fromkeys(
        (
            "ACL",
            "ACLFilter",
            "ACLOperation",
            "ACLPermissionType",
            "ACLResourcePatternType",
            "ResourcePattern",
            "ResourcePatternFilter",
            "ResourceType",
            "ScramMechanism",
            "UserScramCredentialDeletion",
            "UserScramCredentialUpsertion",
        ),
        THEIRS_ONLY,
    ),
}
"""The command for each class of kafka-python, or `THEIRS_ONLY` if there is none."""


def sentence(name: str) -> str:
    """Return what to use instead of a class."""
    command = COMMANDS[name]
    ways = "import it from kafka.admin, which works beside pykbroker.kafka"
    return f"{name} is not part of pykbroker.kafka: {f'use {command}, or ' if command else ''}{ways}"


class Absent(type):
    """The type of the classes here. ImportError says what to use, when a class is called or looked into."""

    def __call__(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise ImportError(sentence(cls.__name__))

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise ImportError(sentence(cls.__name__))


ABSENT = {name: Absent(name, (), {"__doc__": sentence(name), "__module__": __name__}) for name in COMMANDS}


def __getattr__(name: str) -> type:
    if name in ABSENT:
        return ABSENT[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
