"""One file of the repository, as the rules of `tools.tidy` and `tools.prose` see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

Faults = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class Source:
    """One file: its path relative to the root, with slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Return the syntax tree of a Python file."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return all nodes of the syntax tree."""
        return list(ast.walk(self.tree))

    def within(self, *prefixes: str) -> bool:
        """Whether the file is in one of these folders."""
        return self.path.startswith(prefixes)
