"""The cluster id that a start requires, and the check of a cluster id's form.

Kafka's tools format a directory with any text, also an empty one. `meta.properties` returns only texts without spaces
at their ends, line breaks and backslashes as they were written.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pykbroker.core.errors import StartError

TEXT = re.compile(r"[!-\[\]-~]([ -\[\]-~]*[!-\[\]-~])?")
"""Printable ASCII without backslashes, and without spaces at its ends."""


class RequiredClusterId(NamedTuple):
    """The cluster id that a node must have, and the option or the variable that requires it."""

    text: str
    source: str

    def check(self, found: str | None, place: str, remedy: str) -> None:
        """Raise StartError if `place` has another cluster id. None stands for no id yet."""
        if found not in (None, self.text):
            raise StartError(
                f"{self.source} is {self.text}, but {place} belongs to cluster {found}: write {found}, or {remedy}"
            )


def required_cluster_id(text: str, source: str) -> RequiredClusterId:
    """Return the cluster id that `source` requires. Raise StartError for a text that is no id."""
    if not TEXT.fullmatch(text):
        raise StartError(
            f"{source}: {text!r} is no cluster id: write one such as MkU3OEVBNTcwNTJENDM2Qk, in printable ASCII without"
            " backslashes, and without spaces at its ends"
        )
    return RequiredClusterId(text, source)
