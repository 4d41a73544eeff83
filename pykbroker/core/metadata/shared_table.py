"""A copy-on-write mapping: the first write after the mapping was shared copies it once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SharedTable(Mapping[K, V]):
    """A mapping. All writes between two calls of `share` together cost one copy."""

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
        """Whether the table was opened for writing after the last `share`."""
        return self._own is not None

    def rows(self) -> dict[K, V]:
        """Return the rows, which the caller may change until the next `share`."""
        if self._own is None:
            self._rows = self._own = dict(self._rows)
        return self._own

    def share(self) -> Mapping[K, V]:
        """Return the current rows, which are never changed afterwards."""
        self._own = None
        return self._rows
