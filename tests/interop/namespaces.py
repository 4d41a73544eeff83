"""Network namespaces joined by a bridge, so that a test can cut the network between processes, also one way only."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Sequence

NOWHERE = "02:00:00:00:00:ff"
"""The link address of no interface. What is sent to it is lost without any notice to its sender."""

_made = itertools.count()


class NoNamespaces(Exception):
    """Network namespaces cannot be created here; the text says why."""


class Namespaces:
    """Namespaces numbered from 1, each with one address that this process and the other namespaces reach."""

    def __init__(self, count: int) -> None:
        unique = os.getpid() + next(_made)
        self._tag = f"pykb{unique % 1_000_000}"
        self._net = f"198.{18 + unique // 250 % 2}.{unique % 250}"  # of the range for benchmarks (RFC 2544)
        self._numbers = range(1, count + 1)
        self._links: dict[int, str] = {}
        try:
            ip("link", "add", self._tag, "type", "bridge")
        except (OSError, subprocess.CalledProcessError) as refusal:
            raise NoNamespaces(f"this user cannot make network namespaces: {refusal}") from None
        try:
            ip("address", "add", f"{self._net}.254/24", "dev", self._tag)
            ip("link", "set", self._tag, "up")
            for number in self._numbers:
                self._add(number)
        except BaseException:
            self.close()
            raise

    def _add(self, number: int) -> None:
        name, outer = self._name(number), f"{self._tag}n{number}"
        ip("netns", "add", name)
        ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", outer, "master", self._tag, "up")
        ip("-n", name, "address", "add", f"{self.host(number)}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip("-n", name, "link", "set", device, "up")
        shown = subprocess.run(
            ["ip", "-n", name, "-brief", "link", "show", "eth0"], check=True, capture_output=True, text=True
        )
        self._links[number] = shown.stdout.split()[2]

    def _name(self, number: int) -> str:
        return f"{self._tag}-{number}"

    def host(self, number: int) -> str:
        """Return the address of a namespace."""
        return f"{self._net}.{number}"

    def program(self, number: int, program: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs a program in a namespace."""
        return ("ip", "netns", "exec", self._name(number), *program)

    def cut(self, source: int, target: int) -> None:
        """Lose all that one namespace sends to another. The other direction stays as it is."""
        self._direct(source, target, NOWHERE)

    def isolate(self, number: int) -> None:
        """Cut a namespace off from all others, both ways. This process still reaches it."""
        for other in self._numbers:
            if other != number:
                self.cut(number, other)
                self.cut(other, number)

    def heal(self) -> None:
        """Undo all cuts."""
        for source in self._numbers:
            for target in self._numbers:
                if source != target:
                    self._direct(source, target, self._links[target])

    def _direct(self, source: int, target: int, link: str) -> None:
        neighbour = ("neighbour", "replace", self.host(target), "lladdr", link, "dev", "eth0", "nud", "permanent")
        ip("-n", self._name(source), *neighbour)

    def close(self) -> None:
        """Remove the namespaces and the bridge."""
        for number in self._numbers:
            subprocess.run(["ip", "netns", "del", self._name(number)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self._tag], check=False, capture_output=True)


def ip(*arguments: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
