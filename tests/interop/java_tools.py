"""Apache Kafka's command line tools with their arguments and expected output. JavaTools.java runs them in one JVM."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TOOLS = "org.apache.kafka.tools."
CLASSES = {
    "kafka-acls": f"{TOOLS}AclCommand",
    "kafka-cluster": f"{TOOLS}ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{TOOLS}consumer.ConsoleConsumer",
    "kafka-consumer-groups": f"{TOOLS}consumer.group.ConsumerGroupCommand",
    "kafka-features": f"{TOOLS}FeatureCommand",
    "kafka-groups": f"{TOOLS}GroupsCommand",
    "kafka-leader-election": f"{TOOLS}LeaderElectionCommand",
    "kafka-metadata-quorum": f"{TOOLS}MetadataQuorumCommand",
    "kafka-reassign-partitions": f"{TOOLS}reassign.ReassignPartitionsCommand",
    "kafka-transactions": f"{TOOLS}TransactionsCommand",
    "kafka-verifiable-consumer": f"{TOOLS}VerifiableConsumer",
    "kafka-verifiable-producer": f"{TOOLS}VerifiableProducer",
}
"""The main class of each of Kafka's scripts, by the name of the script."""
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Options of a JVM that ends before the code of the second compiler would be faster than that of the first.

The verification of its classes would take a fifth of the time in which Kafka or Spark starts.
"""
RUNNER = Path(__file__).with_name("JavaTools.java")
TOOL_S_MAX = 60
NOISE = re.compile(r"^(SLF4J: |\tat |Caused by: |\tSuppressed: |\t\.\.\. ).*\n|^\n(?=exit)", re.MULTILINE)


@dataclass
class ToolRun:
    """A run of a tool: its class, arguments, standard input and expected output.

    In arguments and text {host}, {one} and {two} stand for the broker's address and log directories, {files} for the
    directory of the test's files; other names come from the test. In the output "…" matches anything within a line, and
    a line with only "…" matches any lines. The number of spaces between words does not matter.
    """

    tool: str
    arguments: str
    text: str
    reads: str = ""
    any_order: bool = False

    def agrees(self, places: Mapping[str, str], output: str) -> bool:
        """Whether `output` matches the expected output."""
        expected, found = lines_of(filled(self.text, places)), lines_of(output)
        return agree(*map(sorted, (expected, found))) if self.any_order else agree(expected, found)


class ToolsJvm:
    """A running JVM that executes tools one after another, for tests that need a result before the next tool."""

    def __init__(self, java: str, jars: Path, directory: Path) -> None:
        self._directory, self._count = directory, 0
        self._process = subprocess.Popen(
            runner(java, jars), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate(timeout=TOOL_S_MAX)

    def run(self, script: str, arguments: Sequence[str]) -> str:
        """Return the output of a tool and a last line with its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        file = self._directory / f"{self._count:03}"
        file.write_text("\n".join([CLASSES[script], *arguments]))
        self._process.stdin.write(f"{file}\n")
        self._process.stdin.flush()
        patience = threading.Timer(TOOL_S_MAX, self._process.kill)
        patience.start()
        done = self._process.stdout.readline()
        patience.cancel()
        assert done == f"{file}\n", f"the JVM ended while {script} {' '.join(arguments)} ran"
        return output_of(file)


def runner(java: str, jars: Path, *arguments: str) -> list[str]:
    """Return the command that runs JavaTools.java."""
    return [java, "-Xmx256M", *SHORT_LIVED_JVM, "-cp", f"{jars}/*", str(RUNNER), *arguments]


def output_of(file: Path) -> str:
    """Return the output of the tool in a file of JavaTools.java, without the lines of loggers and stack traces."""
    return NOISE.sub("", file.with_name(f"{file.name}.out").read_text())


def transcript(file: Path) -> dict[str, ToolRun]:
    """Return the runs in a file by title.

    A run is written as "# title", then "$ script arguments" ("~" if the lines may have any order), and then its output.
    """
    found = {}
    for part in re.split(r"^# ", file.read_text(), flags=re.MULTILINE)[1:]:
        title, call, text = part.split("\n", 2)
        order, script, arguments = call.split(" ", 2)
        found[title] = ToolRun(
            CLASSES[script], f"--bootstrap-server {{host}} {arguments}", text, any_order=order == "~"
        )
    return found


def filled(text: str, places: Mapping[str, str]) -> str:
    """Return the text with its placeholders filled in."""
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def agree(lines: list[str], output: list[str]) -> bool:
    """Whether the printed lines match the expected ones."""
    if not lines:
        return not output
    if lines[0] == "…":
        return any(agree(lines[1:], output[skipped:]) for skipped in range(len(output)))
    pattern = re.escape(lines[0]).replace("…", ".*")
    return bool(output) and re.fullmatch(pattern, output[0]) is not None and agree(lines[1:], output[1:])
