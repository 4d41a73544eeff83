"""Apache Kafka's command line tools: what each is told, and what it shall say. JavaTools.java runs them, in one JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TOOLS = "org.apache.kafka.tools."
CLASSES = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{TOOLS}consumer.ConsoleConsumer",
    "kafka-consumer-groups": f"{TOOLS}consumer.group.ConsumerGroupCommand",
    "kafka-groups": f"{TOOLS}GroupsCommand",
    "kafka-transactions": f"{TOOLS}TransactionsCommand",
    "kafka-verifiable-consumer": f"{TOOLS}VerifiableConsumer",
    "kafka-verifiable-producer": f"{TOOLS}VerifiableProducer",
}
"""By the names of Kafka's scripts."""
NOISE = re.compile(r"^(SLF4J: |\tat |Caused by: |\tSuppressed: |\t\.\.\. ).*\n|^\n(?=exit)", re.MULTILINE)


@dataclass
class Said:
    """One tool: its class, its arguments, what it reads, and what it shall say.

    In arguments and text {host}, {one} and {two} are the broker's address and log directories, {files} where the files
    of a test are, others what the test knows; in the text "…" stands for anything on one line, and alone for any lines.
    How many spaces stand between words does not count.
    """

    tool: str
    arguments: str
    text: str
    reads: str = ""
    any_order: bool = False

    def agrees(self, places: Mapping[str, str], said: str) -> bool:
        """Whether it said that."""
        expected, found = lines_of(filled(self.text, places)), lines_of(said)
        return agree(*map(sorted, (expected, found))) if self.any_order else agree(expected, found)


def transcript(file: Path) -> dict[str, Said]:
    """The tools of a file, by title. A part of it: "# title", "$ script arguments" ("~": any order), what it says."""
    found = {}
    for part in re.split(r"^# ", file.read_text(), flags=re.MULTILINE)[1:]:
        title, call, text = part.split("\n", 2)
        order, script, arguments = call.split(" ", 2)
        found[title] = Said(CLASSES[script], f"--bootstrap-server {{host}} {arguments}", text, any_order=order == "~")
    return found


def filled(text: str, places: Mapping[str, str]) -> str:
    """With what stands in braces."""
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def lines_of(text: str) -> list[str]:
    """Those that say something."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def agree(lines: list[str], said: list[str]) -> bool:
    """Whether this was said."""
    if not lines:
        return not said
    if lines[0] == "…":
        return any(agree(lines[1:], said[skipped:]) for skipped in range(len(said)))
    wanted = re.escape(lines[0]).replace("…", ".*")
    return bool(said) and re.fullmatch(wanted, said[0]) is not None and agree(lines[1:], said[1:])
