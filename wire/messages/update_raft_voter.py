"""The messages of UpdateRaftVoter (API key 82), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, FrozenStruct, Int16, Int32, Request, Response, Struct, UInt16, V


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0


class KRaftVersionFeature(FrozenStruct, frozen=True):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"]):
    cluster_id: Annotated[str | None, V(nullable="0+")] = ""
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: UUID = NIL
    listeners: list[Listener] = []
    kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


class CurrentLeader(FrozenStruct, frozen=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: str = ""
    port: Int32 = 0


class UpdateRaftVoterResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: Annotated[CurrentLeader, V(tag=0)] = CurrentLeader()
