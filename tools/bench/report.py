"""The table of results as Markdown: one line per figure, with medians, and how many times better than Kafka."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median

from tools.bench.row import Figure, Row

HEADING = "| row | figure | pykbroker | Kafka 4.3.1 | times better | kfake | runs | date |"
RULE = "|---|---|---|---|---|---|---|---|"
PREAMBLE = """# Measured beside Apache Kafka and kfake

Made by `python tools/bench/run.py`; how each row is measured stands in `tools/bench/rows`. Medians, with the range in
brackets; "times better" is the median ratio of interleaved pairs, above 1 where pykbroker is faster or smaller than
Kafka. Kafka against itself gives 0.7 to 1.35: quote ratios, not absolutes.

"""


@dataclass(frozen=True)
class Line:
    """One figure of one row, with its value in each run of every measured broker."""

    row: Row
    key: str
    values: Mapping[str, Sequence[float]]

    @property
    def figure(self) -> Figure:
        return self.row.figures[self.key]

    def ratio(self) -> float | None:
        """Return how many times better than Kafka the figure is, as the median ratio of the pairs.

        Return None if pykbroker or Kafka was not measured, or if a value is zero.
        """
        pairs = zip(self.values.get("pykbroker", ()), self.values.get("kafka", ()), strict=False)
        quotients = [ours / theirs for ours, theirs in pairs if ours and theirs]
        ratios = quotients if self.figure.more_is_better else [1 / quotient for quotient in quotients]
        return median(ratios) if ratios else None

    def markdown(self) -> str:
        ratio = self.ratio()
        runs = max(map(len, self.values.values()), default=0)
        cells = [self.row.name, self.figure.title, self._cell("pykbroker"), self._cell("kafka")]
        cells += ["-" if ratio is None else f"{ratio:.2f}", self._cell("kfake"), str(runs), self._today()]
        return "| " + " | ".join(cells) + " |"

    @staticmethod
    def _today() -> str:
        return str(datetime.datetime.now(datetime.UTC).date())

    def _cell(self, peer: str) -> str:
        values = self.values.get(peer)
        if not values:
            return "-"
        shown = f"{median(values):,.{self.figure.digits}f}"
        if len(values) < 2:
            return shown
        return f"{shown} ({min(values):,.{self.figure.digits}f}-{max(values):,.{self.figure.digits}f})"


def machine() -> str:
    """Return a description of the machine in one line."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory_gib = next(int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")) / 2**20
    cores = sum(line.startswith("processor") for line in _lines("/proc/cpuinfo"))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("trio", "confluent-kafka"))
    system = f"{platform.system()} {platform.release()}"
    return f"{cpu}, {cores} cores, {memory_gib:.0f} GiB, {system}, Python {platform.python_version()}, {versions}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def write(path: Path, lines: Iterable[Line]) -> None:
    """Write `lines` into the table at `path`. Remarks stay, and so do rows that were not measured in this run."""
    table, remarks = {}, ""
    if path.exists():
        remarks = path.read_text().partition("\n## ")[2]
        table = {_name(line): line for line in _lines(str(path)) if line.startswith("| ") and line != HEADING}
    for line in lines:
        text = line.markdown()
        table[_name(text)] = text
    body = "\n".join([HEADING, RULE, *table.values()])
    path.write_text(f"{PREAMBLE}Machine: {machine()}.\n\n{body}\n" + (f"\n## {remarks}" if remarks else ""))


def _name(line: str) -> tuple[str, str]:
    cells = line.split(" | ")
    return cells[0].removeprefix("| "), cells[1]
