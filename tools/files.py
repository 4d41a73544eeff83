"""The file map: every file of `pykbroker` and `wire` with the first sentence of its docstring.

`python -m tools.files` prints all folders, and `python -m tools.files storage/log wire` those below the named ones.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("pykbroker", "wire")


def file_map(names: Iterable[str] = PACKAGES) -> str:
    """Return the map of the named folders, each relative to the project or to `pykbroker`.

    Raise `FileNotFoundError` for a name that is no folder of either.
    """
    texts = []
    for top in map(folder_named, names):
        for folder in sorted({path.parent for path in top.rglob("*.py")}):
            texts.append(f"{folder.relative_to(ROOT)}: {first_sentence(folder / '__init__.py')}\n")
            files = sorted(folder.glob("[!_]*.py"))
            width = max((len(path.name) for path in files), default=0)
            texts.extend(f"  {path.name:{width}}  {first_sentence(path)}\n" for path in files)
    return "".join(texts)


def folder_named(name: str) -> Path:
    """Return a folder by its path."""
    for top in (ROOT, ROOT / "pykbroker"):
        if (top / name).is_dir():
            return top / name
    raise FileNotFoundError(f"{name} is a folder neither of the project nor of pykbroker")


def first_sentence(path: Path) -> str:
    """Return the first paragraph of a file's docstring on one line."""
    return " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())


if __name__ == "__main__":
    try:
        print(file_map(sys.argv[1:] or PACKAGES), end="")
    except FileNotFoundError as error:
        sys.exit(f"tools.files: {error}")
