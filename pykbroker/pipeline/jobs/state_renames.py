"""The replacement of a state on a file system that cannot exchange directories, such as HDFS.

1. The new state is written beside the target, under a name of its own.
2. The old state is renamed away. For this moment readers find no directory, and fail.
3. The new state is renamed to the target.
4. The old state is deleted.

After a crash between the second step and the third one, the next run renames the old state back. Such file systems have
no lock that a crash releases. A rename never replaces a directory. If two runs write at a time, one of them therefore
fails, and the target has a whole state. What a crash has left beside the target is deleted a day later.
"""

from __future__ import annotations

import re
from uuid import uuid4

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs.state_owner import OWNER, StateOwner, require_in_place, require_owned, seal
from pykbroker.pipeline.storage import HadoopStorage

NEW, OLD = "state-", "old-"
LEFT, RENAMED_AWAY = re.compile(f"{NEW}[0-9a-f]{{8}}"), re.compile(f"{OLD}[0-9a-f]{{8}}")
"""The names of new states, and of old ones, that ended runs may have left. Nothing else beside a target is touched."""
STAGING_SUFFIX_OF_BEFORE = ".staging"
"""The end of the name of the staging directory of earlier versions, in which a crash may have left the only state."""
ADVICE = "choose a local directory or one of HDFS, or write an Iceberg table of a catalog with --to-format iceberg"


class StateRenames:
    """The steps from a new state in a staging directory to its place in the target."""

    def __init__(self, target: HadoopStorage, staging: HadoopStorage) -> None:
        self._target, self._staging = target, staging
        self._run = uuid4().hex[:8]
        self._new, self._old = f"{NEW}{self._run}", f"{OLD}{self._run}"
        self._keeps_new = False

    @property
    def new_directory(self) -> str:
        """Return the directory into which a new state is to be written."""
        return f"{self._staging.directory}/{self._new}"

    def open(self, owner: StateOwner) -> None:
        """Check that the target may be replaced, and complete what a crash has interrupted.

        Raise PipelineError if its file system cannot rename a directory in one step.
        """
        self._staging.make()
        if not self._staging.renames_directories():
            self._staging.delete_leftovers("", LEFT)
            text = f"the file system of {self._target.directory} cannot rename a directory in one step"
            raise PipelineError(f"{text}: {ADVICE}")
        for staging in (self._staging, self._target.sibling(STAGING_SUFFIX_OF_BEFORE)):
            self._complete(staging)
        require_owned(self._target, owner)
        self._staging.delete_leftovers("", LEFT)

    def publish(self, owner: StateOwner) -> None:
        """Put the new state in the place of the target, and delete the old one.

        If the target does not get it, the new state is kept for a day.
        """
        seal(self._staging, self._new, owner, self._run)
        require_owned(self._target, owner)
        self._keeps_new = True
        if self._target.exists():
            self._staging.copy_mode(self._new, self._target)
            self._staging.take(self._target, "", self._old)
        self._target.take(self._staging, self._new, "")
        require_in_place(self._target, self._run, self.new_directory)
        self._keeps_new = False
        self._staging.delete(self._old)

    def close(self) -> None:
        """Delete what this run has left in the staging directory."""
        if not self._keeps_new:
            self._staging.delete(self._new)
        self._staging.delete_leftovers("", LEFT)

    def _complete(self, staging: HadoopStorage) -> None:
        """Rename the state back that a crashed run has renamed away, or delete it if it was replaced.

        The state was replaced if a target exists after the state was listed, since a run renames the state away first.
        """
        names = staging.names() if staging.exists() else []
        old = [each for each in names if RENAMED_AWAY.fullmatch(each) and staging.exists(f"{each}/{OWNER}")]
        if self._target.exists():
            for name in old:
                staging.delete(name)
        elif old:
            self._target.take(staging, old[0], "")
