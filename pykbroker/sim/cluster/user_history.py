"""The history of a simulated user: the passwords that an operator gave to it, and what brokers said to its log-ins.

A broker applies the changes of a user in their order, and never goes back, also not by a restart from a snapshot or
from a log. What it accepts and refuses therefore tells how far it has come at least.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

NO_PASSWORD = None
"""The password of a user who does not exist."""


class Attempt(NamedTuple):
    """The beginning of a log-in. The broker has applied at least `applied_min` changes of the user."""

    node_id: int
    claimed: str
    applied_min: int


@dataclass
class UserHistory:
    """The user `name`. `states` has its password after each change, also after one without an answer yet.

    `acknowledged` is the number of changes that are acknowledged, and `requests` that of the requests for the newest
    one.
    """

    name: str
    states: list[str | None] = field(default_factory=lambda: [NO_PASSWORD])
    acknowledged: int = 0
    requests: int = 0
    _applied: dict[int, int] = field(default_factory=dict)
    """Node id -> the least number of changes that the broker has applied, as its answers tell."""

    @property
    def password(self) -> str | None:
        """Return the newest password, or None if the user does not exist."""
        return self.states[-1]

    def is_newest(self, claimed: str) -> bool:
        """Whether this is the newest password of the user."""
        return self.states[-1] == claimed

    @property
    def is_final(self) -> bool:
        """Whether no change may follow, since the newest one was sent more than once.

        A broker may still send the first request to the controller long after the answer to the last one.
        """
        return self.requests > 1

    def change(self, password: str | None) -> None:
        """Begin a change: brokers may apply it from now on."""
        assert not self.is_final
        self.states.append(password)
        self.requests = 0

    def acknowledge(self) -> None:
        """Note that the newest change is acknowledged."""
        self.acknowledged = len(self.states) - 1

    def begin(self, node_id: int, claimed: str, *, is_controller: bool) -> Attempt:
        """Begin a log-in on a broker. The controller has applied what it has acknowledged, and the broker beside it."""
        known = self._applied.get(node_id, 0)
        return Attempt(node_id, claimed, max(known, self.acknowledged) if is_controller else known)

    def end(self, attempt: Attempt, *, accepted: bool) -> str:
        """Note what the broker has answered, and return a finding, or an empty text if the answer was right."""
        fitting = [
            number
            for number in range(attempt.applied_min, len(self.states))
            if (self.states[number] == attempt.claimed) is accepted
        ]
        if not fitting:
            said = "lets in" if accepted else "refuses"
            now = self.states[attempt.applied_min :]
            return (
                f"broker {attempt.node_id} {said} {self.name} with the password {attempt.claimed} after it has applied"
                f" {attempt.applied_min} changes: since then the user has {' and then '.join(map(str, now))}"
            )
        self._applied[attempt.node_id] = max(self._applied.get(attempt.node_id, 0), fitting[0])
        return ""
