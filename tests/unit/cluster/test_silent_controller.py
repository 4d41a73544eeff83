"""A command whose request waits for a controller that does not run names the controller, and not the broker."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker
from tests.unit.cluster.nodes import HOST, Cluster, cluster

COMMANDS = (("create", "other"), ("elect", "--all-topics"), ("reassign", "t", "--to", "2", "--yes"))


def address(running: Cluster) -> str:
    """Return the address of broker 2."""
    serving = running.nodes[2].serving
    assert serving is not None
    return f"{HOST}:{serving.port}"


async def command(running: Cluster, *words: str) -> Result:
    """Run `pykbroker topics` with broker 2, in a thread."""
    words = ("topics", *words, "-b", address(running))
    return await trio.to_thread.run_sync(partial(CliRunner().invoke, pykbroker, words))


async def test_the_controller_is_named_if_only_the_broker_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykbroker.cli.ask.ANSWER_S_MAX", 1)
    monkeypatch.setattr("pykbroker.client.admin.cluster_description.CONTROLLER_S_MAX", 0.2)
    async with cluster(tmp_path, 1, 2) as running:
        await running.clients[2].create("t", 1)
        assert (await command(running, "elect", "t")).exit_code == 0
        running.crash(1)
        for words in COMMANDS:
            result = await command(running, *words)
            assert result.exit_code == 1
            assert result.stderr.splitlines()[-1] == (
                f"Error: the controller has not answered the broker on {address(running)} within 1 s: start the"
                " controller's node"
            )
        running.crash(2)
