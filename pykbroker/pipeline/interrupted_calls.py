"""Calls to the JVM that an interrupt ends: their answers are never taken for those of later calls."""

from __future__ import annotations

from functools import wraps
from typing import Any


def close_interrupted_calls() -> None:
    """Change py4j so that it closes the connection of a call that an interrupt ends. The next call opens a new one.

    py4j keeps the connection of a thread, on which the answer then comes to the next call, and so on to each later one.
    With PYSPARK_PIN_THREAD=false it does not, but fails where it looks for the connection of an interrupted call.
    """
    from py4j.clientserver import ClientServerConnection
    from py4j.java_gateway import GatewayConnection

    for connection in (ClientServerConnection, GatewayConnection):
        if not hasattr(connection.send_command, "__wrapped__"):
            connection.send_command = _closing(connection.send_command)


def _closing(send: Any) -> Any:
    @wraps(send)
    def send_whole(connection: Any, command: str) -> Any:
        try:
            return send(connection, command)
        except Exception:
            raise
        except BaseException:  # py4j handles errors alone
            connection.close()
            connection.socket = None  # there is nothing left for py4j to close
            raise

    return send_whole
