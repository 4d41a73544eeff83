"""The log-in of the clients of each listener with SASL: its settings, and the SCRAM credentials of the metadata."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykbroker.core.config.config import Texts
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.metadata.image import ClusterImage, MetadataImage, RecordsImage
from pykbroker.world.fair_lock import FairLock, key_of_host
from pykbroker.world.off_loop import OffLoop
from wire.stored.metadata_security import UserScramCredentialRecord

if TYPE_CHECKING:
    from pykbroker.core.security.sasl.scram import Kind, ScramCredential, ScramHash, UnknownUsers
    from pykbroker.server.login.table import SaslClient, SaslListener

MS_PER_S = 1000
KEY_BYTES = 32
KINDS_MAX = 8
"""The number of kinds of users among which an unknown one is. Each takes some 5 us of a log-in."""

logger = logging.getLogger(__name__)


class ListenerLogins:
    """The log-ins of a broker's listeners.

    `image` returns the committed metadata: a change of a SCRAM credential holds for the next log-in, and other nodes
    log in at the controller before this node has applied any metadata. `random_bits` returns a number of so many
    random bits.
    """

    def __init__(
        self, image: Callable[[], MetadataImage], cluster_id: str, random_bits: Callable[[int], int], off_loop: OffLoop
    ) -> None:
        self._image, self._cluster_id, self._random_bits, self._off_loop = image, cluster_id, random_bits, off_loop
        self._computing = FairLock()
        """The lock that leaves all threads but one to others, however many strangers send passwords, and that lets the
        addresses of clients take turns.
        """
        self._unknown: UnknownUsers | None = None
        self._unknown_of: tuple[ClusterImage | None, RecordsImage | None] = None, None

    def of(self, listener: ListenerSettings, texts: Texts) -> SaslListener | None:
        """Return the log-in of a listener, or None for a listener without SASL. Raise StartError for a wrong config."""
        if not listener.protocol.has_sasl:
            return None
        # a broker without SASL starts without it
        from pykbroker.core.security.sasl.scram import NONCE_BITS, base36
        from pykbroker.core.security.sasl.settings import sasl_settings, sends_readable_passwords
        from pykbroker.server.login.table import SaslListener

        settings = sasl_settings(texts, listener)
        if sends_readable_passwords(settings, listener):
            logger.warning(
                "clients of %s send their passwords by PLAIN to %s without TLS, and whoever sees the network can read"
                " them: set sasl.enabled.mechanisms=SCRAM-SHA-256, or listen on an address of this machine",
                listener.name,
                listener.address,
            )
        return SaslListener(
            settings.mechanisms(
                self._credential, self._unknown_users, self._random_bits(8 * KEY_BYTES).to_bytes(KEY_BYTES, "big")
            ),
            settings.reauth_ms,
            settings.receive_bytes_max,
            settings.failure_delay_ms / MS_PER_S,
            lambda: base36(self._random_bits(NONCE_BITS)),
            self._compute,
        )

    async def _compute(self, client: SaslClient, function: Callable[[], bytes]) -> bytes | None:
        """Return the result of a function for a client, or None if the client has gone: strangers do in no time."""
        async with self._computing.turn(key_of_host(client.session.client_host)):
            return None if client.ended else await self._off_loop(function)

    def _credential(self, of: ScramHash, user: str) -> ScramCredential | None:
        record = self._image().records.by_key.get((UserScramCredentialRecord.record_type, (user, of.number)))
        if record is None:
            return None
        assert isinstance(record, UserScramCredentialRecord)
        from pykbroker.core.security.sasl.scram import ScramCredential

        return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

    def _unknown_users(self) -> UnknownUsers:
        """Return what stands for the credentials of unknown users, which is the same on all brokers of a cluster.

        Their salts must not change with the users, nor by a restart: a stranger who asks twice, or two brokers, would
        learn which users exist. The secret follows from the directory id of a broker, which is random, is known to all
        brokers, and is shown only to clients that may list the users. The kinds are those of existing users.
        """
        image = self._image()
        cluster, records = self._unknown_of
        if self._unknown is None or image.cluster is not cluster or image.records is not records:
            from pykbroker.core.security.sasl.scram import UnknownUsers

            self._unknown_of = image.cluster, image.records
            self._unknown = UnknownUsers(self._secret(image.cluster), kinds_of_users(image.records))
        return self._unknown

    def _secret(self, cluster: ClusterImage) -> bytes:
        """Return the secret of the broker with the lowest id that has registered directories."""
        directories = (min(broker.directories) for _, broker in sorted(cluster.brokers.items()) if broker.directories)
        return hashlib.sha256(self._cluster_id.encode() + next(directories, b"")).digest()


def kinds_of_users(records: RecordsImage) -> dict[Kind, int]:
    """Return the most frequent kinds of users, with the number of users of each."""
    kinds: dict[str, Kind] = {}
    for each in records.of(UserScramCredentialRecord):
        kinds[each.name] = tuple(sorted((*kinds.get(each.name, ()), (each.mechanism, each.iterations))))
    counts = Counter(kinds.values())
    return dict(sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))[:KINDS_MAX])
