"""Nodes that do not fit the cluster of their controller are refused with a sentence that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from pykbroker import broker
from pykbroker.core.address import Address
from pykbroker.core.cluster_id import RequiredClusterId
from pykbroker.core.errors import StartError, StopError
from pykbroker.core.settings import Serving
from tests.unit.cluster.nodes import HOST, Node, cluster


def refuse_to_be_ready(_serving: Serving) -> None:
    raise AssertionError("the node does not fit the cluster")


async def failure_of(node: Node, **changed: Any) -> BaseException:
    """Run a node that must not start with these changes of its settings, and return its error."""
    try:
        await broker.serve(msgspec.structs.replace(node.settings(), **changed), refuse_to_be_ready)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return error
    except (StartError, StopError) as error:
        return error
    raise AssertionError("the node ended without an error")


async def test_a_broker_of_another_cluster_is_stopped(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with cluster(tmp_path / "other", 1, 2):
        pass
    async with cluster(tmp_path / "one", 1) as running:
        node = Node(2, tmp_path / "other" / "node2", running.nodes[1].controller_address)
        with trio.fail_after(30):
            error = await failure_of(node)
        assert "correct controller.quorum.bootstrap.servers, or name other directories in log.dirs" in str(error)


async def test_a_node_without_the_required_cluster_id_is_refused(tmp_path: Path) -> None:
    other = RequiredClusterId("other", "CLUSTER_ID")
    async with cluster(tmp_path, 1) as running:
        assert running.nodes[1].serving is not None
        cluster_id, node = running.nodes[1].serving.cluster_id, running.nodes[1]
        joining = Node(2, tmp_path / "node2", node.controller_address)
        joining.directory.mkdir()
        assert str(await failure_of(joining, cluster_id=other)) == (
            f"CLUSTER_ID is other, but the controller belongs to cluster {cluster_id}: write {cluster_id}, or correct"
            " controller.quorum.bootstrap.servers"
        )
        assert list(joining.directory.glob("meta.properties")) == []
    assert str(await failure_of(node, cluster_id=other)) == (
        f"CLUSTER_ID is other, but {node.directory} belongs to cluster {cluster_id}: write {cluster_id}, or name an"
        " empty directory in log.dirs"
    )


async def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        await running.stop(2)
        node = Node(3, tmp_path / "node2", running.nodes[1].controller_address)
        assert "belongs to node 2, and this is node 3: change node.id or the directory" in str(await failure_of(node))


async def test_a_new_broker_without_a_controller_gives_up(tmp_path: Path) -> None:
    (tmp_path / "node2").mkdir()
    node = Node(2, tmp_path / "node2", Address(HOST, 9), initial_broker_registration_timeout_ms="500")
    error = await failure_of(node)
    assert f"no controller responds at {HOST}:9" in str(error)
    assert "start the controller, or correct controller.quorum.bootstrap.servers" in str(error)


async def test_the_address_of_a_broker_in_place_of_the_controllers_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as running:
        assert running.nodes[1].serving is not None
        address = Address(HOST, running.nodes[1].serving.port)
        node = Node(2, tmp_path / "node2", address, initial_broker_registration_timeout_ms="500")
        node.directory.mkdir()
        error = await failure_of(node)
        assert f"no controller responds at {address} ({address} is a listener of a broker, not of a" in str(error)


@pytest.mark.parametrize("used_id", [1, 2])
async def test_a_broker_id_that_is_in_use_is_refused(tmp_path: Path, used_id: int) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        address = running.nodes[1].controller_address
        node = Node(used_id, tmp_path / "twin", address, initial_broker_registration_timeout_ms="500")
        node.directory.mkdir()
        error = await failure_of(node)
        assert "a broker with this node.id is running: give each broker a node.id of its own" in str(error)
