"""Interrupted calls to the JVM, with a fake of the JVM: the answers of later calls are their own."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterator

import pytest
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayClient, GatewayConnection, GatewayParameters, GatewayProperty

from pykbroker.cli.pipeline.job_signals import raising_interrupts
from pykbroker.pipeline.interrupted_calls import close_interrupted_calls

INTERRUPTED, NEXT = "interrupted\n", "next\n"


def serve(connection: socket.socket) -> None:
    """Answer commands with themselves. One interrupts this process, and is answered with the next one."""
    late = ""
    with connection, connection.makefile() as commands:
        for command in commands:
            if command == INTERRUPTED:
                late = f"!{command}"
                os.kill(os.getpid(), signal.SIGINT)
            else:
                connection.sendall(f"{late}!{command}".encode())


@pytest.fixture(params=["true", "false"])
def jvm(request: pytest.FixtureRequest) -> Iterator[GatewayClient]:
    """Yield the client of a fake JVM that pyspark has by its variable PYSPARK_PIN_THREAD."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        port, memory = server.getsockname()[1], GatewayProperty(True, None)
        if request.param == "true":
            client = JavaClient(JavaParameters(port=port), PythonParameters(), memory, deque())
        else:
            client = GatewayClient(gateway_parameters=GatewayParameters(port=port), gateway_property=memory)
        yield client
        client.close()
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.timeout(10)
def test_the_call_after_an_interrupted_one_gets_its_own_answer(jvm: GatewayClient) -> None:
    close_interrupted_calls()
    assert jvm.send_command(NEXT) == NEXT.strip()
    connections = list(jvm.deque)
    with raising_interrupts([]), pytest.raises(KeyboardInterrupt):
        jvm.send_command(INTERRUPTED)
    assert jvm.send_command(NEXT) == NEXT.strip()
    assert connections != []
    assert not {*connections} & {*jvm.deque}


def test_calls_are_closed_once_for_all_sessions() -> None:
    from py4j.clientserver import ClientServerConnection

    close_interrupted_calls()
    before = [kind.send_command for kind in (ClientServerConnection, GatewayConnection)]
    close_interrupted_calls()
    assert [kind.send_command for kind in (ClientServerConnection, GatewayConnection)] == before
