"""The owner of a state, which a file in its directory names, so that no run replaces something else."""

from __future__ import annotations

import msgspec

from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.storage import Storage, real_path

OWNER = "_pykbroker/state.json"
RUN = "_pykbroker/run.json"
"""The file of a state that names the run which has written it, and its files."""
STAGING_SUFFIX = ".pykbroker-staging"
"""The end of the name of the directory beside a state in which a new one is written."""


class StateRun(msgspec.Struct, frozen=True):
    """The run that has written a state, and the names of the state's files in its directory."""

    run: str
    files: list[str]


class StateOwner(msgspec.Struct, frozen=True):
    """The job and the archive that a state belongs to."""

    job: str
    archive: str
    format: str
    topics: list[str]

    def require(self, content: str | bytes, place: str) -> None:
        """Raise StateConflict if a state at a place belongs to another owner."""
        try:
            found = msgspec.json.decode(content, type=StateOwner)
        except msgspec.MsgspecError as error:
            raise StateConflict(f"the owner of {place} cannot be read: {error}") from None
        if (found.job, found.format, found.topics) != (self.job, self.format, self.topics) or (
            found.archive != self.archive and real_path(found.archive) != real_path(self.archive)
        ):
            topics = ", ".join(found.topics) or "all topics"
            raise StateConflict(
                f"{place} has the state of {topics} of the archive {found.archive}: choose another target, or delete it"
            )


def require_owned(target: Storage, owner: StateOwner) -> None:
    """Raise StateConflict if a directory has the state of another owner, or files or directories of something else."""
    names = {each.path for each in target.files()}
    if OWNER in names:
        owner.require(target.read(OWNER), target.directory)
        own = _own_files(target, names)
        entries = set(target.names()) - {each.partition("/")[0] for each in own}  # also empty directories
        if foreign := sorted(names - own) or sorted(entries):
            raise StateConflict(
                f"{target.directory}/{foreign[0]} is no file of the state, which is replaced with its directory: move "
                "it away"
            )
    elif names or target.names():
        raise StateConflict(f"{target.directory} has files that are no state: choose an empty directory")


def _own_files(target: Storage, names: set[str]) -> set[str]:
    """Return the names of a state's files. A state of an earlier version does not name them."""
    if RUN not in names:
        return {OWNER, *(name for name in names if name.endswith(".parquet") and "/" not in name)}
    try:
        return {OWNER, RUN, *msgspec.json.decode(target.read(RUN), type=StateRun).files}
    except msgspec.MsgspecError as error:
        raise StateConflict(f"{target.directory}/{RUN} is damaged: {error}") from None


def seal(staging: Storage, name: str, owner: StateOwner, run: str) -> None:
    """Name the owner and the run of a new state, and make it durable. What is no Parquet file is deleted."""
    files = []
    for file in staging.files(name):
        if file.path.endswith(".parquet"):
            files.append(file.path.removeprefix(f"{name}/"))
        else:
            staging.delete(file.path)
    staging.write(f"{name}/{OWNER}", msgspec.json.encode(owner))
    staging.write(f"{name}/{RUN}", msgspec.json.encode(StateRun(run, files)))
    staging.sync(name)


def require_in_place(target: Storage, run: str, place: str) -> None:
    """Raise PipelineError if a directory lacks the state of a run, which was to be moved there from a place."""
    if not target.exists(RUN) or msgspec.json.decode(target.read(RUN), type=StateRun).run != run:
        raise PipelineError(
            f"{target.directory} has another state than the one that was moved there: look for the new one in {place}"
        )
