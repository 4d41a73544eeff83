"""Tests of `pykbroker consume` that need no records: its formats and its usage errors."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker as command


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--format", "xml"), "--format 'xml' is none of text, json and raw, and has no field such as {value}"),
        (("--format", "{valu}"), "'{valu}' in the template is no field"),
        (("--format", r"{value}\q"), r"'\\q' in '\\q' is no escape"),
        (("--format", "raw", "--json"), "--json and --format 'raw': give one of them"),
        (("--json", "--key-delimiter", "="), "--key-delimiter is for --format text"),
        (("--key-delimiter", ""), "--key-delimiter must not be empty"),
        (("--format", "raw", "--null", "-"), "raw has its own form of null"),
        (("--count", "0"), "0 is not in the range x>=1"),
        (("--from", "soon"), "'soon' is neither beginning, end, an offset, -N nor a time"),
        (("--from", "end"), "there are no records from the end on: add --follow"),
        (("--to", "-1"), "'-1' is neither end, an offset nor a time"),
        (("--follow", "--to", "end"), "give --to an offset, or no --to"),
        (("--group", "g", "--from", "1"), "--from is beginning or end"),
        (("--group", "g", "--partition", "0"), "leave out --partition or --group"),
    ],
)
def test_a_usage_error_names_the_option_and_what_to_do(words: tuple[str, ...], text: str) -> None:
    result = CliRunner().invoke(command, ["consume", "orders", *words])
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_setting_without_a_value_is_a_usage_error(broker: str) -> None:
    CliRunner().invoke(command, ["topics", "create", "orders", "-b", broker])
    result = CliRunner().invoke(command, ["consume", "orders", "-b", broker, "-X", "fetch"])
    assert result.exit_code == 2
    assert "-X 'fetch' is no NAME=VALUE" in result.stderr


def test_a_broker_that_does_not_answer_is_a_sentence() -> None:
    result = CliRunner().invoke(command, ["consume", "orders", "-b", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no broker answers on 127.0.0.1:1")


def test_a_topic_that_does_not_exist_is_a_sentence(broker: str) -> None:
    result = CliRunner().invoke(command, ["consume", "nowhere", "-b", broker])
    assert result.exit_code == 1
    assert result.stderr == "Error: topic 'nowhere' does not exist: `pykbroker topics list` lists those that do\n"
