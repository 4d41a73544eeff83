"""A mapping that is handed out and then written to: copied once, before the first write after it was shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SharedTable(Mapping[K, V]):
    """Reads like a dict. All writes between two `share` cost one copy together."""

    __slots__ = ("_own", "_rows")

    def __init__(self, rows: Mapping[K, V]) -> None:
        self._rows = rows
        self._own: dict[K, V] | None = None

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    @property
    def changed(self) -> bool:
        """Whether it was opened for writing since it was last shared."""
        return self._own is not None

    def rows(self) -> dict[K, V]:
        """The rows, to be written to before the next `share`."""
        if self._own is None:
            self._rows = self._own = dict(self._rows)
        return self._own

    def share(self) -> Mapping[K, V]:
        """The rows as they are; never written to again."""
        self._own = None
        return self._rows
