"""Tests of the command lines of Kafka's tools, as translated: an option is carried out, or refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.cli.groups.reset_plan import PlannedOffset
from pykbroker.cli.kafka_tools.__main__ import TOOLS, main, tool_named
from pykbroker.cli.kafka_tools.console_format import ConsoleFormat
from pykbroker.cli.kafka_tools.options import Given, InvalidCommandLine, Option, Tool, pairs, parsed, usage
from pykbroker.cli.kafka_tools.properties import client_settings, with_properties
from pykbroker.consumer.settings import ConsumerSettings
from pykbroker.core.topic_partition import TopicPartition

TOOL = Tool(
    "kafka-test",
    "A tool.",
    (
        Option("flag", short="-f"),
        Option("one", "VALUE", "-o"),
        Option("many", "VALUE", is_repeatable=True),
        Option("maybe", "VALUE", is_optional=True),
        Option("lost", "VALUE", missing="write --one"),
    ),
    lambda given: 0,
)


def test_options_are_read_in_all_forms() -> None:
    given = parsed(TOOL, ["word", "--one=1", "--many", "a", "--many=b=c", "--maybe", "-f", "-", "--flag"])
    assert given.words == ["word", "-"]
    assert (given.text("one"), given.all("many"), given.text("maybe")) == ("1", ["a", "b=c"], "")
    assert "flag" in given
    assert "lost" not in given
    assert parsed(TOOL, ["-many", "a", "-one=b"]).all("many", "one") == ["a", "b"]
    assert parsed(TOOL, ["-o", "--flag", "--maybe", "x"]).all("one", "maybe") == ["--flag", "x"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--none"], "none is not a recognized option: `kafka-test --help` lists the options"),
        (
            ["--zookeeper", "z:2181"],
            "zookeeper is not a recognized option: Kafka 4 has no ZooKeeper: write --bootstrap-s",
        ),
        (["--lost", "1"], "--lost is not translated: write --one"),
        (["--one"], "Option one requires an argument: write --one VALUE"),
        (["--flag=1"], "Option flag takes no argument: write --flag"),
        (["--one", "1", "-o", "2"], "Found multiple arguments for option one, but you asked for only one"),
    ],
)
def test_a_command_line_is_refused_with_what_to_write(words: list[str], sentence: str) -> None:
    with pytest.raises(InvalidCommandLine) as refused:
        parsed(TOOL, words)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(("text", "is_valid"), [("0", False), ("1", True), ("5", True), ("6", False), ("x", False)])
def test_a_number_is_within_its_limits(text: str, is_valid: bool) -> None:
    given = Given({"one": [text]})
    if is_valid:
        assert given.number("one", 3, 1, 5) == int(text)
    else:
        with pytest.raises(
            InvalidCommandLine, match=r"--one 0 is not a number from 1 to 5|--one 6 is|Cannot parse argument 'x'"
        ):
            given.number("one", 3, 1, 5)


def test_pairs_need_an_equals_sign() -> None:
    assert pairs(["a=1", "b=c=d", "a=2"], "config") == {"a": "2", "b": "c=d"}
    with pytest.raises(InvalidCommandLine, match="--config a is not NAME=VALUE"):
        pairs(["a"], "config")


@pytest.mark.parametrize("name", TOOLS)
def test_the_help_of_a_tool_lists_every_option_and_says_what_to_use_for_a_missing_one(name: str) -> None:
    tool = tool_named(f"{name}.sh")
    text = usage(tool)
    assert tool is tool_named(name)
    assert tool.name == name
    for each in tool.options:
        assert f"--{each.name}" in text
        assert (f"(not translated: {each.missing})" in text) == bool(each.missing)


def test_an_unknown_tool_and_a_tool_without_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka-acls", "--list"]) == 1
    assert "'kafka-acls' is none of kafka-broker-api-versions, kafka-configs," in capsys.readouterr().err
    assert main(["kafka-topics.sh"]) == 1
    assert main(["kafka-topics.sh", "--list", "--bootstrap-server", "k:1", "--help"]) == 1
    assert capsys.readouterr().err.startswith("Create, delete, describe, or change a topic.\n")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("kafka-topics --list", 'Missing required argument "[bootstrap-server]"'),
        ("kafka-topics --list --bootstrap-server kafka", "Invalid url in bootstrap.servers: kafka."),
        (
            "kafka-topics --list --bootstrap-server kafka:1 --command-config {tls}",
            "--command-config: the user or the password of PLAIN is missing: write username=",
        ),
        ("kafka-topics --list --bootstrap-server kafka:1 --command-config {none}", "cannot read {none}"),
        ("kafka-configs --bootstrap-server kafka:1 --describe", "At least one entity type must be specified"),
        (
            "kafka-configs --bootstrap-server k:1 --describe --entity-type users",
            "--entity-type users is not translated",
        ),
        (
            "kafka-topics --bootstrap-server k:1 --describe --topics-with-overrides --unavailable-partitions",
            'Option "[unavailable-partitions]" can\'t be used with option "[topics-with-overrides]"',
        ),
        (
            "kafka-topics --bootstrap-server k:1 --alter --topic a --config b=c",
            'Option "[config]" can\'t be used with option "[alter]" (To alter topic configurations, the kafka',
        ),
        ("kafka-configs --bootstrap-server k:1 --alter --topic a", "At least one of --add-config, --add-config-file"),
        ("kafka-configs --bootstrap-server k:1 --alter --add-config a --topic a", "Invalid entity config: all configs"),
        (
            "kafka-configs --bootstrap-server k:1 --alter --topic a --add-config a=b=c",
            "Invalid entity config: all configs",
        ),
        (
            "kafka-configs --bootstrap-server k:1 --alter --topic a --add-config a=b --add-config-file {tls}",
            "Only one of --add-config or --add-config-file",
        ),
        ("kafka-configs --bootstrap-server k:1 --describe --topic a --broker 1", "Only one entity can be specified"),
        (
            "kafka-configs --bootstrap-server k:1 --describe --topic a --entity-type topics",
            "Only one entity can be specified",
        ),
        (
            "kafka-configs --bootstrap-server k:1 --describe --broker x",
            "The entity name for brokers must be a valid integer broker id, but it is: x",
        ),
        (
            "kafka-configs --bootstrap-server k:1 --describe --entity-type broker-loggers --entity-name x",
            "The entity name for broker-loggers must be a valid",
        ),
        (
            "kafka-configs --bootstrap-server k:1 --describe --entity-type topics --entity-default",
            "--entity-default must not be specified for topics",
        ),
        (
            "kafka-configs --bootstrap-server k:1 --describe --entity-type users --entity-type clients",
            "--entity-type users is not translated: `pykbroker quotas`",
        ),
        ("kafka-console-producer --bootstrap-server k:1", 'Missing required argument "[topic]"'),
        (
            "kafka-console-producer --bootstrap-server k:1 --topic a --producer-property security.protocol=SASL_SSL",
            "--command-config: sasl.mechanism is missing: use PLAIN, SCRAM-SHA-256",
        ),
        (
            "kafka-console-producer --bootstrap-server k:1 --topic a --producer-property transactional.id=x",
            "transactional.id is not translated: the tool sends no transactions",
        ),
        (
            "kafka-console-producer --bootstrap-server k:1 --topic a --request-timeout-ms x",
            "Cannot parse argument 'x' of option request-timeout-ms",
        ),
        ("kafka-console-producer --bootstrap-server k:1 --topic a --line-reader a.R", "--line-reader a.R is not trans"),
        ("kafka-console-consumer --bootstrap-server k:1", "Exactly one of the following arguments is required"),
        ("kafka-console-consumer --bootstrap-server k:1 --topic a --offset 1", "The partition is required when offset"),
        (
            "kafka-console-consumer --bootstrap-server k:1 --topic a --partition 0 --offset -1",
            "The offset '-1' is incorrect",
        ),
        ("kafka-console-consumer --bootstrap-server k:1 --topic a --max-messages x", "Cannot parse argument 'x'"),
        ("kafka-console-consumer --bootstrap-server k:1 --include [", "--include [ is not a regular expression"),
        ("kafka-console-consumer --bootstrap-server k:1 --topic a --formatter a.X", "--formatter X is not translated"),
        (
            "kafka-console-consumer --bootstrap-server k:1 --topic a --property key.deserializer=a.AvroDeserializer",
            "the deserializer a.AvroDeserializer is not translated",
        ),
        (
            "kafka-console-consumer --bootstrap-server k:1 --topic a --partition 0 --consumer-property group.id=g",
            "Options group and partition cannot be specified together.",
        ),
        (
            "kafka-console-consumer --bootstrap-server k:1 --topic a --group g --consumer-property group.id=h",
            "The group ids provided in different places",
        ),
        (
            "kafka-console-consumer --bootstrap-server k:1 --topic a --from-beginning --consumer-property"
            " auto.offset.reset=latest",
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest'",
        ),
        (
            "kafka-console-consumer --bootstrap-server k:1 --topic a --consumer-property auto.offset.reset=none",
            "auto.offset.reset=none is not translated",
        ),
        (
            "kafka-console-consumer --bootstrap-server k:1 --topic a --consumer-property a=b --command-property c=d",
            "Options --consumer-property and --command-property cannot be specified together.",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --delete-offsets --group g",
            "Option [delete-offsets] takes the following options: [group], [topic]",
        ),
        ("kafka-consumer-groups --bootstrap-server k:1 --timeout 0 --list", "--timeout 0 is not a number from 1"),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --delete --group g --topic a",
            'Option "[topic]" can\'t be used with option "[delete]"',
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --list --group g",
            'Option "[group]" can\'t be used with option "[list]"',
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --delete --group g --members",
            'Option "[members]" can\'t be used with option "[delete]"',
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --describe --group g --state stable",
            "Option [describe] does not take a value for [state]",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --list --state running",
            "Invalid state list 'running'. Valid states are: ",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --list --type classic,share",
            "Invalid types list 'classic,share'. Valid types are: Consumer, Classic",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --reset-offsets --group g --topic a --to-latest --dry-run"
            " --execute",
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --reset-offsets --group g --topic a --execute --shift-by x",
            "Cannot parse argument 'x' of option shift-by",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --reset-offsets --group g --topic a: --execute --to-latest",
            "--topic a: is not TOPIC or TOPIC:PARTITION,...",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --reset-offsets --group g --topic a --execute",
            "Option '[reset-offsets]' requires one of the following scenarios",
        ),
        ("kafka-storage forget --help=1", "Option help takes no argument"),
        ("kafka-storage forget", "kafka-storage: 'forget' is none of random-uuid, format, info"),
        ("kafka-storage format -t x", 'Missing required argument "[config]"'),
    ],
)
def test_a_tool_that_cannot_do_what_it_is_asked_says_so_before_it_connects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, sentence: str
) -> None:
    tls, none = tmp_path / "tls.properties", tmp_path / "none.properties"
    tls.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n")
    assert main([word.format(tls=tls, none=none) for word in line.split()]) == 1
    assert capsys.readouterr().err.startswith(sentence.format(none=none))


@pytest.mark.parametrize("wrong", [["--partitions", "x"], ["--replication-factor", "0"], ["--config", "a"]])
def test_a_wrong_value_of_topics_is_refused_without_a_wait_for_a_broker(
    wrong: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def talk(*_: object) -> None:
        pytest.fail("a broker was asked")

    monkeypatch.setattr("pykbroker.cli.kafka_tools.topics.talk", talk)
    assert main(["kafka-topics", "--bootstrap-server", "localhost:1", "--create", "--topic", "a", *wrong]) == 1


def test_the_warning_about_a_reset_without_execute_is_not_in_the_exported_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = [PlannedOffset(TopicPartition("a", 1), None, 7, "")]
    monkeypatch.setattr("pykbroker.cli.kafka_tools.consumer_group_resets.planned", lambda given, kind: {"g": plan})
    words = "--bootstrap-server k:1 --reset-offsets --group g --topic a --to-latest --export"
    assert main(["kafka-consumer-groups", *words.split()]) == 0
    printed = capsys.readouterr()
    assert printed.out == "a,1,7\n"
    assert printed.err.startswith("WARN: No action will be performed as the --execute option is missing.")


def test_properties_without_effect_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    found = with_properties(ConsoleFormat(), {"print.keys": "true", "print.key": "1", "print.offset": " TRUE "})
    assert found == ConsoleFormat(print_offset=True)
    warnings = capsys.readouterr().err.splitlines()
    assert warnings[0].startswith("WARN: the property print.keys has no effect: the properties are print.timestamp,")
    assert warnings[1] == "WARN: the property print.key=1 means false: write print.key=true or print.key=false"
    assert client_settings({"a.b": "1", "client.id": "c", "key.serializer": "x"}, ConsumerSettings) == {
        "client_id": "c"
    }
    assert capsys.readouterr().err == "WARN: the setting a.b has no effect: the translation has no such setting\n"
