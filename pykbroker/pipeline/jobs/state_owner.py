"""The owner of a state, which a file in its directory names, so that no run replaces something else."""

from __future__ import annotations

import msgspec

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.storage import Storage, real_path

OWNER = "_pykbroker/state.json"


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
    """Raise StateConflict if a directory has the state of another owner, or files that are no state."""
    if target.exists(OWNER):
        owner.require(target.read(OWNER), target.directory)
    elif target.files():
        raise StateConflict(f"{target.directory} has files that are no state: choose an empty directory")


def seal(staging: Storage, name: str, owner: StateOwner) -> None:
    """Name the owner of a new state, and make it durable. What is no Parquet file is deleted."""
    for file in staging.files(name):
        if not file.path.endswith(".parquet"):
            staging.delete(file.path)
    staging.write(f"{name}/{OWNER}", msgspec.json.encode(owner))
    staging.sync(name)
