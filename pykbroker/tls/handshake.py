"""A handshake of TLS in memory, which tells whether a listener and the connections to it accept each other."""

from __future__ import annotations

import ssl
from contextlib import suppress

from pykbroker.core.errors import StartError
from pykbroker.tls.context import TlsContext

ROUNDS_MAX = 10
"""The maximum number of times that either end reads what the other one has sent. TLS 1.2 needs three."""


def check_accepted(place: str, server: TlsContext, client: ssl.SSLContext) -> None:
    """Raise StartError, which names the place, if connections of `client` to `server` fail, whatever their host.

    Source: SslEngineValidator of Apache Kafka 4.3.1.
    """
    host = min(server.certificate.hosts, default=None)
    if host is None and client.check_hostname:
        return
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=None if host is None else host.replace("*", "any"))
    answering = server.context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(ROUNDS_MAX):
            for end in (asking, answering):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
    except ssl.SSLError as error:
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        raise StartError(
            f"{place}: brokers with the old stores and brokers with the new ones would refuse each other ({reason}):"
            " first let all brokers trust what has signed the old certificates and the new ones, and then change the"
            " keystores"
        ) from None
