"""Options of `pykbroker cluster` that are refused before a broker starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.core.config.of_each_broker import OF_EACH_BROKER
from pykbroker.core.errors import StartError
from pykbroker.testing.cluster_options import checked_cluster_options


def refusal(*options: str) -> str:
    """Return the sentence that refuses these options."""
    result = CliRunner().invoke(pykbroker, ["cluster", *options])
    assert result.exit_code == 2
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", OF_EACH_BROKER)
def test_a_config_that_each_broker_has_its_own_value_of_is_refused(name: str, tmp_path: Path) -> None:
    sentence = f"{name} cannot be set for a whole cluster: leave it out, each broker has its own"
    data = tmp_path / "data"
    assert sentence in refusal("--data-dir", str(data), "--set", "num.partitions=3", "--set", f"{name}=3")
    assert not data.exists()


@pytest.mark.parametrize(
    ("name", "value"), [("node.id", "3"), ("process.roles", "broker"), ("controller.quorum.voters", "3@h:1")]
)
def test_running_cluster_refuses_them_too(name: str, value: str) -> None:
    with pytest.raises(StartError, match=f"^{name} cannot be set for a whole cluster: "):
        checked_cluster_options(3, None, (), {name: value}, None, {})
