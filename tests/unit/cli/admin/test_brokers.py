"""Tests of `pykbroker brokers` with a broker whose users lack rights."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from pykbroker.cli.admin.brokers import HIDDEN
from pykbroker.cli.main import pykbroker as command
from pykbroker.testing.running import running_broker


def test_a_user_who_may_not_describe_the_cluster_is_not_told_that_it_has_no_controller(tmp_path: Path) -> None:
    with running_broker(users={"alice": "secret", "bob": "hidden"}, authorize=True, topics=["a"]) as broker:
        for user, controller, leads in (("alice", "yes", "1"), ("bob", "-", "0")):
            (tmp_path / user).write_text("".join(f"{name}={value}\n" for name, value in broker.java(user).items()))
            words = ["brokers", "-b", broker.bootstrap, "--client-config", str(tmp_path / user)]
            listed = CliRunner().invoke(command, words)
            assert listed.stdout.splitlines()[1].split()[4:6] == [controller, leads]
            assert listed.stderr == ("" if user == "alice" else f"{HIDDEN}\n")
        refused = CliRunner().invoke(command, ["users", "list", *words[1:]])
        names = "`pykbroker acls check` names the ACL that is missing"
        assert refused.stderr == f"Error: users (CLUSTER_AUTHORIZATION_FAILED): {names}\n"
