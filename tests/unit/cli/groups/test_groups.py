"""Tests of `pykbroker groups` with a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.client.admin.admin import Admin
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.cli.group_requests import MEMBER_ID, commit, join_classic, join_consumer
from tests.unit.cli.requests import prepare, produce

PRODUCED_AT = 1_700_000_000_000
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
FILLED = TopicPartition("payments", 0)


def run(broker: str, *words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(command, ["groups", *words, "-b", broker], input=typed)


def listed(broker: str, *words: str) -> Any:
    result = run(broker, *words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def member_id(broker: str) -> str:
    """Create an active group of each type and an empty group, and return the id of the classic group's member.

    The records of `payments` have the timestamp `PRODUCED_AT`; the records of `orders-0` are one second older.
    """
    found = []

    async def groups(admin: Admin) -> None:
        await admin.create_topic("orders", 2, -1, {})
        await admin.create_topic("payments", 1, -1, {})
        for timestamp in (PRODUCED_AT - 1000, PRODUCED_AT):
            await produce(admin, "orders", 0, timestamp)
            await produce(admin, "payments", 0, timestamp)
        for group in ("busy", "new", "idle"):
            await commit(admin, group, {FIRST: 1, FILLED: 3})
        found.append(await join_classic(admin, "busy", [FIRST, SECOND]))
        await join_consumer(admin, "new", "orders")

    prepare(broker, groups)
    return found[0]


def test_a_cluster_without_groups_has_an_empty_list(broker: str) -> None:
    assert run(broker, "list").stdout == "GROUP  TYPE  STATE  PROTOCOL  COORDINATOR  MEMBERS\n"


def test_groups_are_listed_with_their_members(broker: str, member_id: str) -> None:
    rows = [list(row.values()) for row in listed(broker, "list")]
    assert ["busy", "Classic", "Stable", "consumer", 1, 1] in rows
    assert ["idle", "Classic", "Empty", None, 1, 0] in rows
    assert ["new", "Consumer", "Stable", "consumer", 1, 1] in rows


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        (("--state", "stable"), {"busy", "new"}),
        (("--state", "Empty"), {"idle"}),
        (("--type", "consumer"), {"new"}),
        (("--type", "Classic", "--state", "stable", "--state", "empty"), {"busy", "idle"}),
        (("--type", "share"), set()),
    ],
)
def test_a_list_is_filtered_by_state_and_by_type(
    broker: str, member_id: str, words: tuple[str, ...], groups: set[str]
) -> None:
    names = {row["group"] for row in listed(broker, "list", *words)}
    assert names & {"busy", "new", "idle"} == groups


def test_describe_prints_the_offsets_and_the_lag_of_each_committed_or_assigned_partition(
    broker: str, member_id: str
) -> None:
    member = {"consumer_id": member_id, "instance_id": "one", "host": "/127.0.0.1", "client_id": "pykbroker-cli"}
    nobody = dict.fromkeys(member)
    offsets = ("topic", "partition", "current_offset", "log_end_offset", "lag")
    assert listed(broker, "describe", "busy") == [
        {"group": "busy", **dict(zip(offsets, ("orders", 0, 1, 4, 3), strict=True)), **member},
        {"group": "busy", **dict(zip(offsets, ("orders", 1, None, 0, None), strict=True)), **member},
        {"group": "busy", **dict(zip(offsets, ("payments", 0, 3, 4, 1), strict=True)), **nobody},
    ]
    assert run(broker, "describe", "busy", "--offsets").stdout.splitlines()[2].split()[:6] == [
        *("busy", "orders", "1", "-", "0", "-")
    ]


def test_describe_prints_members_with_their_assignments(broker: str, member_id: str) -> None:
    classic, consumer = listed(broker, "describe", "busy", "new", "--members")
    assert classic == {
        "group": "busy",
        "consumer_id": member_id,
        "instance_id": "one",
        "host": "/127.0.0.1",
        "client_id": "pykbroker-cli",
        "partitions": 2,
        "current_epoch": None,
        "current_assignment": ["orders-0", "orders-1"],
        "target_epoch": None,
        "target_assignment": None,
    }
    assert (consumer["consumer_id"], consumer["partitions"]) == (MEMBER_ID, 2)
    assert consumer["current_epoch"] == consumer["target_epoch"] > 0
    assert consumer["current_assignment"] == consumer["target_assignment"] == ["orders-0", "orders-1"]


def test_describe_prints_states(broker: str, member_id: str) -> None:
    classic, consumer = listed(broker, "describe", "busy", "new", "--state")
    assert list(classic.values()) == ["busy", "Classic", "Stable", 1, "range", None, None, 1]
    assert list(consumer.values())[:5] == ["new", "Consumer", "Stable", 1, "uniform"]
    assert consumer["group_epoch"] == consumer["target_assignment_epoch"] > 0


def test_groups_that_exist_are_described_although_others_do_not(broker: str, member_id: str) -> None:
    result = run(broker, "describe", "absent", "busy", "--state")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].startswith("busy")
    assert result.stderr == "Error: Group 'absent' does not exist (GROUP_ID_NOT_FOUND)\n"
    assert run(broker, "describe", "absent").stdout == ""


def test_all_groups_are_described(broker: str, member_id: str) -> None:
    assert {row["group"] for row in listed(broker, "describe", "--all", "--state")} >= {"busy", "idle", "new"}


@pytest.mark.parametrize("words", [(), ("busy", "--all")])
def test_describe_needs_either_names_or_all_groups(words: tuple[str, ...]) -> None:
    result = run("127.0.0.1:1", "describe", *words)
    assert result.exit_code == 2
    assert "name the groups to describe, or give --all" in result.stderr


def test_the_lag_in_a_deleted_topic_is_unknown(broker: str, member_id: str) -> None:
    async def outlived(admin: Admin) -> None:
        await admin.create_topic("brief", 1, -1, {})
        await join_classic(admin, "outlived", [TopicPartition("brief", 0), FIRST])
        await admin.delete_topic("brief")

    prepare(broker, outlived)
    brief, orders = listed(broker, "describe", "outlived")
    assert (brief["topic"], brief["log_end_offset"], brief["lag"]) == ("brief", None, None)
    assert (orders["topic"], orders["log_end_offset"]) == ("orders", 4)


def reset_group(broker: str, name: str) -> None:
    """Create or replace the group with the offset 3 in orders-0."""
    prepare(broker, lambda admin: commit(admin, name, {FIRST: 3}))


def offsets(broker: str, name: str) -> dict[str, int]:
    return {f"{row['topic']}-{row['partition']}": row["current_offset"] for row in listed(broker, "describe", name)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--topic", "orders", "--to-earliest"), {"orders-0": 0, "orders-1": 0}),
        (("--topic", "orders:0", "--to-latest"), {"orders-0": 4}),
        (("--topic", "orders:0", "--topic", "payments", "--to-offset", "2"), {"orders-0": 2, "payments-0": 2}),
        (("--all-topics", "--by", "-2"), {"orders-0": 1}),
        (("--all-topics", "--to-time", "2023-11-14T22:13:20+00:00"), {"orders-0": 2}),
        (("--all-topics", "--to-time", "2033-11-14T22:13:20+00:00"), {"orders-0": 4}),
        (("--all-topics", "--by-duration", "1s"), {"orders-0": 4}),
        (("--topic", "orders", "--to-current"), {"orders-0": 3, "orders-1": 0}),
    ],
)
def test_the_offsets_of_an_empty_group_are_reset(
    broker: str, member_id: str, words: tuple[str, ...], expected: dict[str, int]
) -> None:
    reset_group(broker, "reset")
    result = run(broker, "reset", "reset", *words, "--yes")
    assert result.exit_code == 0, result.stderr
    count = len(expected)
    assert f"Reset the offsets of the group reset in {count} of {count} partitions.\n" in result.stdout
    assert offsets(broker, "reset") == {"orders-0": 3, **expected}
    assert run(broker, "delete", "reset").exit_code == 0


def test_a_dry_run_prints_the_new_offsets_and_commits_nothing(broker: str, member_id: str) -> None:
    reset_group(broker, "dry")
    result = run(broker, "reset", "dry", "--topic", "orders", "--to-offset", "9", "--dry-run")
    assert result.stdout == (
        "GROUP  TOPIC   PARTITION  CURRENT OFFSET  NEW OFFSET\n"
        "dry    orders  0          3               4\n"
        "dry    orders  1          -               0\n"
    )
    assert result.stderr == (
        "orders-0 ends before offset 9: its end 4 is used\norders-1 ends before offset 9: its end 0 is used\n"
    )
    assert offsets(broker, "dry") == {"orders-0": 3}


@pytest.mark.parametrize(("typed", "exit_code", "offset"), [("y\n", 0, 0), ("n\n", 1, 3), ("", 1, 3)])
def test_a_reset_asks_before_it_commits(broker: str, member_id: str, typed: str, exit_code: int, offset: int) -> None:
    reset_group(broker, "asked")
    result = run(broker, "reset", "asked", "--all-topics", "--to-earliest", typed=typed)
    assert result.exit_code == exit_code
    assert "Commit these offsets for the group asked? [y/N]:" in result.stderr
    assert offsets(broker, "asked") == {"orders-0": offset}


def test_a_reset_as_json_has_one_document_on_stdout(broker: str, member_id: str) -> None:
    reset_group(broker, "document")
    result = run(broker, "reset", "document", "--all-topics", "--to-earliest", "--yes", "--json")
    assert json.loads(result.stdout) == [
        {"group": "document", "topic": "orders", "partition": 0, "current_offset": 3, "new_offset": 0}
    ]


def test_a_group_is_reset_to_the_offsets_of_a_file(broker: str, member_id: str, tmp_path: Path) -> None:
    reset_group(broker, "filed")
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,1\npayments,0,2\n")
    assert run(broker, "reset", "filed", "--from-file", str(file), "--yes").exit_code == 0
    assert offsets(broker, "filed") == {"orders-0": 1, "payments-0": 2}
    file.write_bytes(b"\xff\n")
    refused = run(broker, "reset", "filed", "--from-file", str(file), "--yes")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"{file} is not a text file in UTF-8" in refused.stderr


@pytest.mark.parametrize("group", ["busy", "new"])
def test_the_offsets_of_an_active_group_cannot_be_reset(broker: str, member_id: str, group: str) -> None:
    result = run(broker, "reset", group, "--topic", "orders", "--to-earliest", "--yes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: Group '{group}' is active (state Stable, members 1): its offsets can be reset once all members have "
        "left\n"
    )


def test_a_group_that_becomes_active_after_the_plan_is_not_reset(
    broker: str, member_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def joins(*_: object, **__: object) -> bool:
        prepare(broker, lambda admin: join_consumer(admin, "sudden", "orders"))
        return True

    reset_group(broker, "sudden")
    monkeypatch.setattr("click.confirm", joins)
    result = run(broker, "reset", "sudden", "--all-topics", "--to-earliest")
    assert result.exit_code == 1
    assert "Error: orders-0: Group 'sudden' has active members, which must leave first" in result.stderr
    assert offsets(broker, "sudden")["orders-0"] == 3


def test_a_reset_creates_a_group_that_does_not_exist(broker: str, member_id: str) -> None:
    result = run(broker, "reset", "created", "--topic", "orders:0", "--to-offset", "2", "--yes")
    assert result.exit_code == 0
    assert result.stderr == "The group created does not exist: committing offsets creates it.\n"
    assert offsets(broker, "created") == {"orders-0": 2}


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("--topic", "absent", "--to-earliest"), "Topic 'absent' (UNKNOWN_TOPIC_OR_PARTITION)"),
        (("--topic", "orders:7", "--to-earliest"), "Topic 'orders' has no partition 7 (UNKNOWN_TOPIC_OR_PARTITION)"),
        (("--topic", "orders", "--by", "1"), "orders-0 has no committed offset to shift"),
        (("--all-topics", "--to-earliest"), "Group 'fresh' has no committed offsets: choose the partitions by --topic"),
    ],
)
def test_a_reset_that_is_impossible_says_why(broker: str, member_id: str, words: tuple[str, ...], refusal: str) -> None:
    result = run(broker, "reset", "fresh", *words, "--yes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert refusal in result.stderr


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("--topic", "a"), "choose one of --to-offset, --to-earliest"),
        (("--topic", "a", "--to-earliest", "--by", "0"), "choose one of --to-offset, --to-earliest"),
        (("--to-offset", "0"), "choose the partitions by --topic, by --all-topics or by --from-file"),
        (("--topic", "a", "--all-topics", "--to-offset", "0"), "choose the partitions by --topic"),
        (("--topic", "a", "--to-offset", "0", "--yes", "--dry-run"), "--dry-run and --yes contradict each other"),
        (("--topic", "a", "--to-offset", "-1"), "--to-offset"),
        (("--topic", "a", "--to-offset", str(2**63)), "--to-offset"),
        (("--topic", "a", "--by", str(2**63)), "--by"),
        (("--topic", "a", "--to-time", "yesterday"), "'yesterday' is not a time such as 2026-01-31T12:00:00"),
        (("--topic", "a", "--by-duration", "soon"), "'soon' is not a duration such as"),
        (("--topic", "a", "--by-duration", "30000d"), "--by-duration goes back to before 1970"),
        (("--topic", "a", "--by-duration", "9" * 15 + "d"), "--by-duration goes back to before 1970"),
        (("--topic", ":1", "--to-earliest"), "is not TOPIC[:PARTITION]"),
        (("--from-file", "/nonexistent"), "No such file"),
    ],
)
def test_invalid_options_of_a_reset_are_refused_without_a_broker(words: tuple[str, ...], refusal: str) -> None:
    result = run("127.0.0.1:1", "reset", "g", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert refusal in result.stderr


def test_groups_are_deleted_although_others_cannot_be(broker: str, member_id: str) -> None:
    reset_group(broker, "dropped")
    result = run(broker, "delete", "absent", "dropped", "busy")
    assert (result.exit_code, result.stdout) == (1, "Deleted the group dropped.\n")
    assert result.stderr == (
        "Error: Group 'absent' does not exist (GROUP_ID_NOT_FOUND)\n"
        "Group 'busy' has active members, which must leave first (NON_EMPTY_GROUP)\n"
    )
    assert "dropped" not in {row["group"] for row in listed(broker, "list")}


def test_offsets_of_a_topic_are_deleted(broker: str, member_id: str) -> None:
    prepare(broker, lambda admin: commit(admin, "partial", {FIRST: 1, SECOND: 0, FILLED: 2}))
    result = run(broker, "delete", "partial", "--topic", "orders:0", "--topic", "orders", "--topic", "absent")
    assert result.stdout == (
        "Deleted the offset of the group partial in orders-0.\nDeleted the offset of the group partial in orders-1.\n"
    )
    assert (result.exit_code, result.stderr) == (1, "Error: Group 'partial' has no committed offset of absent\n")
    assert offsets(broker, "partial") == {"payments-0": 2}


def test_offsets_of_a_topic_that_members_subscribe_to_remain(broker: str, member_id: str) -> None:
    result = run(broker, "delete", "new", "--topic", "orders:0", "--topic", "payments:0")
    assert result.stdout == "Deleted the offset of the group new in payments-0.\n"
    assert result.exit_code == 1
    assert "orders-0: Group 'new' has active members that subscribe to this topic" in result.stderr
    assert offsets(broker, "new")["orders-0"] == 1
