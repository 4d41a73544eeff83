"""A broker of pykbroker in a cluster of other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.interop.our_cluster import REPLICATED, SETTINGS
from tools.broker_process import PYKBROKER, BrokerProcess

PARTITIONS_OF_KAFKA = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
"""The settings of `KafkaCluster`. A broker of Kafka that runs already does not learn that another has created more."""


def our_broker(work: Path, node_id: int, controllers: str, program: Sequence[str] = PYKBROKER) -> BrokerProcess:
    """Start a broker of pykbroker, or of another program, in a cluster that has controllers."""
    options = ["--data-dir", str(work / "data"), "--set", "process.roles=broker"]
    place = (f"node.id={node_id}", f"controller.quorum.bootstrap.servers={controllers}")
    for setting in (*place, *SETTINGS, *REPLICATED, *PARTITIONS_OF_KAFKA):
        options += ["--set", setting]
    node = BrokerProcess(work, *options, program=program)
    node.start()
    return node
