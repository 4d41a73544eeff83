"""The controller: the state machine that decides every change of the cluster's metadata.

`handle` calls the function for a request, which returns records and a response. `tick` does what is due without a
request. `replay` applies records to the state, and `freeze` returns an image of it. The records of a metadata
transaction are applied at its EndTransactionRecord.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import msgspec

from pykbroker.core.ids import Randomness
from pykbroker.core.metadata.alter_client_quotas import alter_client_quotas
from pykbroker.core.metadata.alter_configs import alter_configs, incremental_alter_configs
from pykbroker.core.metadata.alter_partition import alter_partition
from pykbroker.core.metadata.alter_user_scram_credentials import alter_user_scram_credentials
from pykbroker.core.metadata.assign_directories import assign_directories
from pykbroker.core.metadata.context import (
    RECORDS_MAX,
    ControllerConfigs,
    ControllerContext,
    Deciding,
    MetadataDecision,
    excessive,
)
from pykbroker.core.metadata.controller_tasks import ControllerTasks
from pykbroker.core.metadata.create_acls import create_acls
from pykbroker.core.metadata.create_partitions import create_partitions
from pykbroker.core.metadata.create_topics import create_topics
from pykbroker.core.metadata.delete_acls import delete_acls
from pykbroker.core.metadata.delete_topics import delete_topics
from pykbroker.core.metadata.draft import ImageDraft
from pykbroker.core.metadata.elect_leaders import elect_leaders
from pykbroker.core.metadata.heartbeats import broker_gone, heartbeat
from pykbroker.core.metadata.image import EMPTY, Delta, MetadataImage
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.core.metadata.partition_index import PartitionIndex
from pykbroker.core.metadata.producer_ids import allocate_producer_ids
from pykbroker.core.metadata.reassign_partitions import reassign_partitions
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.registration import register_broker, register_controller
from pykbroker.core.metadata.replay import apply
from pykbroker.core.metadata.sessions import BrokerSessions
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.metadata.unregister_broker import unregister_broker
from pykbroker.core.metadata.update_features import update_features
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry, Outcome, Token
from pykbroker.core.steps import Steps
from wire.declare import Request, Response
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_client_quotas import AlterClientQuotasRequest
from wire.messages.alter_configs import AlterConfigsRequest
from wire.messages.alter_partition import AlterPartitionRequest
from wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest
from wire.messages.controller_registration import ControllerRegistrationRequest
from wire.messages.create_acls import CreateAclsRequest
from wire.messages.create_partitions import CreatePartitionsRequest
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_acls import DeleteAclsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.elect_leaders import ElectLeadersRequest
from wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.messages.update_features import UpdateFeaturesRequest
from wire.sentinels import NO_LEADER
from wire.stored.metadata_brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from wire.stored.metadata_marks import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

MetadataOutcome = Outcome[Record, Response]

DECIDE: dict[type, Callable[[ControllerContext, Any], MetadataDecision | Deciding]] = {
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    CreatePartitionsRequest: create_partitions,
    ElectLeadersRequest: elect_leaders,
    AlterPartitionReassignmentsRequest: reassign_partitions,
    AllocateProducerIdsRequest: allocate_producer_ids,
    AlterConfigsRequest: alter_configs,
    IncrementalAlterConfigsRequest: incremental_alter_configs,
    AlterClientQuotasRequest: alter_client_quotas,
    UpdateFeaturesRequest: update_features,
    AlterUserScramCredentialsRequest: alter_user_scram_credentials,
    CreateAclsRequest: create_acls,
    DeleteAclsRequest: delete_acls,
}
"""The functions for requests that are refused as a whole if they would write more than `RECORDS_MAX` records."""

DECIDE_UNBOUNDED: dict[type, Callable[[ControllerContext, Any], MetadataDecision | Deciding]] = {
    AlterPartitionRequest: alter_partition,
    BrokerRegistrationRequest: register_broker,
    BrokerHeartbeatRequest: heartbeat,
    UnregisterBrokerRequest: unregister_broker,
    ControllerRegistrationRequest: register_controller,
    AssignReplicasToDirsRequest: assign_directories,
}
"""The functions for requests that may write a record for each partition of a broker.

Their records need not be atomic, since the broker repeats the request after a failure.
"""

OF_BROKERS = (RegisterBrokerRecord, BrokerRegistrationChangeRecord, UnregisterBrokerRecord)
"""Records after which a broker may have to leave partitions. Their field `broker_id` names it."""


class ControllerMachine:
    """The state of the metadata after the last replayed record, and the sessions of brokers.

    `handle` takes requests, and the notice `BrokerGone` with the token None, which has no reply. The owner may call
    `note_contact` and `note_applied` at any time, also while a request is being handled: a heartbeat counts when it
    arrives, not when its turn comes.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        configs: ControllerConfigs,
        randomness: Randomness,
        image: MetadataImage = EMPTY,
    ) -> None:
        self._index = PartitionIndex.of(image)
        self._sessions = BrokerSessions(settings.node_id, settings.broker_session_timeout_ms)
        self._tasks = ControllerTasks(settings)
        self._context = ControllerContext(
            ImageDraft(image, self._index), 0, settings, configs, randomness, self._index, self._sessions, 0.0
        )
        self._draft = self._context.draft
        self._held: list[Entry[Record]] | None = None  # the records of an open transaction
        self.next_offset = image.offset + 1

    @property
    def in_transaction(self) -> bool:
        """Whether the log ends inside a metadata transaction."""
        return self._held is not None

    @property
    def features(self) -> Mapping[str, int]:
        """Return the finalized levels of the features that are on."""
        return self._draft.features

    @property
    def leaderless_count(self) -> int:
        """Return the number of partitions without a leader."""
        return len(self._index.led.get(NO_LEADER, ()))

    @property
    def unbalanced_count(self) -> int:
        """Return the number of partitions that another replica than the preferred one leads, or none."""
        return len(self._index.unbalanced)

    @property
    def unclean_election_count(self) -> int:
        """Return the number of leaders that were elected outside of ISR and ELR since `loaded`."""
        return self._index.unclean_elections

    @property
    def deadline_ms(self) -> float:
        """Return when `tick` must be called: to check sessions, to end what a fence began, or to balance leaders."""
        return self._tasks.deadline_ms(self._sessions.deadline_ms)

    def loaded(self, now: Now) -> MetadataOutcome:
        """Begin a session for each unfenced broker, and start the timers."""
        self._index.unclean_elections = 0  # an earlier process has counted the elections in the log
        self._tasks.activate(self._now(now))
        return Outcome()

    def handle(self, request: Request[Response] | BrokerGone, token: Token, now: Now) -> Steps[MetadataOutcome]:
        """Decide a request in short steps. Raise ApiError to refuse it as a whole."""
        context = self._now(now)
        if isinstance(request, BrokerGone):
            return Outcome(tuple((yield from broker_gone(context, request))))
        decide = DECIDE.get(type(request))
        decision = (decide or DECIDE_UNBOUNDED[type(request)])(context, request)
        records, response = (yield from decision) if isinstance(decision, Generator) else decision
        if decide is not None and len(records) > RECORDS_MAX:
            raise excessive()
        return Outcome(tuple(records), ((token, response),))

    def tick(self, now: Now) -> MetadataOutcome:
        """Return the next portion of what is due."""
        return Outcome(tuple(self._tasks.run(self._now(now))))

    def note_contact(self, broker_id: int, broker_epoch: int, now: Now) -> None:
        """Extend the session of a broker whose heartbeat has arrived."""
        broker = self._draft.brokers.get(broker_id)
        if broker is not None and broker.epoch == broker_epoch:
            self._sessions.note_contact(broker_id, broker_epoch, now.monotonic_ms)

    def note_applied(self, broker_id: int, broker_epoch: int, offset: int) -> None:
        """Note that a broker has applied the metadata log up to the record at `offset`.

        Heartbeats say so, too, but only at their interval.
        """
        self._sessions.note_applied(broker_id, broker_epoch, offset)

    def _now(self, now: Now) -> ControllerContext:
        return msgspec.structs.replace(self._context, next_offset=self.next_offset, now_ms=now.monotonic_ms)

    def skip(self, offset: int) -> None:
        """Skip the entry at `offset`, which is a control record."""
        self.next_offset = offset + 1

    def replay(self, entry: Entry[Record]) -> None:
        """Apply a record to the state. Raise DamagedMetadata if the record contradicts the state."""
        self.next_offset = entry.offset + 1
        if isinstance(entry.value, BeginTransactionRecord):
            self._held = []
        elif isinstance(entry.value, AbortTransactionRecord):
            self._held = None
        elif isinstance(entry.value, EndTransactionRecord):
            held, self._held = self._held or [], None
            for waiting in held:
                apply(self._draft, waiting)
        elif self._held is not None:
            self._held.append(entry)
        else:
            apply(self._draft, entry)
        self._tasks.note_replayed(entry.value.broker_id if isinstance(entry.value, OF_BROKERS) else None)

    def freeze(self, epoch: int, time_ms: int) -> Delta:
        """Return an image of all replayed records, and the changes since the last image.

        `time_ms` is the append time of the last record.
        """
        return self._draft.freeze(self.next_offset - 1, epoch, time_ms)
