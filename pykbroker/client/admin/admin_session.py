"""An admin client for the command line and the test fixture, with a network that it opens and closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import trio

from pykbroker.client.admin.admin import Admin, Connect
from pykbroker.client.connection import BrokerConnection, connect
from pykbroker.client.errors import AuthenticationError, Disconnected, Silent
from pykbroker.client.security import PLAINTEXT, ClientSecurity
from pykbroker.core.address import Address
from pykbroker.world.net import Net
from pykbroker.world.system_net import SystemNet

T = TypeVar("T")

CONNECT_S_MAX = 5
"""The maximum time for a connection attempt and the ApiVersions response, which every Kafka broker sends at once."""


class NoneAnswered(OSError):
    """The error of several brokers of which none answers. `failures` has that of each."""

    def __init__(self, failures: Sequence[Exception]) -> None:
        super().__init__("; ".join(map(str, failures)))
        self.failures = failures


async def with_admin(
    bootstrap: Sequence[Address],
    client_id: str,
    work: Callable[[Admin], Awaitable[T]],
    security: ClientSecurity = PLAINTEXT,
) -> T:
    """Connect to the first broker that answers, return what `work` returns for an admin client, and disconnect.

    An error of `work` is raised unchanged, not in a group. If no broker answers, raise OSError or Disconnected with
    the failure of each broker.
    """
    net = SystemNet()
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(net.run)
        try:
            dial = partial(connect_in_time, net, client_id, security=security)
            connection = await first_to_answer(bootstrap, dial)
            try:
                outcome = await work(Admin(connection, dial))
            finally:
                connection.close()
        except Exception as error:  # noqa: BLE001 - raised below, since the nursery would wrap it in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return outcome


async def first_to_answer(bootstrap: Sequence[Address], dial: Connect) -> BrokerConnection:
    """Return a connection to the first of these brokers that answers.

    If none of several answers, raise AuthenticationError if one refuses the client, or is refused, else NoneAnswered.
    """
    failures: list[Exception] = []
    for address in bootstrap:
        try:
            return await dial(*address)
        except UnicodeError:  # raised by the encoding of a host name, such as a..b
            failures.append(OSError(f"{address.host} is not a valid host name"))
        except (OSError, Disconnected) as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    none = NoneAnswered(failures)
    for failure in failures:
        if isinstance(failure, AuthenticationError):
            raise AuthenticationError(str(none), failure.code)
    raise none


async def connect_in_time(
    net: Net, client_id: str, host: str, port: int, security: ClientSecurity = PLAINTEXT
) -> BrokerConnection:
    """Return a connection that knows the broker's API versions, and has logged in if it has to.

    Raise Silent if the broker does not answer within `CONNECT_S_MAX`. Raise OSError or Disconnected if the connection
    fails.
    """
    with trio.move_on_after(CONNECT_S_MAX):
        return await connect(net, host, port, client_id, security=security)
    kind = "plaintext listener" if security is PLAINTEXT else "listener with this security"
    raise Silent(
        f"{Address(host, port)} has not answered an ApiVersions request within {CONNECT_S_MAX} s: name the {kind} of a"
        " Kafka broker"
    )
