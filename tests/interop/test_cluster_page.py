"""The commands of `docs/cluster.md` and their output, in the order of the page, on free ports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.java_tools import agree, lines_of
from tools.bench import peers

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
SECTIONS = dict(re.findall(r"^##+ (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
ADDRESS = re.compile(r"\b(?:10\.\d\.0\.\d|127\.0\.0\.1):\d+")
RUNNING = ("pykbroker cluster", "pykbroker start")
START_S_MAX, STOP_S_MAX, COMMAND_S_MAX = 60, 60, 30

pytestmark = pytest.mark.timeout(180)


def runs(section: str) -> list[tuple[str, str]]:
    """Return the commands of a section with their outputs."""
    blocks = re.findall(r"^```console\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    found = []
    for part in parts:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        found.append((command, output))
    return found


class Page:
    """A shell in which the commands of the page are run. Commands that serve go on in the background."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.places: dict[str, str] = {}
        """Address of the page -> address in the test."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**os.environ, "PATH": path}
        self.serving: list[subprocess.Popen[bytes]] = []

    def run(self, command: str, expected: str) -> None:
        """Run a command, and compare its output."""
        if command.startswith(RUNNING):
            output = self.serve(command)
            if not self.places:
                self.places = dict(zip(ADDRESS.findall(expected), ADDRESS.findall(output), strict=True))
            addresses = self.places.values() if "cluster" in command.split()[:2] else ADDRESS.findall(command)[:1]
            self.environ["PYKBROKER_BOOTSTRAP"] = ",".join(addresses)
        else:
            shell = ["bash", "-c", command]
            done = subprocess.run(
                shell, cwd=self.work, env=self.environ, capture_output=True, text=True, timeout=COMMAND_S_MAX
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            output = done.stdout + done.stderr
        for written, used in self.places.items():
            expected = expected.replace(written, used)
        assert agree(lines_of(expected), lines_of(output)), f"$ {command}\n{output}instead of\n{expected}"

    def serve(self, command: str) -> str:
        """Start a command that serves, with data in a directory of its own. Return its first line."""
        work = self.work / str(len(self.serving))
        work.mkdir()
        if command.startswith("pykbroker cluster"):
            command += " --listen 127.0.0.1:0"
        environ = {**self.environ, "XDG_DATA_HOME": str(work)}
        with (work / "stdout").open("wb") as stdout, (work / "stderr").open("wb") as stderr:
            words = ["bash", "-c", f"exec {command}"]
            running = subprocess.Popen(words, cwd=self.work, env=environ, stdout=stdout, stderr=stderr)
        self.serving.append(running)
        deadline = time.monotonic() + START_S_MAX
        while "\n" not in (work / "stdout").read_text():
            assert running.poll() is None, (work / "stderr").read_text()
            assert time.monotonic() < deadline, (work / "stderr").read_text()
            time.sleep(0.02)
        return (work / "stdout").read_text()

    def stop(self) -> list[int]:
        """Stop what serves, the last one first, and return the exit codes."""
        codes = []
        for running in reversed(self.serving):
            running.send_signal(signal.SIGTERM)
            codes.append(running.wait(STOP_S_MAX))
        self.serving.clear()
        return codes


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    shell = Page(tmp_path)
    try:
        yield shell
    finally:
        shell.stop()


def test_each_command_of_the_page_is_run() -> None:
    used = ("On one machine", "On several machines", "A rolling restart", "More cores for one host")
    assert sum(len(runs(section)) for section in used) == PAGE.count("\n$ ")


def test_a_cluster_on_one_machine_prints_what_the_page_says(page: Page) -> None:
    for command, expected in [*runs("On one machine"), *runs("A rolling restart")]:
        page.run(command, expected)
    assert page.stop() == [0]


def test_the_nodes_of_several_machines_are_one_cluster(page: Page) -> None:
    (ini,) = re.findall(r"^```ini\n(.*?)^```", SECTIONS["On several machines"], re.MULTILINE | re.DOTALL)
    (page.work / "cluster.properties").write_text(ini)
    commands = runs("On several machines")
    written = dict.fromkeys(address for command, _ in commands for address in ADDRESS.findall(command))
    page.places = {address: f"127.0.0.1:{peers.free_port()}" for address in written}
    for command, expected in commands:
        used = command
        for address, free in page.places.items():
            used = used.replace(address, free)
        page.run(used, expected)
    page.run(
        "pykbroker topics create t:6 && pykbroker brokers",
        "Created the topic t with 6 partitions.\n…\n"
        + "".join(f"{node} … - unfenced {'yes' if node == 1 else 'no'} 2 4 0 0\n" for node in (1, 2, 3)),
    )
    assert page.stop() == [0, 0, 0]


def test_a_cluster_of_one_replica_serves(page: Page) -> None:
    for command, expected in runs("More cores for one host"):
        page.run(command, expected)
    page.run(
        "pykbroker topics create t:4 && pykbroker topics describe t",
        "Created the topic t with 4 partitions.\nt\n…\n" + "".join(f"{index} … 0 … …\n" for index in range(4)),
    )
    assert page.stop() == [0]
