"""The metrics of replication and of the controller, under the names of Kafka's JMX exporter."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pykbroker.quorum.statistics import ControllerDuty
from tests.unit.console.observed import FOUND, Observed

REPLICAS = {
    "partitioncount": 3,
    "leadercount": 2,
    "offlinereplicacount": 1,
    "underreplicatedpartitions": 11,
    "underminisrpartitioncount": 12,
    "atminisrpartitioncount": 13,
    "reassigningpartitions": 14,
    "isrexpands_total": 15,
    "isrshrinks_total": 16,
    "failedisrupdates_total": 17,
}
CONTROLLER = "kafka_controller_kafkacontroller_"
STATE = "kafka_server_raftmetrics_current_state"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"


async def test_each_statistic_of_the_replicas_has_the_name_of_kafkas_replica_manager() -> None:
    found = await Observed().scrape()
    assert {name: found[f"kafka_server_replicamanager_{name}", ()] for name in REPLICAS} == REPLICAS
    assert found["kafka_server_replicafetchermanager_maxlag", (("clientId", "Replica"),)] == 18


async def test_the_active_controller_exports_the_state_of_the_cluster() -> None:
    controller = replace(FOUND.controller, brokers=3, fenced_brokers=1, duty=ControllerDuty(5, 6, 7))
    found = await Observed(replace(FOUND, controller=controller)).scrape()
    exported = {name.removeprefix(CONTROLLER): value for (name, _), value in found.items() if CONTROLLER in name}
    assert exported == {
        "activecontrollercount": 1,
        "activebrokercount": 2,
        "fencedbrokercount": 1,
        "globaltopiccount": 2,
        "globalpartitioncount": 3,
        "offlinepartitionscount": 5,
        "preferredreplicaimbalancecount": 6,
    }
    assert found[UNCLEAN, ()] == 7
    assert found["kafka_brokers", ()] == 2
    assert found[STATE, (("current_state", "leader"),)] == 1
    assert found["kafka_server_raftmetrics_current_epoch", ()] == 4
    assert found["kafka_server_brokermetadatametrics_last_applied_record_offset", ()] == 77


async def test_other_brokers_export_only_that_they_are_not_the_active_controller() -> None:
    found = await Observed(replace(FOUND, controller=replace(FOUND.controller, duty=None))).scrape()
    exported = {name.removeprefix(CONTROLLER): value for (name, _), value in found.items() if CONTROLLER in name}
    assert exported == {"activecontrollercount": 0}
    assert found[STATE, (("current_state", "observer"),)] == 1
    assert (UNCLEAN, ()) not in found


@pytest.mark.parametrize(
    ("duty", "asked"), [(None, False), (ControllerDuty(0, 6, 7), False), (ControllerDuty(1, 6, 7), True)]
)
async def test_only_the_active_controller_looks_for_partitions_without_a_leader_if_there_are_any(
    duty: ControllerDuty | None, *, asked: bool
) -> None:
    observer = Observed(replace(FOUND, controller=replace(FOUND.controller, duty=duty)))
    await observer.scrape()
    assert observer.asked_for_leaderless is asked
