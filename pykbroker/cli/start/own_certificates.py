"""The option `--tls auto`: the certificate that a start makes, and what clients set to trust it."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from pykbroker.core.config.listener_configs import listener_prefix
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import KEYSTORE
from pykbroker.core.errors import StartError
from pykbroker.core.security.own_certificates import AUTHORITY, hosts_of
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.settings import Settings
from pykbroker.storage.files.lock import LOCK, lock_directory
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop

logger = logging.getLogger(__name__)


def check_own_certificate(texts: Mapping[str, str], listeners: Iterable[ListenerSettings]) -> None:
    """Raise StartError if no listener has TLS, or the configs name another keystore.

    The keystore of a single listener may be another one.
    """
    listeners = list(listeners)
    if not any(listener.protocol.has_tls for listener in listeners):
        name = listeners[0].name
        raise StartError(
            f"--tls auto: the listener {name} uses no TLS: call it SSL, by --listen SSL=HOST:PORT or in listeners, or"
            f" write {name}:SSL in listener.security.protocol.map"
        )
    for name in texts:
        if name.startswith(f"{KEYSTORE}."):
            raise StartError(
                f"--tls auto and {name} contradict each other: remove one of them, or write the config for one"
                f" listener, such as {listener_prefix('SSL')}{name}"
            )


def prepare_certificates(settings: Settings) -> str:
    """Make the certificates unless an earlier start has made them, and return what clients set.

    StartError: they cannot be made, or another broker uses them.
    """
    from pykbroker.tls.own_certificates import keep_certificates

    directory = settings.data_dirs[0]
    authority = os.path.join(directory, AUTHORITY)
    hosts = hosts_of(settings.listeners, socket.gethostname())
    with locked(directory):
        is_new = keep_certificates(directory, hosts, time.time())
    if is_new:
        logger.info("made a certificate for %s, signed by %s", ", ".join(sorted(hosts)), authority)
    return trust((listener.protocol for listener in settings.listeners), authority)


@contextmanager
def locked(directory: str) -> Iterator[None]:
    """Keep others from using a directory during the block. StartError: another broker uses it.

    That broker would read new certificates soon, which may not be for the hosts of its listeners.
    """
    disk = SystemDisk(directory, SystemOffLoop())
    lock_directory(disk)
    try:
        yield
    finally:
        disk.unlock(LOCK)


def trust(protocols: Iterable[SecurityProtocol], authority: str) -> str:
    """Return what clients set to trust the authority in a file, on listeners with these protocols."""
    names = sorted({each.name for each in protocols if each.has_tls})
    return (
        f"clients set security.protocol={' or '.join(names)} and trust {authority}, by ssl.truststore.location with"
        " ssl.truststore.type=PEM (Java), ssl.ca.location (librdkafka) or ssl_cafile (kafka-python)"
    )
