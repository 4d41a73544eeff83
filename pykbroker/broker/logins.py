"""The log-in of the clients of each listener with SASL: its settings, and the SCRAM credentials of the metadata."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from pykbroker.core.config.config import Texts
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.metadata.image import MetadataImage, RecordsImage
from pykbroker.world.off_loop import OffLoop
from wire.stored.metadata_security import UserScramCredentialRecord

if TYPE_CHECKING:
    from pykbroker.core.security.sasl.scram import ScramCredential, ScramHash
    from pykbroker.server.login.table import SaslListener

MS_PER_S = 1000
KEY_BYTES = 32

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
        self._computing = trio.Lock()
        """The lock that leaves all threads but one to others, however many strangers send passwords."""
        self._secrets: dict[ScramHash, bytes] = {}
        self._secrets_of: RecordsImage | None = None

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
                self._credential, self._secret, self._random_bits(8 * KEY_BYTES).to_bytes(KEY_BYTES, "big")
            ),
            settings.reauth_ms,
            settings.receive_bytes_max,
            settings.failure_delay_ms / MS_PER_S,
            lambda: base36(self._random_bits(NONCE_BITS)),
            self._compute,
        )

    async def _compute(self, function: Callable[[], bytes]) -> bytes:
        async with self._computing:
            return await self._off_loop(function)

    def _credential(self, of: ScramHash, user: str) -> ScramCredential | None:
        record = self._image().records.by_key.get((UserScramCredentialRecord.record_type, (user, of.number)))
        if record is None:
            return None
        assert isinstance(record, UserScramCredentialRecord)
        from pykbroker.core.security.sasl.scram import ScramCredential

        return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

    def _secret(self, of: ScramHash) -> bytes:
        """Return the key from which the salts of unknown users follow.

        All brokers of a cluster must have the same, also after a restart, or a stranger who asks two of them learns
        which users exist. It follows from a key that only brokers and one user can know, that of the user whose name
        sorts first.
        """
        records = self._image().records
        if records is not self._secrets_of:
            self._secrets, self._secrets_of = {}, records
        if of not in self._secrets:
            known = [each for each in records.of(UserScramCredentialRecord) if each.mechanism == of.number]
            first = min(known, key=lambda each: each.name, default=UserScramCredentialRecord())
            self._secrets[of] = hashlib.sha256(self._cluster_id.encode() + first.server_key).digest()
        return self._secrets[of]
