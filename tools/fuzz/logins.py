"""Fuzzing of log-ins: sequences of requests that a stranger, or a user with a session, sends to a listener with SASL.

A sequence is made of requests for versions, handshakes, tokens of PLAIN and SCRAM that follow from the broker's
answers, and requests of other APIs, in any order. Some of them are changed, and all are split anywhere. No sequence
lets a stranger in or makes a user another one, no traceback is logged, and no task is left.
"""

from __future__ import annotations

import logging
import random
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trio

from pykbroker import broker
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.table import ONE_BROKER
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.sasl.client import ClientExchange, UntrustedBroker, client_mechanism
from pykbroker.core.security.secret import Secret
from pykbroker.core.security.session import ANONYMOUS
from pykbroker.core.settings import Settings
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.worker import InlineWorkers
from pykbroker.world.net import Accept
from pykbroker.world.system import wall_ms
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.world import World
from tools.fuzz.fuzzed_broker import COORDINATORS, PEER, Errors, Finding, FuzzedPeer, NoNet, living, until
from tools.fuzz.mutate import as_bytes, frame_of, frames
from tools.fuzz.values import Maker
from wire.api import ApiKey
from wire.apis import APIS
from wire.errors import DecodeError
from wire.frame import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest

LISTENER = "CLIENTS"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RECEIVE_BYTES_MAX = 20_000
CONFIGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.server.max.receive.size": str(RECEIVE_BYTES_MAX),
    "connection.failed.authentication.delay.ms": "0",
    "connections.max.reauth.ms": "3600000",
    "listener.name.clients.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required scram_users=true;"
    ),
}
USER, OTHER = NewUser("alice", Secret("one")), NewUser("bob", Secret("two"))
STRANGERS = (("alice", "two"), ("bob", "one"), ("nobody", "one"), ("x" * 300, "two"), ("a,=b", "one"))
"""Names and passwords that let nobody in."""
ODD_TOKENS = (b"", b"\0", b"\0\0", b"\0" * 9, b"n,,", b"n,,n=,r=", b"n,,n=alice,r=\xff", b"n=" * 5000, b"\xff" * 15_000)
KEYS = (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS, ApiKey.ENVELOPE, ApiKey.HEARTBEAT)
REQUESTS_MAX = 9
GUIDED, CHANGED, SPLIT, ODD = 0.7, 0.15, 0.3, 0.1
"""The probabilities that a request continues a log-in, that it is changed or split, and that a token has no meaning."""
CANARY_EVERY = 50


class Attempt:
    """A connection, and what its client sends. `logs_in` is whether it logs in as `USER` first."""

    def __init__(self, dice: random.Random, peer: FuzzedPeer, *, logs_in: bool) -> None:
        self._dice, self._peer, self._logs_in = dice, peer, logs_in
        self._maker = Maker(dice, ())
        self._exchange: ClientExchange | None = None
        self._credentials, self._mechanism = ("", ""), MECHANISMS[0]
        self._version, self._is_raw, self._has_begun = 2, False, False
        self.sent: list[bytes] = []

    @property
    def principal(self) -> str:
        """Return the principal of the connection, as the broker has it."""
        session: Any = self._peer.connection
        principal: str = session.session.principal
        return principal

    async def run(self) -> None:
        """Send a sequence. Raise Finding if the client becomes someone that it may not be."""
        if self._logs_in:
            await self.log_in(USER)
        expected = f"User:{USER.name}" if self._logs_in else ANONYMOUS
        for _ in range(self._dice.randint(1, REQUESTS_MAX)):
            data = self._request()
            await self._send(as_bytes(self._dice, data) if self._dice.random() < CHANGED else data)
            if self.principal != expected:
                raise Finding(f"the client is {self.principal}, not {expected}")
            if self._peer.ended:
                return

    async def log_in(self, user: NewUser) -> None:
        """Log in. Raise Finding if that fails."""
        mechanism = self._dice.choice(MECHANISMS)
        exchange = client_mechanism(mechanism, user.name, user.password).begin("client")
        await self._send(encode_request(SaslHandshakeRequest(mechanism), 1, 0, "me"))
        token: bytes | None = exchange.first()
        while token is not None:
            await self._send(encode_request(SaslAuthenticateRequest(token), 2, 0, "me"))
            token = exchange.answer(self._answer(2).auth_bytes)
        if self.principal != f"User:{user.name}":
            raise Finding(f"{user.name} cannot log in by {mechanism}")

    def _answer(self, version: int) -> SaslAuthenticateResponse:
        """Return the last response."""
        answer: SaslAuthenticateResponse
        _, answer = decode_response(SaslAuthenticateResponse, version, frames(self._peer.data)[-1])
        if answer.error_code:
            raise Finding(f"a log-in failed: {answer.error_message}")
        return answer

    async def _send(self, data: bytes) -> None:
        """Send bytes in pieces, and wait until the broker has answered them."""
        self.sent.append(data)
        while data:
            size = self._dice.randint(1, len(data)) if self._dice.random() < SPLIT else len(data)
            self._peer.send(data[:size])
            data = data[size:]
        connection: Any = self._peer.connection
        await until(lambda: self._peer.turned_and_ended() or not connection.replies.slots)

    # ---- requests

    def _request(self) -> bytes:
        """Return the next request, which often is the one that continues a log-in."""
        dice = self._dice
        if dice.random() < GUIDED:
            return self._handshake() if self._exchange is None else self._token()
        match dice.randrange(4):
            case 0:
                name = dice.choice(("1", "-"))
                return encode_request(ApiVersionsRequest("me", name), dice.choice((0, 3, 4)), 1, "me")
            case 1:
                return self._handshake()
            case 2:
                return self._frame(dice.choice(KEYS))
        return self._token()

    def _frame(self, key: ApiKey) -> bytes:
        return frame_of(self._maker, key, self._dice.choice(list(APIS[key].accepted)))

    def _handshake(self) -> bytes:
        dice, version = self._dice, self._dice.choice((0, 1, 1))
        self._mechanism, self._is_raw, self._has_begun = dice.choice(MECHANISMS), version == 0, False
        self._version = dice.randrange(3)
        self._credentials = dice.choice(STRANGERS)
        if self._logs_in and dice.random() < 0.5:
            user = dice.choice((USER, OTHER))
            self._credentials = user.name, user.password.reveal()
        self._exchange = client_mechanism(self._mechanism, self._credentials[0], Secret(self._credentials[1])).begin(
            "client"
        )
        name = dice.choice((self._mechanism, self._mechanism, self._mechanism, "GSSAPI", "", "é"))
        return encode_request(SaslHandshakeRequest(name), version, 2, "me")

    def _token(self) -> bytes:
        dice, token = self._dice, self._next_token()
        if token is None or dice.random() < ODD:
            token = dice.choice(ODD_TOKENS)
        if self._is_raw:
            return struct.pack(">i", len(token)) + token
        return encode_request(SaslAuthenticateRequest(token), self._version, 3, "me")

    def _next_token(self) -> bytes | None:
        """Return the token that follows from the broker's last one, or None without one."""
        if self._exchange is None:
            return None
        if not self._has_begun:
            self._has_begun = True
            return self._exchange.first()
        replies = frames(self._peer.data)
        if not replies:
            return None
        try:
            last = replies[-1]
            if not self._is_raw:
                last = bytes(decode_response(SaslAuthenticateResponse, self._version, last)[1].auth_bytes)
            return self._exchange.answer(last)
        except (DecodeError, UntrustedBroker):
            return None


class LoginFuzzer:
    """A running broker with a listener with SASL, and sequences that are sent to it."""

    def __init__(self, accept: Accept, errors: Errors, dice: random.Random) -> None:
        self._accept, self._errors, self._dice = accept, errors, dice
        self._tasks = living()
        self.attempts = 0

    async def run(self) -> None:
        """Send one sequence, on a connection of its own. Raise Finding if a check fails."""
        peer = FuzzedPeer(self._accept)
        attempt = Attempt(self._dice, peer, logs_in=self._dice.random() < 0.3)
        try:
            await attempt.run()
            peer.close()
            await self._check()
        except Finding as found:
            found.add_note("\n".join(data.hex() for data in attempt.sent))
            raise
        self.attempts += 1
        if self.attempts % CANARY_EVERY == 0:
            peer = FuzzedPeer(self._accept)
            await Attempt(self._dice, peer, logs_in=True).log_in(OTHER)
            peer.close()

    async def _check(self) -> None:
        if self._errors.found:
            raise Finding("; ".join(self._errors.found))
        if not await until(lambda: living() <= self._tasks):
            raise Finding(f"{living() - self._tasks} tasks are left")


@asynccontextmanager
async def login_fuzzer(directory: Path, seed: int) -> AsyncIterator[LoginFuzzer]:
    """Run a broker whose clients must log in."""
    net, ready, stop, errors, off_loop = NoNet(), trio.Event(), trio.Event(), Errors(), InlineOffLoop()
    dice = random.Random(seed)
    disk = SystemDisk(str(directory), off_loop, durable=False)
    world = World((disk,), net, wall_ms, time.perf_counter_ns, off_loop, InlineWorkers(off_loop), dice)
    config = BrokerConfig.from_mapping({**ONE_BROKER, **COORDINATORS, **CONFIGS, "log.dirs": str(directory)})
    address = Address(PEER.local_host, PEER.local_port)
    listener = ListenerSettings(LISTENER, address, protocol=SecurityProtocol.SASL_PLAINTEXT)
    settings = Settings(
        config,
        (str(directory),),
        listeners=(listener,),
        inter_broker_listener=LISTENER,
        memory=True,
        users=(USER, OTHER),
    )
    logger = logging.getLogger("pykbroker")
    logger.addHandler(errors)
    try:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await broker.serve(settings, lambda serving: ready.set(), world=world, stop=stop)

            nursery.start_soon(run)
            await ready.wait()
            await until(lambda: net.accept is not None)
            assert net.accept is not None
            yield LoginFuzzer(net.accept, errors, dice)
            stop.set()
    finally:
        logger.removeHandler(errors)


async def fuzz_logins(seed: int, enough: Callable[[], bool]) -> int:
    """Send sequences to one broker until the limit, and return their number. Raise Finding if a check fails."""
    with TemporaryDirectory(prefix="fuzz-") as directory:
        async with login_fuzzer(Path(directory), seed) as fuzzer:
            while not enough():
                await fuzzer.run()
    return fuzzer.attempts
