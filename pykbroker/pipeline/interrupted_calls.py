"""Calls to the JVM that an interrupt ends: their answers are never taken for those of later calls."""

from __future__ import annotations

from functools import wraps
from typing import Any


def close_interrupted_calls() -> None:
    """Let py4j close the connection of a call that an interrupt ends. The next call of the thread opens another one.

    py4j keeps the connection of a thread, on which the answer then comes to the next call, and so on to each later one.
    """
    from py4j.clientserver import ClientServerConnection

    send: Any = ClientServerConnection.send_command
    if hasattr(send, "__wrapped__"):
        return

    @wraps(send)
    def send_whole(connection: Any, command: str) -> Any:
        try:
            return send(connection, command)
        except Exception:
            raise
        except BaseException:  # py4j handles errors alone
            connection.close()
            raise

    ClientServerConnection.send_command = send_whole
