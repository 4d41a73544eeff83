"""Tests of the pump of a connection with TLS, against a client in memory that sends bytes in every way."""

from __future__ import annotations

import gc
import os
import socket
import ssl
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from cryptography.hazmat.bindings.openssl.binding import Binding

from pykbroker.world import system_handshakes
from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_net import SystemNet
from pykbroker.world.system_off_loop import SystemOffLoop
from pykbroker.world.system_pump import RECV_BYTES
from pykbroker.world.system_tls_pump import NEWCOMER_BYTES, PIECE_BYTES, SEALED_BYTES
from tests.unit.world.local_network import Line, LocalNetwork, echo, served
from tests.unit.world.tls_ends import Ends, Taker, TestTls, client_context, ends, server_context

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sizes", [1, 2, 3, 5, 7, 64, 333, 4096])
def test_bytes_arrive_whole_at_every_split(version: ssl.TLSVersion, sizes: int) -> None:
    parts = [b"a", bytes(range(256)) * 4, b"", b"end"]
    with ends(client_context(version), shaken=False) as both:
        both.shake(sizes)
        assert both.tls.certificates == [None]
        both.send(both.sealed(*parts), sizes)
        assert both.taker.got == b"".join(parts)
        both.taker.out += [b"answer", bytes(1000)]
        both.pump.flush()
        assert both.read(1006) == b"answer" + bytes(1000)


class Interrupted:
    """A socket that lets another thread run when it has received bytes, as `recv_into` does without the GIL."""

    def __init__(self, sock: socket.socket, other_thread: Callable[[], None]) -> None:
        self._socket, self._other_thread = sock, other_thread

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv_into(self, room: memoryview) -> int:
        size = self._socket.recv_into(room)
        self._other_thread()
        return size


def test_networks_of_several_threads_do_not_share_the_bytes_that_they_read() -> None:
    with ends() as one, ends() as other:
        sealed = other.sealed(bytes(1000))
        one.pump.socket = Interrupted(one.near, lambda: other.send(sealed[:500]))  # type: ignore[assignment]
        one.send(one.sealed(b"one"))
        assert one.taker.got == b"one"
        other.send(sealed[500:])
        assert other.taker.got == bytes(1000)
    pair = socket.socketpair()
    networks = [SystemNet(), SystemNet()]
    first, second = (each.pump(sock, TestTls(server_context())) for each, sock in zip(networks, pair, strict=True))
    assert first._buffers is not second._buffers  # type: ignore[attr-defined]
    for sock in pair:
        sock.close()


def test_each_split_of_two_records_in_two_pieces_delivers_both() -> None:
    with ends() as both:
        records, expected = both.sealed(b"one", b"two!"), b""
        both.send(records)
        for cut in range(1, len(records)):
            expected += b"onetwo!"
            records = both.sealed(b"one", b"two!")
            both.send(records[:cut])
            both.send(records[cut:])
            assert both.taker.got == expected + b"onetwo!"


def test_what_comes_with_the_end_of_the_handshake_is_received() -> None:
    with ends(shaken=False) as both:
        with pytest.raises(ssl.SSLWantReadError):
            both.client.do_handshake()
        both.send(both.outgoing.read())
        both.pull()
        both.client.do_handshake()
        both.send(both.outgoing.read() + both.sealed(b"at once"))
        assert both.taker.got == b"at once"


def test_a_client_that_has_not_logged_in_is_served_last_from_the_end_of_its_handshake() -> None:
    with ends(client_context(), shaken=False) as both:
        both.pump.serve_last(last=True)
        assert list(both.handshakes.pumps.values()) == [both.pump]
        both.shake()
        assert (both.handshakes.pumps, both.pumps, list(both.last.values())) == ({}, {}, [both.pump])
        both.send(both.sealed(b"log in"))
        both.pump.serve_last(last=False)
        assert (list(both.pumps.values()), both.last) == ([both.pump], {})
        both.pump.close()
        assert both.pumps == both.last == {}
        assert both.taker.got == b"log in"


def test_output_of_before_the_handshake_waits_for_its_end() -> None:
    with ends(shaken=False) as both:
        both.taker.out.append(b"early")
        both.pump.flush()
        assert both.pull() == b""
        both.shake()
        assert both.read(5) == b"early"


@pytest.mark.parametrize("size", [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, SEALED_BYTES, SEALED_BYTES + 1])
@pytest.mark.parametrize("kind", ["buffer", "slice", "both"])
def test_buffers_and_file_slices_of_all_sizes_are_sent_in_order(tmp_path: Path, size: int, kind: str) -> None:
    content = os.urandom(size + 10)
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("log", create=True)
    file.append(content)
    body = FileSlice(file, 10, size)
    with ends() as both:
        sent: dict[str, list[Buffer | FileSlice]] = {
            "buffer": [content[10:]],
            "slice": [body],
            "both": [b"<", body, memoryview(content), body, b">"],
        }
        both.taker.out += sent[kind]
        both.pump.flush()
        whole = content[10:] if kind != "both" else b"<" + content[10:] + content + content[10:] + b">"
        assert both.read(len(whole)) == whole
    file.close()


def test_a_slice_beyond_the_end_of_its_file_ends_the_connection(tmp_path: Path) -> None:
    file = SystemDisk(str(tmp_path), SystemOffLoop()).open("log", create=True)
    file.append(b"x" * 10)
    with ends() as both:
        both.taker.out.append(FileSlice(file, 100, 10))
        both.pump.flush()
        assert both.taker.is_closed
    file.close()


def test_a_peer_that_reads_slowly_is_sent_what_it_takes_and_the_rest_counts_as_unsent() -> None:
    content = os.urandom(3 * SEALED_BYTES)
    with ends() as both:
        both.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        both.taker.out.append(content)
        both.pump.flush()
        unsent, kept = both.taker.reports[-1]
        assert len(content) - 200_000 < unsent == kept < len(content) + 10_000
        both.send(both.sealed(b"more"))
        assert both.taker.got == b"", "it is not read from while it does not read"
        assert both.read(len(content)) == content
        assert both.taker.reports[-1] == (0, 0)
        both.serve()
        assert both.taker.got == b"more"


def test_a_room_is_filled_from_many_records_before_the_connection_hears_of_it() -> None:
    with ends() as both:
        both.taker.room = memoryview(bytearray(100_000))
        content = os.urandom(100_300)
        both.send(both.sealed(*(content[pos : pos + 1000] for pos in range(0, len(content), 1000))))
        assert both.taker.got == content
        assert both.taker.calls == [100_000, 300]


@pytest.mark.parametrize("size", [1, 100, 16_384])
def test_a_room_smaller_than_a_record_gets_its_part(size: int) -> None:
    with ends() as both:
        both.taker.room = memoryview(bytearray(size))
        content = os.urandom(20_000)
        both.send(both.sealed(content))
        assert both.taker.got == content
        assert both.taker.calls[0] == size


def test_what_was_received_waits_while_the_connection_wants_no_input() -> None:
    with ends() as both:
        both.send(both.sealed(b"one"))
        both.taker.wants_input = False
        both.pump.flush()
        records = both.sealed(*(bytes([number]) * 1000 for number in range(200)))
        both.far.send(records)
        assert not both.poll.reads
        both.taker.room = memoryview(bytearray(1000))
        both.taker.wants_input = True
        original = both.taker.filled

        def filled(size: int) -> None:
            original(size)
            both.taker.wants_input = False

        both.taker.filled = filled  # type: ignore[method-assign]
        both.pump.flush()
        both.serve()
        assert both.taker.got == b"one" + bytes(1000)
        assert not both.poll.is_ready
        assert len(both.pump._unopened) <= RECV_BYTES, "the rest stays in the kernel, whose memory is limited"
        both.taker.wants_input = True
        both.pump.flush()
        assert both.poll.writes, "bytes in memory make no socket readable"
        both.serve()
        assert both.taker.got == b"one" + b"".join(bytes([number]) * 1000 for number in range(200))


@pytest.mark.parametrize("room", [None, 1 << 20])
def test_no_more_is_received_of_a_client_that_has_not_logged_in_than_a_log_in_has(room: int | None) -> None:
    class Held(Taker):
        """A connection that waits for the check of a password."""

        def received(self, data: bytes) -> None:
            super().received(data)
            self.wants_input = False

        def filled(self, size: int) -> None:
            super().filled(size)
            self.wants_input = False

    taker = Held()
    with ends(connection=taker) as both:
        both.pump.serve_last(last=True)
        taker.room = None if room is None else memoryview(bytearray(room))
        sealed = both.sealed(*[b"x" * 1000] * 60)
        both.send(sealed)
        assert len(both.near.recv(1 << 20, socket.MSG_PEEK)) == len(sealed) - NEWCOMER_BYTES
        both.pump.serve_last(last=False)
        while len(taker.got) < 60_000:
            taker.wants_input = True
            both.pump.flush()
            both.serve()


def test_a_connection_that_wants_a_turn_is_resumed_before_it_gets_more() -> None:
    with ends() as both:
        both.taker.turns = 1
        both.send(both.sealed(*(bytes(10_000) for _ in range(10))))
        assert len(both.taker.got) == 100_000
        assert both.taker.resumes == len(both.taker.calls) > 1


def half_close(both: Ends) -> None:
    """Announce the client's end by TLS, and leave its socket open."""
    with pytest.raises(ssl.SSLWantReadError):
        both.client.unwrap()
    both.send(both.outgoing.read())


@pytest.mark.parametrize("by_tls", [True, False])
def test_a_peer_that_ends_its_sending_is_sent_all_replies(by_tls: bool) -> None:
    with ends() as both:
        both.send(both.sealed(b"last"))
        if by_tls:
            half_close(both)
        else:
            both.far.shutdown(socket.SHUT_WR)
            both.serve()
        assert (bytes(both.taker.got), both.taker.ends, both.taker.is_closed) == (b"last", 1, False)
        both.taker.out.append(bytes(SEALED_BYTES + 1))
        both.pump.flush()
        both.taker.wants_input = both.taker.ends_at_end = True
        both.pump.flush()
        if by_tls:
            data = b""
            while both.pump.is_open or data:
                both.serve()
                data = both.pull()
            assert both.taker.ends == 2, "the pump reads the end again"
        else:
            assert both.read(SEALED_BYTES + 1) == bytes(SEALED_BYTES + 1)
        both.serve()
        assert both.taker.is_closed


def test_the_end_is_announced_before_the_socket_closes() -> None:
    with ends() as both:
        both.taker.out.append(b"bye")
        both.taker.ended = True
        both.pump.flush()
        assert both.read(10) == b"bye"
        assert both.client.read(1) == b"", "otherwise an SSLEOFError"
        assert both.taker.is_closed


class Renegotiator:
    """A TLS 1.2 client that can ask for another handshake, which Python's ssl cannot."""

    def __init__(self, both: Ends) -> None:
        binding = Binding()
        self._both, self._lib, self._ffi = both, binding.lib, binding.ffi
        self._ssl = self._lib.SSL_new(self._lib.SSL_CTX_new(self._lib.TLS_client_method()))
        self._lib.SSL_set_options(self._ssl, self._lib.SSL_OP_NO_TLSv1_3)
        self._in, self._out = (self._lib.BIO_new(self._lib.BIO_s_mem()) for _ in range(2))
        self._lib.SSL_set_bio(self._ssl, self._in, self._out)
        self._lib.SSL_set_connect_state(self._ssl)

    def shake(self) -> bool:
        """Exchange messages of a handshake, and return whether it is done."""
        buffer = self._ffi.new("char[]", 16384)
        for _ in range(4):
            done = self._lib.SSL_do_handshake(self._ssl) == 1
            size = self._lib.BIO_read(self._out, buffer, 16384)
            if size > 0:
                self._both.send(self._ffi.buffer(buffer, size)[:])
            self._both.serve()
            if answer := self._both.pull():
                self._lib.BIO_write(self._in, answer, len(answer))
            if done:
                return True
        return False

    def send(self, data: bytes) -> None:
        buffer = self._ffi.new("char[]", 16384)
        assert self._lib.SSL_write(self._ssl, data, len(data)) == len(data)
        self._both.send(self._ffi.buffer(buffer, self._lib.BIO_read(self._out, buffer, 16384))[:])

    def begin_again(self) -> None:
        assert self._lib.SSL_renegotiate(self._ssl) == 1


def test_renegotiation_is_refused() -> None:
    with ends(shaken=False) as both:
        client = Renegotiator(both)
        assert client.shake()
        client.send(b"before")
        client.begin_again()
        assert not client.shake()
        assert both.taker.got == b"before"
        assert both.tls.certificates == [None], "there was one handshake"


@pytest.mark.parametrize("shaken", [True, False])
def test_a_connection_that_has_closed_is_freed_at_once(shaken: bool) -> None:
    gc.disable()
    try:
        with ends(shaken=shaken) as both, ends() as other:
            if not shaken:
                with suppress(ssl.SSLWantReadError):
                    both.client.do_handshake()
                both.send(both.outgoing.read())
            state = weakref.ref(both.pump._ssl)
            assert state() is not None
            both.pump.close()
            both.pump = other.pump
            assert state() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("parts", [(b"one",), (b"one", b"two"), (bytes(100_000),)])
def test_a_connection_may_close_itself_while_it_receives(parts: tuple[bytes, ...]) -> None:
    class Closing(Taker):
        def received(self, data: bytes) -> None:
            super().received(data)
            both.pump.close()

    with ends(connection=Closing()) as both:
        both.far.send(both.sealed(*parts))
        both.pump.turn()
        assert both.taker.is_closed
        assert len(both.taker.calls) == 1
        assert both.tls.errors == []


def test_bytes_that_are_no_record_end_the_connection_with_an_alert() -> None:
    with ends() as both:
        both.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert both.taker.is_closed
        assert both.tls.errors[0].reason == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
        with pytest.raises(ssl.SSLError, match="ALERT_BAD_RECORD_MAC"):
            both.read(1)


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x2a\x00\x12\x00\x03", b"GET / HTTP/1.1\r\n\r\n", bytes(100)])
def test_a_plaintext_client_is_disconnected_without_an_answer(data: bytes) -> None:
    with ends(shaken=False) as both:
        both.send(data)
        assert both.taker.is_closed
        assert both.pull() == b""
        assert both.tls.errors[0].reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")


def shake_and_read(both: Ends) -> None:
    both.shake()
    both.read(1)


@pytest.mark.parametrize("signed_by", ["", "a stranger"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_a_valid_certificate_gets_an_alert(version: ssl.TLSVersion, signed_by: str) -> None:
    server = server_context(asks=ssl.CERT_REQUIRED)
    with ends(client_context(version, signed_by), server, shaken=False) as both:
        with pytest.raises(ssl.SSLError, match="ALERT"):
            shake_and_read(both)
        assert both.taker.is_closed
        assert both.tls.certificates == []
        assert len(both.tls.errors) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_with_a_certificate_is_known_by_it(version: ssl.TLSVersion) -> None:
    with ends(client_context(version, "ours"), server_context(asks=ssl.CERT_REQUIRED)) as both:
        (certificate,) = both.tls.certificates
        assert certificate is not None
        assert b"alice" in certificate


def test_a_certificate_that_the_listener_refuses_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise ssl.SSLError("no rule maps it")

    with ends(shaken=False) as both:
        monkeypatch.setattr(both.tls, "secured", refuse)
        both.shake()
        assert both.taker.is_closed
        assert [str(error) for error in both.tls.errors] == ["('no rule maps it',)"]


@pytest.mark.parametrize("sends", [0, 1, 100])
def test_a_peer_that_leaves_in_the_handshake_closes_the_connection(sends: int) -> None:
    with ends(shaken=False) as both:
        with pytest.raises(ssl.SSLWantReadError):
            both.client.do_handshake()
        both.send(both.outgoing.read()[:sends])
        both.far.shutdown(socket.SHUT_WR)
        both.serve()
        assert both.taker.is_closed
        assert (both.handshakes.pumps, both.pumps) == ({}, {})


def test_a_connection_that_ends_in_the_handshake_is_closed() -> None:
    with ends(shaken=False) as both:
        both.taker.ended = True
        both.pump.flush()
        assert both.taker.is_closed
        both.pump.close()


async def secured_connect(network: LocalNetwork, client: ssl.SSLContext) -> tuple[Line, list[bytes]]:
    """Connect by the network itself, and return the connection and the lines that it gets."""
    got: list[bytes] = []

    def take(line: Line, data: bytes) -> None:
        got.append(data)
        line.reported.set()

    port = network.bound.port
    line = await network.net.connect("127.0.0.1", port, lambda peer, pump: Line(peer, pump, take), -1, TestTls(client))
    return line, got


async def test_outgoing_and_accepted_connections_with_tls_share_the_poller_with_plain_ones() -> None:
    async with served(echo) as plain, served(echo, tls=TestTls(server_context())) as network:
        line, got = await secured_connect(network, client_context())
        line.out.append(b"ping\n")
        line.pump.flush()
        await line.reported.wait()
        assert got == [b"ping"]
        stream = await plain.connect()
        await stream.send_all(b"x\n")
        assert await stream.receive_some(2) == b"x\n"
        network.lines[0].pump.close()
        await line.gone.wait()


async def test_an_outgoing_connection_to_a_plaintext_listener_or_a_stranger_raises_ssl_error() -> None:
    def answer(line: Line, data: bytes) -> None:
        line.out.append(b"plain\n")

    async with served(answer) as network:
        with trio.fail_after(10), pytest.raises(OSError, match="WRONG_VERSION_NUMBER|reset"):
            await secured_connect(network, client_context())
    stranger = ssl.create_default_context()
    async with served(echo, tls=TestTls(server_context())) as network:
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
            await secured_connect(network, stranger)
        await network.lines[0].gone.wait()


async def test_peers_wait_in_the_backlog_while_too_many_handshakes_are_not_done(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(echo, tls=TestTls(server_context())) as network:
        monkeypatch.setattr(system_handshakes, "HANDSHAKES_MAX", 1)
        await network.connect()
        await trio.sleep(1)
        stream = await network.connect()
        await trio.sleep(1)
        assert len(network.lines) == 1
        network.lines[0].pump.close()
        await trio.sleep(1)
        assert len(network.lines) == 2
        await stream.aclose()


async def test_a_cancelled_connect_closes_its_socket() -> None:
    async with served(lambda line, data: None) as network:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(secured_connect, network, client_context())
            await network.connected.wait()
            nursery.cancel_scope.cancel()
        await network.lines[0].gone.wait()
