"""The APIs with the classes of their messages, and the versions that a broker accepts and advertises.

A Kafka broker's listener returns the advertised versions in ApiVersions. Produce is advertised from 0, although only 3
and later are accepted, because librdkafka does not recognize a broker with a larger minimum (KAFKA-18659). APIs of the
controller listener are not advertised. The telemetry APIs are not advertised either, because Kafka advertises them only
with a telemetry receiver.
"""

from functools import cached_property
from importlib import import_module
from typing import Any, cast

import msgspec

from wire.api import VERSIONS, ApiKey, name_of
from wire.declare import Request, Response
from wire.versions import Versions, parse_versions

NOT_ADVERTISED = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
PRODUCE_ADVERTISED = "0-13"


class Api(msgspec.Struct, frozen=True, dict=True):
    """An API of Kafka. `flexible` has the versions with the compact encoding and tagged fields."""

    key: ApiKey
    accepted: Versions
    advertised: Versions | None
    flexible: Versions

    @cached_property
    def name(self) -> str:
        """Return the name of the API in Kafka's spelling, such as ListOffsets."""
        return name_of(self.key)

    @property
    def module(self) -> str:
        """Return the name of the module in `wire.messages`, such as list_offsets."""
        return self.key.name.lower()

    @cached_property
    def request(self) -> type[Request[Any]]:
        """Return the class of the request, importing its module."""
        return cast("type[Request[Any]]", getattr(import_module(f"wire.messages.{self.module}"), f"{self.name}Request"))

    @cached_property
    def response(self) -> type[Response]:
        """Return the class of the response, importing its module."""
        return cast(type[Response], getattr(import_module(f"wire.messages.{self.module}"), f"{self.name}Response"))


def _api(key: ApiKey) -> Api:
    accepted, flexible = (parse_versions(text) for text in VERSIONS[key])
    advertised = parse_versions(PRODUCE_ADVERTISED) if key is ApiKey.PRODUCE else accepted
    return Api(key, accepted, None if key in NOT_ADVERTISED else advertised, flexible)


APIS: dict[int, Api] = {key: _api(key) for key in VERSIONS}
"""The APIs by `ApiKey`, or by the equal int."""


def request_header_version(key: int, version: int) -> int:
    """Return 2 for a flexible version and 1 for any other version, accepted or not.

    Raise KeyError if the API is unknown.
    """
    return 2 if version in APIS[key].flexible else 1


def response_header_version(key: int, version: int) -> int:
    """Return 1 for a flexible version and 0 for any other.

    ApiVersions always has 0, since its client does not know the broker's versions yet.
    """
    return 1 if version in APIS[key].flexible and key != ApiKey.API_VERSIONS else 0
