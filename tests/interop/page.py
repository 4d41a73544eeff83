"""A page of the documentation as a user follows it: its commands in a shell, on free ports, and their output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.interop.java_tools import agree, lines_of

ADDRESS = re.compile(r"\b(?:10\.\d\.0\.\d|127\.0\.0\.1):\d+")
RUNNING = ("pykbroker cluster", "pykbroker start")
START_S_MAX, STOP_S_MAX, COMMAND_S_MAX = 60, 60, 55
LIVE = re.compile(r"^\d+ s: .* records\n", re.MULTILINE)
"""The lines of a measurement that takes longer than a second."""


def runs(text: str) -> list[tuple[str, str]]:
    """Return the commands of a text with their outputs."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
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
            output = self.serve(command, expected.count("\n"))
            if not self.places:
                self.places = dict(zip(ADDRESS.findall(expected), ADDRESS.findall(output), strict=True))
            addresses = ADDRESS.findall(command)[:1] or self.places.values()
            self.environ["PYKBROKER_BOOTSTRAP"] = ",".join(addresses)
        else:
            shell = ["bash", "-c", command]
            done = subprocess.run(
                shell, cwd=self.work, env=self.environ, capture_output=True, text=True, timeout=COMMAND_S_MAX
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            output = done.stdout + LIVE.sub("", done.stderr)
        for written, used in self.places.items():
            expected = expected.replace(written, used)
        assert agree(lines_of(expected), lines_of(output)), f"$ {command}\n{output}instead of\n{expected}"

    def serve(self, command: str, lines: int = 1) -> str:
        """Start a command that serves, with data in a directory of its own. Return its first lines."""
        work = Path(tempfile.mkdtemp(dir=self.work))
        if not ADDRESS.search(command):
            command += " --listen 127.0.0.1:0"
        environ = {**self.environ, "XDG_DATA_HOME": str(work)}
        with (work / "stdout").open("wb") as stdout, (work / "stderr").open("wb") as stderr:
            words = ["bash", "-c", f"exec {command}"]
            running = subprocess.Popen(words, cwd=self.work, env=environ, stdout=stdout, stderr=stderr)
        self.serving.append(running)
        deadline = time.monotonic() + START_S_MAX
        while (work / "stdout").read_text().count("\n") < lines:
            assert running.poll() is None, (work / "stderr").read_text()
            assert time.monotonic() < deadline, (work / "stderr").read_text()
            time.sleep(0.02)
        return (work / "stdout").read_text()

    def stop(self) -> list[int]:
        """Stop what serves, the last one first, and return the exit codes. What is started later has new addresses."""
        codes = []
        for running in reversed(self.serving):
            running.send_signal(signal.SIGTERM)
            codes.append(running.wait(STOP_S_MAX))
        self.serving.clear()
        self.places.clear()
        return codes
