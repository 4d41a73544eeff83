"""The process of a broker, as the process sees it that has started it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from pykbroker.processes.messages import Message, decoded
from pykbroker.processes.pipe import PIPE_OPTION


class BrokerProcess:
    """A process that runs from its construction to `close`, which the owner must call once.

    `command` takes the option `PIPE_OPTION`. `held` are descriptors that the process holds open beside its standard
    streams. With a `stdin` of `subprocess.PIPE`, it reads the lines of `order`. A terminal's Ctrl-C does not reach a
    process in its `own_session`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int | None = None,
        held: Sequence[int] = (),
        environ: Mapping[str, str] | None = None,
        own_session: bool = False,
    ) -> None:
        messages, theirs = os.pipe()
        self._messages = os.fdopen(messages, "rb", buffering=0)  # the selector knows nothing of a buffer
        try:
            self._process = subprocess.Popen(
                [*command, PIPE_OPTION, str(theirs)],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(theirs, *held),
                env=environ,
                start_new_session=own_session,
            )
        except BaseException:
            self._messages.close()
            raise
        finally:
            os.close(theirs)
        self.pid = self._process.pid

    def fileno(self) -> int:
        """Return the descriptor that is readable once `message` would not wait."""
        return self._messages.fileno()

    @property
    def runs(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def message(self, seconds: float | None = None) -> Message | None:
        """Wait for the next message. Return None if the process has ended. TimeoutError: neither happens in time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._messages, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise TimeoutError
        line = self._messages.readline()
        return decoded(line) if line.endswith(b"\n") else None

    def order(self, line: bytes) -> None:
        """Write a line to the standard input, unless the process has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def pause(self) -> None:
        """Stop the process without ending it, and wait until it has stopped, or has ended before."""
        self._process.send_signal(signal.SIGSTOP)
        if self.runs and hasattr(os, "waitid"):  # Python for macOS has it since 3.13
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continue the paused process."""
        self._process.send_signal(signal.SIGCONT)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, unless it has ended."""
        self._process.send_signal(number)

    def ended(self, seconds: float | None = None) -> int:
        """Wait until the process has ended, and return its exit code.

        TimeoutError: it did not end in time, and was killed.
        """
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise TimeoutError(f"process {self.pid} did not end within {late.timeout:g} s and was killed") from None

    def kill(self) -> int:
        """End the process as `kill -9` does, and return its exit code."""
        self._process.kill()
        return self._process.wait()

    def close(self) -> None:
        """Close the pipes. The process reads the end of its orders."""
        self._messages.close()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
