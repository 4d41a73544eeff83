"""Two builds that run in one Python: a commit, and this tree as it is now."""

from __future__ import annotations

import compileall
import io
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tools.bench.peers import PEERS, REPOSITORY, Peer, pykbroker_command

PACKAGES = ("pykbroker", "wire")


@dataclass(frozen=True)
class Build:
    """A copy of the packages `pykbroker` and `wire` in `directory`."""

    name: str
    directory: Path

    @classmethod
    def of_commit(cls, name: str, directory: Path, commit: str) -> Build:
        """Copy the packages of a commit. Raise RuntimeError with git's message if it cannot be read."""
        archive = subprocess.run(
            ["git", "archive", commit, *PACKAGES], cwd=REPOSITORY, check=False, capture_output=True
        )
        if archive.returncode:
            raise RuntimeError(archive.stderr.decode().strip())
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
            packed.extractall(directory, filter="data")
        return cls(name, directory)._compiled()

    @classmethod
    def of_tree(cls, name: str, directory: Path) -> Build:
        """Copy the packages of this tree, with its changes that are not committed."""
        for package in PACKAGES:
            shutil.copytree(REPOSITORY / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))
        return cls(name, directory)._compiled()

    def _compiled(self) -> Build:
        """Compile the packages, as an installation does, so that no start is measured with a compilation."""
        compileall.compile_dir(self.directory, quiet=1)
        return self

    @property
    def python(self) -> tuple[str, ...]:
        """Return the command of a Python that imports this build, and the tools of this tree."""
        path = os.pathsep.join([str(self.directory), str(REPOSITORY)])
        return ("env", f"PYTHONPATH={path}", "PYTHONSAFEPATH=1", sys.executable)

    @property
    def program(self) -> tuple[str, ...]:
        """Return the command `pykbroker` of this build."""
        return (*self.python, "-m", "pykbroker")

    @property
    def peer(self) -> Peer:
        """Return a broker of this build. Rows that run a broker in their own process cannot measure it."""
        command = partial(pykbroker_command, program=self.program)
        return replace(PEERS["pykbroker"], name=self.name, in_process=False, command=command)
