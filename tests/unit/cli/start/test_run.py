"""Tests of `pykbroker start` with a fake broker: output, log lines and exit codes."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

import click
import pytest
import trio
from click.testing import CliRunner, Result

import pykbroker
from pykbroker.cli.failures import explain
from pykbroker.cli.main import COMMANDS
from pykbroker.cli.main import pykbroker as command
from pykbroker.cli.start.process import JsonLine, OneLine
from pykbroker.core.address import Address
from pykbroker.core.errors import StartError, StopError
from pykbroker.core.settings import Ready, Serving, Settings
from pykbroker.core.version import VERSION
from pykbroker.processes.messages import Announcement, decoded

Serve = Callable[[Settings, Ready, trio.Event], Awaitable[None]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[..., Result]:
    """Return `start(serve, *options)`, which runs the command with `serve` in place of the broker's own function."""
    monkeypatch.setattr("pykbroker.cli.start.run.settle_garbage_collector", lambda: None)
    caplog.set_level(logging.INFO)

    def run(serve: Serve, *options: str) -> Result:
        async def played(settings: Settings, ready: Ready, *, stop: trio.Event) -> None:
            await serve(settings, ready, stop)

        broker = ModuleType("pykbroker.broker")
        broker.serve = played  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pykbroker.broker", broker)
        monkeypatch.setattr(pykbroker, "broker", broker, raising=False)
        return CliRunner().invoke(command, ["start", *options])

    return run


async def until_sigterm(settings: Settings, ready: Ready, stop: trio.Event) -> None:
    ready(Serving(settings.listeners[0].address.host, 41234, "c" * 22, 1, dict))
    os.kill(os.getpid(), signal.SIGTERM)
    await stop.wait()


def test_the_first_output_line_has_the_address_and_sigterm_exits_with_0(
    start: Callable[..., Result], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = start(until_sigterm, "--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0")
    assert result.exit_code == 0
    assert result.stdout.startswith("pykbroker ")
    assert result.stdout.endswith(f" is listening on 127.0.0.1:41234 (cluster {'c' * 22}, data in {tmp_path / 'd'})\n")
    assert "SIGTERM: stopping." in caplog.messages


def test_a_broker_announces_its_addresses_on_the_pipe_of_the_process_that_has_started_it(
    start: Callable[..., Result],
) -> None:
    messages, theirs = os.pipe()
    with os.fdopen(messages, "rb") as reader:
        result = start(until_sigterm, "--memory", "--listen", "127.0.0.1:0", "--announce-fd", str(theirs))
        os.close(theirs)
        assert decoded(reader.read()) == Announcement(Address("127.0.0.1", 41234), "c" * 22, {}, None)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    refused = start(until_sigterm, "--announce-fd", "999999999")
    assert (refused.exit_code, "is no open file descriptor" in refused.stderr) == (2, True)


def test_the_first_output_line_is_json_if_the_log_is_json(start: Callable[..., Result], tmp_path: Path) -> None:
    result = start(until_sigterm, "--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--log-format", "json")
    line = json.loads(result.stdout)
    assert (line["level"], line["cluster_id"], line["version"]) == ("info", "c" * 22, VERSION)
    assert " is listening on 127.0.0.1:41234 " in line["message"]
    assert line["addresses"] == ["127.0.0.1:41234"]


def test_tls_auto_makes_a_certificate_once_and_prints_what_clients_set(
    start: Callable[..., Result], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = ["--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--tls", "auto"]
    for form in ("text", "json"):
        lines = start(until_sigterm, *options, "--log-format", form).stdout.splitlines()
        _, remark = [json.loads(line)["message"] for line in lines] if form == "json" else lines
        assert remark.startswith(f"clients set security.protocol=SSL and trust {tmp_path / 'd'}/tls-ca.pem, by ")
    made = [message for message in caplog.messages if message.startswith("made a certificate for 127.0.0.1, ::1, ")]
    assert len(made) == 1
    (tmp_path / "file").touch()
    refused = start(until_sigterm, "--data-dir", str(tmp_path / "file/d"), "--tls", "auto")
    assert (refused.exit_code, "cannot create the data directory" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    "pattern",
    [
        r".*Transitioning from RECOVERY to RUNNING.*",  # Testcontainers for Java, Go and .NET
        r".*\[KafkaServer id=\d+\] started.*",  # the same and that for Python, with ZooKeeper
        r".*Kafka Server started.*",  # Testcontainers for Python and Rust
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_container_prints_the_lines_of_kafka_for_which_testcontainers_waits(
    start: Callable[..., Result], tmp_path: Path, form: str, pattern: str
) -> None:
    options = ["--data-dir", str(tmp_path), "--log-format", form, "--log-level", "error", "--set", "node.id=7"]
    first, *lines = start(until_sigterm, *options, "--container").stdout.splitlines()
    assert " is listening on " in first
    texts = [json.loads(line)["message"] for line in lines] if form == "json" else lines
    assert len([text for text in texts if re.fullmatch(pattern, text)]) == 1
    assert all("7" in text for text in texts)
    assert len(start(until_sigterm, *options).stdout.splitlines()) == 1


def test_a_signal_before_the_event_loop_runs_prevents_the_start(
    start: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[str] = []

    def directory() -> tempfile.TemporaryDirectory[str]:
        os.kill(os.getpid(), signal.SIGINT)
        made.append((temporary := tempfile.TemporaryDirectory()).name)
        return temporary

    async def serve(settings: Settings, ready: Ready, stop: trio.Event) -> None:
        raise AssertionError("a broker was started")

    monkeypatch.setattr("pykbroker.cli.start.run.temporary_directory", directory)
    before = signal.getsignal(signal.SIGINT)
    result = start(serve, "--memory")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "SIGINT: not starting." in caplog.messages
    assert [os.path.exists(path) for path in made] == [False]
    assert signal.getsignal(signal.SIGINT) is before


def test_memory_removes_the_directory_at_exit(start: Callable[..., Result]) -> None:
    seen = {}

    async def serve(settings: Settings, ready: Ready, stop: trio.Event) -> None:
        seen.update({path: await trio.Path(path).is_dir() for path in settings.data_dirs})
        await until_sigterm(settings, ready, stop)

    result = start(serve, "--memory", "--topic", "a:2")
    assert "no data is kept" in result.stdout
    assert list(seen.values()) == [True]
    assert not any(Path(path).exists() for path in seen)


def test_a_start_error_prints_one_sentence_and_exits_with_1(start: Callable[..., Result]) -> None:
    async def serve(settings: Settings, ready: Ready, stop: trio.Event) -> None:
        raise StartError("the cluster is another one")

    result = start(serve, "--memory")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: the cluster is another one\n"


def test_a_start_error_names_the_variables_and_lines_of_its_configs(
    start: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(settings: Settings, ready: Ready, stop: trio.Event) -> None:
        raise StartError("it belongs to node 1: change node.id, num.partitions, broker.id or log.dirs")

    file = tmp_path / "server.properties"
    file.write_text(f"\nlog.dirs={tmp_path}\nnode.id=3\n")
    for variable in ("NODE_ID", "BROKER_ID"):
        monkeypatch.setenv(f"KAFKA_{variable}", "2")
    result = start(refuse, "--container", "--config", str(file), "--set", "broker.id=2")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: it belongs to node 1: change node.id, num.partitions, broker.id or log.dirs (node.id is from"
        f" KAFKA_NODE_ID, log.dirs is from {file}:2)\n"
    )


def test_an_unexpected_failure_while_serving_prints_a_traceback(start: Callable[..., Result]) -> None:
    async def serve(settings: Settings, ready: Ready, stop: trio.Event) -> None:
        ready(Serving("127.0.0.1", 1, "c", 1, dict))
        raise FileNotFoundError(2, "No such file", "/x")

    result = start(serve, "--memory")
    assert isinstance(result.exception, BaseExceptionGroup)
    assert result.exit_code == 1


def test_a_stop_error_while_serving_logs_one_line_and_exits_with_1(
    start: Callable[..., Result], caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(settings: Settings, ready: Ready, stop: trio.Event) -> None:
        ready(Serving("127.0.0.1", 1, "c", 1, dict))
        raise ExceptionGroup("", [StopError("/d failed: mend it"), StopError("/d failed again")])

    result = start(serve, "--memory")
    assert result.exit_code == 1
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert lines == ["/d failed: mend it"]
    assert "Traceback" not in result.output


def test_an_unexpected_failure_along_with_a_stop_error_prints_a_traceback(start: Callable[..., Result]) -> None:
    async def serve(settings: Settings, ready: Ready, stop: trio.Event) -> None:
        ready(Serving("127.0.0.1", 1, "c", 1, dict))
        raise ExceptionGroup("", [StopError("/d failed"), KeyError("b")])

    assert isinstance(start(serve, "--memory").exception, BaseExceptionGroup)


@pytest.mark.parametrize(
    "options",
    [
        ["--topic", "a:0"],
        ["--listen", "9092"],
        ["--set", "num.partition=1"],
        ["--memory", "--data-dir", "d"],
        ["--set", "num.partitions=0"],
        ["--config", "absent"],
    ],
)
def test_an_invalid_command_line_exits_with_2(start: Callable[..., Result], options: list[str]) -> None:
    result = start(until_sigterm, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


def test_an_unsupported_config_file_exits_with_1(start: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=OTHER://:9093\n")
    result = start(until_sigterm, "--config", str(file))
    assert result.exit_code == 1
    assert "OTHER has no security protocol" in result.stderr


def test_unknown_configs_in_a_file_are_logged(
    start: Callable[..., Result], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("zookeeper.connect=x\nbroker.idd=1\n")
    result = start(until_sigterm, "--memory", "--config", str(file))
    assert result.exit_code == 0
    replaced = "controller.quorum.bootstrap.servers has taken its place"
    assert [message for message in caplog.messages if message.startswith(str(file))] == [
        f"{file}:1: zookeeper.connect is no broker config any more, as in Kafka 4; {replaced}. It has no effect.",
        f"{file}:2: There is no broker config broker.idd; did you mean broker.id? It has no effect.",
    ]


def test_only_failures_that_an_operator_can_correct_are_printed_as_a_sentence() -> None:
    nested = ExceptionGroup("", [ExceptionGroup("", [StartError("a"), StartError("b")]), StartError("a")])
    assert explain(nested) == "a; b"
    assert explain(OSError(28, "No space left on device", "/d/x")) == "/d/x: No space left on device"
    assert explain(ExceptionGroup("", [StartError("a"), KeyError("b")])) is None


def test_a_log_message_with_line_breaks_stays_on_one_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "client %s", ("a\nFAKE\x1b[0m é",), None)
    assert OneLine("%(levelname)s %(message)s").format(record) == "INFO client a\\nFAKE\\x1b[0m é"


def test_the_json_log_has_one_object_per_line() -> None:
    record = logging.LogRecord("pykbroker.x", logging.WARNING, "", 0, "client %s", ("a\n\u2028é",), None)
    record.created = 1_700_000_000.25
    assert json.loads(JsonLine().format(record)) == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "warning",
        "logger": "pykbroker.x",
        "message": "client a\n\u2028é",
    }
    assert len(JsonLine().format(record).splitlines()) == 1
    try:
        raise ValueError("no")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    assert json.loads(JsonLine().format(record))["traceback"].endswith("ValueError: no")


def test_the_command_without_arguments_prints_its_help() -> None:
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0
    assert "start" in result.stdout
    assert isinstance(command, click.Group)


def test_a_command_imports_neither_other_commands_nor_large_libraries_before_it_runs() -> None:
    program = "import sys; from importlib import import_module; from pykbroker.cli.main import COMMANDS, pykbroker;"
    program += "pykbroker(['topics', '--help'], standalone_mode=False); print(*sys.modules);"
    program += "[import_module(each) for each in COMMANDS.values()]; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    of_topics, of_all = (set(line.split()) for line in ended.stdout.splitlines()[-2:])
    assert set(COMMANDS.values()) & of_topics == {"pykbroker.cli.topics.topics"}
    assert set(COMMANDS.values()) <= of_all
    assert of_all.isdisjoint({"trio", "msgspec", "rich", "pykbroker.client", "pykbroker.broker"})


def test_every_command_is_in_the_help_with_a_sentence() -> None:
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        assert (found.name, bool(found.get_short_help_str())) == (name, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["topcis"], "No such command 'topcis'. Did you mean 'topics'?"),
        (["topic", "list"], "No such command 'topic'. Did you mean 'topics'?"),
        (["pipeline", "archiv"], "No such command 'archiv'. Did you mean 'archive'?"),
        (["zzz"], "No such command 'zzz'."),
        (["--memry"], "No such option '--memry'."),
    ],
)
def test_an_unknown_command_ends_with_exit_code_2(words: list[str], reason: str) -> None:
    result = CliRunner().invoke(command, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.rstrip().endswith(reason)
