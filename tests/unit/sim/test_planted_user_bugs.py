"""Tests that the simulation of a cluster finds planted bugs of log-ins by SASL, each under its own name."""

from __future__ import annotations

import msgspec
import pytest

from pykbroker.broker.logins import ListenerLogins
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.metadata.snapshot import snapshot_records
from pykbroker.core.security.sasl.login import LoginState
from pykbroker.core.security.sasl.mechanism import Challenge
from pykbroker.core.security.sasl.plain import read_token
from pykbroker.core.security.sasl.plain_by_scram import PlainByScram
from pykbroker.core.security.session import ANONYMOUS
from pykbroker.quorum import snapshotter
from pykbroker.server.login.refusal import LoginRefused
from pykbroker.server.login.table import SaslTable
from pykbroker.sim.cluster import user_workload
from pykbroker.sim.simulation import Simulation
from tests.unit.sim.planted import found_in_cluster
from wire.stored.metadata_security import UserScramCredentialRecord

pytestmark = pytest.mark.timeout(240)  # The tests need seconds of CPU time, which take longer on a busy machine.

SEEDS_MAX = 60
SECONDS = 3
IMAGES_LATE = 4
"""The number of images after which a broker with a planted bug sees new ones."""


async def found(simulation: Simulation, *kinds: str) -> list[str]:
    return await found_in_cluster(simulation, *kinds, workload="users", seconds=SECONDS)


async def a_password_that_was_right_is_remembered(simulation: Simulation) -> list[str]:
    answer = PlainByScram.answer

    def remembering(self, token):
        _, user, password = read_token(token)
        if self._right.get(user, ("", ""))[1] == self._hash(user, password):
            return Challenge(b"", user)
        return answer(self, token)

    PlainByScram.answer = remembering
    return await found(simulation)


async def a_session_has_no_end(simulation: Simulation) -> list[str]:
    begins_again = SaslTable._begins_again

    def endless(self, kind):
        try:
            return begins_again(self, kind)
        except LoginRefused:
            return False

    SaslTable._begins_again = endless
    return await found(simulation)


async def a_client_that_fails_to_log_in_again_keeps_its_session(simulation: Simulation) -> list[str]:
    refuse = SaslTable.refuse

    def kept(self, reason, response, user=""):
        login = self._login
        if login.before is None or response is None:
            return refuse(self, reason, response, user)
        login.state, login.identity, login.expires_at = LoginState.COMPLETE, login.before, 2**63
        return response

    SaslTable.refuse = kept
    return await found(simulation)


async def a_log_in_leaves_the_principal(simulation: Simulation) -> list[str]:
    logged_in = SaslTable._logged_in

    def anonymous(self):
        logged_in(self)
        self._client.session = msgspec.structs.replace(self._client.session, principal=ANONYMOUS)

    SaslTable._logged_in = anonymous
    return await found(simulation)


async def a_snapshot_has_removed_users(simulation: Simulation) -> list[str]:
    seen: dict[tuple[str, int], UserScramCredentialRecord] = {}

    def with_removed(image, *args):
        seen.update({(one.name, one.mechanism): one for one in image.records.of(UserScramCredentialRecord)})
        records = list(snapshot_records(image, *args))
        there = {(one.name, one.mechanism) for one in records if isinstance(one, UserScramCredentialRecord)}
        return [*records, *(one for key, one in seen.items() if key not in there)]

    vars(snapshotter)["snapshot_records"] = with_removed
    vars(user_workload)["PROGRESS_S_MAX"] = 3  # which the bug lets run out
    return await found(simulation, "restart")


async def a_broker_serves_log_ins_by_an_old_image_at_first(simulation: Simulation) -> list[str]:
    look_up = ListenerLogins._credential
    images: dict[int, list[MetadataImage]] = {}

    def late(self, of, user):
        seen = images.setdefault(id(self), [])
        current = self._image
        if not any(image is current() for image in seen):
            seen.append(current())
        self._image = lambda: seen[0] if len(seen) < IMAGES_LATE else seen[-1]
        found = look_up(self, of, user)
        self._image = current
        return found

    ListenerLogins._credential = late
    return await found(simulation, "restart")


@pytest.mark.parametrize(
    ("bug", "name", "first_seed"),
    [
        (a_password_that_was_right_is_remembered, "lets in", 1),
        (a_session_has_no_end, "who has not logged in again", 0),
        (a_client_that_fails_to_log_in_again_keeps_its_session, "who has failed to log in", 0),
        (a_log_in_leaves_the_principal, "for somebody else", 0),
        (a_snapshot_has_removed_users, "does not obey", 6),
        (a_broker_serves_log_ins_by_an_old_image_at_first, "changes: since then", 0),
    ],
)
def test_a_planted_bug_of_log_ins_is_found(expect_finding, bug, name, first_seed):
    expect_finding(bug, name, first_seed, SEEDS_MAX)
