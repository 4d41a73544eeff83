"""The content of a file system after a power failure. A random part of each unsynced change survives.

Sectors of a write survive independently, or up to some point as if written in order. A file may have its new size
although its new bytes are zeros. Renames and removals survive in the order of their directory, or in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from pykbroker.sim.volume import Directory, Inode, Node, Relinking, Truncate, Volume, Write, relink

SECTOR_BYTES = 512
"""The number of bytes that a device writes atomically."""
CHANCES = (0.0, 0.1, 0.5, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Luck:
    """The chances of one power loss, from 0 to 1 per sector or per change of names."""

    in_order: bool
    kept: float
    zeros: float
    """The chance that a lost sector after the old end of the file leaves zeros, because the new size survived."""
    names_in_order: bool
    names_kept: float

    @classmethod
    def drawn(cls, dice: Random) -> Luck:
        """Draw random chances. The extremes (all kept, all lost, all in order) are as likely as all other values."""
        return cls(
            dice.random() < 0.4,
            dice.choice(CHANCES),
            dice.choice((0.0, 0.3, 1.0)),
            dice.random() < 0.7,
            dice.choice(CHANCES),
        )


ALL_KEPT = Luck(in_order=False, kept=1.0, zeros=0.0, names_in_order=True, names_kept=1.0)
"""The chances with which everything survives, so that the new volume is a copy."""


def after_power_loss(volume: Volume, dice: Random, luck: Luck | None = None) -> Volume:
    """Return a new volume whose content is durable. The old volume does not change."""
    return _Survivors(dice, luck or Luck.drawn(dice)).volume(volume)


class _Survivors:
    def __init__(self, dice: Random, luck: Luck) -> None:
        self._dice, self._luck = dice, luck
        self._after = Volume()
        self._copies: dict[int, Inode] = {}

    def volume(self, before: Volume) -> Volume:
        self._after.root = self._directory(before.root)
        return self._after

    def _node(self, node: Node) -> Node:
        return self._file(node) if isinstance(node, Inode) else self._directory(node)

    def _directory(self, before: Directory) -> Directory:
        names = dict(before.durable)
        for relinking in self._surviving_names(before.unsynced.changes):
            if all(node is not None or name in names for name, node in relinking):  # else the name is missing
                relink(names, relinking)
        after = Directory()
        after.entries = {name: self._node(node) for name, node in names.items()}
        after.durable = dict(after.entries)
        return after

    def _surviving_names(self, changes: list[Relinking]) -> Iterator[Relinking]:
        kept, dice = self._luck.names_kept, self._dice
        for change in changes:
            if dice.random() < kept:
                yield change
            elif self._luck.names_in_order:
                return

    def _file(self, before: Inode) -> Inode:
        if before.number not in self._copies:
            self._copies[before.number] = after = self._after.new_inode(self._content(before))
            after.modified_ms = before.modified_ms
        return self._copies[before.number]

    def _content(self, before: Inode) -> bytes:
        if not before.unsynced.changes:
            return bytes(before.durable)
        content = bytearray(before.durable)
        if self._luck.in_order:
            self._keep_in_order(content, before.unsynced.changes)
        else:
            self._keep_any(content, before.unsynced.changes)
        return bytes(content)

    def _keep_in_order(self, content: bytearray, changes: list[Write | Truncate]) -> None:
        """Apply all changes up to a random one, and a part of that one."""
        torn = self._dice.randrange(len(changes) + 1)
        for change in changes[:torn]:
            change.apply(content)
        for change in changes[torn : torn + 1]:
            if isinstance(change, Write):
                self._keep_sectors(content, change, 0.5)

    def _keep_any(self, content: bytearray, changes: list[Write | Truncate]) -> None:
        kept = self._luck.kept
        for change in changes:
            if isinstance(change, Write):
                self._keep_sectors(content, change, kept)
            elif self._dice.random() < kept:
                change.apply(content)

    def _keep_sectors(self, content: bytearray, write: Write, kept: float) -> None:
        dice, zeros = self._dice.random, self._luck.zeros
        start, end = write.offset, write.offset + len(write.data)
        while start < end:
            border = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
            if dice() < kept:
                Write(start, write.data[start - write.offset : border - write.offset]).apply(content)
            elif border > len(content) and dice() < zeros:
                content.extend(bytes(border - len(content)))
            start = border
