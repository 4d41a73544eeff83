"""The settings of a consumer, with the names and defaults of Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from pykbroker.client.settings import (
    AnyBytes,
    ClientSettings,
    InvalidSetting,
    Ms,
    check_function,
    check_interceptors,
    settings,
)
from pykbroker.consumer.interceptors import CONSUMER_METHODS
from pykbroker.core.consumer.assignors.assignor import Assignor
from pykbroker.core.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pykbroker.core.consumer.assignors.range import RangeAssignor
from pykbroker.core.consumer.assignors.roundrobin import RoundRobinAssignor
from pykbroker.core.consumer.assignors.sticky import StickyAssignor
from pykbroker.core.consumer.fetch_call import FetchSettings
from pykbroker.core.consumer.membership.steps import MemberSettings
from pykbroker.core.consumer.offset_reset import ResetStrategy, parse_offset_reset
from pykbroker.core.consumer.position_lookups import LookupSettings

ASSIGNORS = {each.name: each for each in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)}
DEFAULT_ASSIGNORS = (RangeAssignor.name, CooperativeStickyAssignor.name)
OF_THE_COORDINATOR = frozenset({"session_timeout_ms", "heartbeat_interval_ms"})
"""The settings that KIP-848 has replaced by configs of the group, such as `consumer.session.timeout.ms`."""
CONSUMER_PROTOCOL = "consumer"
"""The value of `group_protocol` for groups of KIP-848."""


class ConsumerSettings(ClientSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a consumer. None stands for a default that depends on other settings."""

    group_id: Annotated[str, Meta(min_length=1)] | None = None
    group_instance_id: Annotated[str, Meta(min_length=1)] | None = None
    group_protocol: Literal["classic", "consumer"] = "classic"
    group_remote_assignor: str | None = None
    partition_assignment_strategy: str | Sequence[Any] = DEFAULT_ASSIGNORS
    session_timeout_ms: Annotated[int, Meta(ge=1)] = 45_000
    heartbeat_interval_ms: Annotated[int, Meta(ge=1)] = 3000
    max_poll_interval_ms: Annotated[int, Meta(ge=1)] = 300_000
    max_poll_records: Annotated[int, Meta(ge=1)] = 500
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool | None = None
    auto_commit_interval_ms: Ms = 5000
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    fetch_min_bytes: AnyBytes = 1
    fetch_max_bytes: AnyBytes = 50 << 20
    fetch_max_wait_ms: Ms = 500
    max_partition_fetch_bytes: AnyBytes = 1 << 20
    check_crcs: bool = True
    client_rack: str = ""
    default_api_timeout_ms: Ms = 60_000
    exclude_internal_topics: bool = True
    key_deserializer: Any = None
    value_deserializer: Any = None
    interceptors: Sequence[Any] = ()

    @property
    def reset(self) -> ResetStrategy:
        """Return the strategy of `auto_offset_reset`. Raise ValueError for any other text."""
        return parse_offset_reset(self.auto_offset_reset)

    @property
    def commits(self) -> bool:
        """Whether positions are committed automatically. Without a group, there is nothing to commit to."""
        return self.group_id is not None and self.enable_auto_commit is not False

    @property
    def is_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.isolation_level == "read_committed"

    def assignors(self) -> list[Assignor]:
        """Return new assignors, the preferred one first. Raise InvalidSetting for an unknown name."""
        given = self.partition_assignment_strategy
        names = given.split(",") if isinstance(given, str) else given
        return [_assignor(each.strip()) if isinstance(each, str) else each for each in names]

    def fetching(self) -> FetchSettings:
        return FetchSettings(
            min_bytes=self.fetch_min_bytes,
            max_wait_ms=self.fetch_max_wait_ms,
            bytes_max=self.fetch_max_bytes,
            partition_bytes_max=self.max_partition_fetch_bytes,
            is_committed=self.is_committed,
            checks_crc=self.check_crcs,
            rack=self.client_rack,
            replica_ms_max=self.metadata_max_age_ms,
            backoff_ms=self.retry_backoff_ms,
        )

    def lookups(self) -> LookupSettings:
        """Return the settings of look-ups of offsets."""
        return LookupSettings(self.is_committed, self.request_timeout_ms, self.retry_backoff_ms)

    def membership(self) -> MemberSettings:
        """Return the settings of the member of a group."""
        assert self.group_id is not None, "only a group has members"
        return MemberSettings(
            group_id=self.group_id,
            instance_id=self.group_instance_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            poll_interval_ms_max=self.max_poll_interval_ms,
            request_timeout_ms=self.request_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_ms_max=self.retry_backoff_max_ms,
            rack=self.client_rack or None,
            commits=self.commits,
            server_assignor=self.group_remote_assignor,
        )

    def check(self) -> None:
        """Raise InvalidSetting if settings contradict each other."""
        try:
            parse_offset_reset(self.auto_offset_reset)
        except ValueError as error:
            raise InvalidSetting(str(error)) from None
        if self.group_id is None:
            for name in ("enable_auto_commit", "group_instance_id", "group_remote_assignor"):
                if getattr(self, name):
                    raise InvalidSetting(f"{name}={getattr(self, name)!r} needs a group: set group_id, or leave it out")
        check_function("key_deserializer", self.key_deserializer)
        check_function("value_deserializer", self.value_deserializer)
        check_interceptors(self.interceptors, CONSUMER_METHODS)
        if not self.assignors():
            raise InvalidSetting("partition_assignment_strategy names no assignor")
        if self.group_protocol == CONSUMER_PROTOCOL:
            if self.partition_assignment_strategy is not DEFAULT_ASSIGNORS:
                raise InvalidSetting(
                    "partition_assignment_strategy has no meaning for group_protocol='consumer', whose coordinator "
                    "assigns partitions: set group_remote_assignor instead"
                )
        else:
            self._check_classic()

    def _check_classic(self) -> None:
        if self.group_remote_assignor is not None:
            raise InvalidSetting("group_remote_assignor needs group_protocol='consumer'")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidSetting(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be less than "
                f"session_timeout_ms={self.session_timeout_ms}"
            )
        offered = self.assignors()
        if not frozenset.intersection(*(assignor.protocols for assignor in offered)):
            names = ", ".join(assignor.name for assignor in offered)
            raise InvalidSetting(
                f"partition_assignment_strategy={names!r}: these assignors have no rebalance protocol in common"
            )


def _assignor(name: str) -> Assignor:
    try:
        return ASSIGNORS[name]()
    except KeyError:
        raise InvalidSetting(
            f"partition_assignment_strategy={name!r} is not allowed: use {', '.join(ASSIGNORS)}"
        ) from None


def consumer_settings(given: Mapping[str, Any]) -> ConsumerSettings:
    """Return the settings of a consumer. Raise InvalidSetting for a name, value or combination that is not allowed."""
    found = settings(ConsumerSettings, given)
    found.check()
    if found.group_protocol == CONSUMER_PROTOCOL:
        for name in sorted(OF_THE_COORDINATOR & given.keys()):
            raise InvalidSetting(f"{name} has no meaning for group_protocol='consumer': the coordinator decides it")
    return found
