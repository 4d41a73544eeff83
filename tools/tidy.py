"""The rules of this repository that ruff, mypy and import-linter cannot check.

A rule is a function that yields (line, fault) for one file. `tests/unit/arch` plants a violation of each rule. `python
-m tools.tidy` applies all rules to all files that git tracks or would add, prints the faults, and exits with 1 if any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tools import prose
from tools.source import Faults, Source
from wire.api import VERSIONS, ApiKey

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
FOLDER_FILES_MAX = 40
PURE_TABLES = {  # These files may have any length, since they are plain tables.
    "wire/error_codes.py",
    "pykbroker/core/config/docs.py",
    "pykbroker/core/config/table.py",
}
MAY_OPEN_FILES = (
    "pykbroker/world/",
    "pykbroker/sim/",
    "pykbroker/testing/",
    "pykbroker/cli/",
    "pykbroker/pipeline/",
    "tools/",
    "tests/",
)
# These are banned in any part of a name, the next set only as a whole name.
NAMELESS = {"util", "utils", "helper", "helpers", "misc"}
NAMELESS_ALONE = {"base", "common"}
SPAWNING = {"start_soon", "open_nursery", "open_memory_channel"}
VIRTUAL_CLOCKS = {"autojump_clock", "mock_clock"}
SECRET = re.compile(r"auth_bytes|digest|hmac|nonce|passw|proof|reveal|salt|secret|signature|(stored|server|client)_key")
API_DEPTH = 4  # of a path such as pykbroker/apis/records/list_offsets.py
API_OPENING = r"(\w+) \((\d+)\), v([\d-]+)[: ]"
API_ROW = re.compile(rf"(?:^    # {API_OPENING}.*\n(?:    # .*\n)*)?^    ApiKey\.(\w+): ControllerApi\(", re.MULTILINE)


def long_file(source: Source) -> Faults:
    """Find files of more than 600 lines."""
    lines = source.text.count("\n")
    if lines > FILE_LINES_MAX and source.path not in PURE_TABLES:
        yield FILE_LINES_MAX, f"{lines} lines in one file, at most {FILE_LINES_MAX}"


def long_function(source: Source) -> Faults:
    """Find functions of more than 60 lines, not counting those of comments: no comment is left out to save a line."""
    text = source.text.splitlines()
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and source.path not in PURE_TABLES:
            body = text[node.lineno - 1 : node.end_lineno]
            lines = sum(not line.lstrip().startswith("#") for line in body)
            if lines > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def nameless(source: Source) -> Faults:
    """Find files with vague names such as utils."""
    for part in Path(source.path).with_suffix("").parts:
        if part in NAMELESS_ALONE or NAMELESS.intersection(part.split("_")):
            yield 1, f"{part!r} is a vague name: name the file after what it defines"


def opens_file(source: Source) -> Faults:
    """Find uses of the builtin open, which ruff cannot ban. Only `world` opens files."""
    for node in source.nodes:
        if isinstance(node, ast.Name) and node.id in ("open", "input") and not source.within(*MAY_OPEN_FILES):
            yield node.lineno, f"the builtin {node.id!r} is used: read and write files through world.disk"


def asynchronous(source: Source) -> Faults:
    """Find async code in state machines and codecs."""
    for node in source.nodes:
        if isinstance(node, ast.AsyncFunctionDef | ast.Await) and source.within("wire/", "pykbroker/core/"):
            yield node.lineno, "wire and core are synchronous: no async, no await"


def spawns(source: Source) -> Faults:
    """Find handlers that start tasks or open channels. A handler only returns a response or a coroutine."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in SPAWNING and source.within("pykbroker/apis/"):
            yield (
                node.lineno,
                f"{node.attr} in a handler: a handler returns a response or a coroutine, and starts no tasks",
            )


def compares_secret(source: Source) -> Faults:
    """Find secrets that == or != compares: the time that it takes reveals how much of a guess is right."""
    for node in source.nodes:
        if not isinstance(node, ast.Compare) or not source.within("pykbroker/", "wire/"):
            continue
        for operator, *sides in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False):
            named = [name for name in map(_last_name, sides) if SECRET.search(name)]
            if named and isinstance(operator, ast.Eq | ast.NotEq) and not any(_is_constant(side) for side in sides):
                yield node.lineno, f"{named[0]} is compared by == or !=: use hmac.compare_digest, or Secret.is_equal"


def _is_constant(node: ast.expr) -> bool:
    """Whether an expression is a literal or the name of a constant."""
    return isinstance(node, ast.Constant) or _last_name(node).isupper()


def _last_name(node: ast.expr) -> str:
    """Return the name of the variable, attribute, function or container that an expression has its value from."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.Await(value=inner):
            return _last_name(inner)
    return ""


def stub(source: Source) -> Faults:
    """Find functions whose body is a stub. Only a Protocol or an overload may have the body `...`."""
    if not source.within("wire/", "pykbroker/"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield node.lineno, "NotImplementedError: implement the function, or remove it"
        protocol = isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(each) for each in node.bases)
        for child in ast.iter_child_nodes(node):
            if (
                isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                and not protocol
                and not child.decorator_list
                and isinstance(child.body[-1], ast.Expr)
                and ast.unparse(child.body[-1]) == "..."
            ):
                yield child.lineno, f"{child.name} is a stub: implement it, or remove it"


def no_theory(source: Source) -> Faults:
    """Find packages whose docstring has no numbered rules, or whose `__init__.py` has code."""
    if not source.within("wire/", "pykbroker/") or not source.path.endswith("/__init__.py"):
        return
    if not re.search(r"^1\. ", ast.get_docstring(source.tree) or "", re.MULTILINE):
        yield 1, "the docstring of the package has no numbered rules"
    for node in source.tree.body[1:]:
        exports = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        is_lazy = isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not (exports or is_lazy or is_typing or isinstance(node, ast.ImportFrom)):
            yield node.lineno, "an __init__.py may only contain a docstring, imports, __all__ and a lazy __getattr__"


def misdescribed_api(source: Source) -> Faults:
    """Find API files whose docstring, name and handler disagree. The docstring begins `Name (key), v1-11: ...`.

    If the API is a package, its API file has the name of the package, and the other files are its steps. A table of
    APIs has a comment with the same beginning above each row.
    """
    path = Path(source.path)
    is_step = len(path.parts) > API_DEPTH and path.stem != path.parent.name
    if not source.within("pykbroker/apis/") or path.name == "__init__.py" or is_step:
        return
    if rows := API_ROW.findall(source.text):
        for name, key, versions, row in rows:
            if (name.upper(), key, versions) != (
                row.replace("_", ""),
                str(ApiKey[row].value),
                VERSIONS[ApiKey[row]][0],
            ):
                yield 1, f"the comment above {row} must begin with `Name (key), v1-11: what it does`"
        return
    opening = re.match(API_OPENING, ast.get_docstring(source.tree) or "")
    if opening is None:
        yield 1, "the docstring of an API file must begin with `Name (key), v1-11: what it does`"
        return
    name, key, versions = opening.groups()
    api = ApiKey.__members__.get(path.stem.upper())
    if api is None or (name.upper(), int(key)) != (api.name.replace("_", ""), api):
        yield 1, f"the docstring says {name} ({key}), the file's name {api!r}"
        return
    some = re.findall(r'^    versions: ClassVar\S* = "([\d-]+)"', source.text, re.MULTILINE)
    handled = some or [VERSIONS[api][0]] * source.text.count(f"\nclass {name}(ApiHandler,")
    if handled != [versions]:
        yield 1, f"the docstring says v{versions}, the handler {handled or 'nothing'}"


def sleeps(source: Source) -> Faults:
    """Find tests that sleep for a time instead of waiting for a condition."""

    def visit(node: ast.AST, *, excused: bool) -> Faults:
        for child in ast.iter_child_nodes(node):
            fine = excused or isinstance(child, ast.While | ast.For)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                fine = excused or bool(VIRTUAL_CLOCKS.intersection(each.arg for each in child.args.args))
            elif not fine and isinstance(child, ast.Call) and re.match(r"(\w+\.)*sleep\((?!0\))", ast.unparse(child)):
                yield child.lineno, "a test sleeps for a time: wait for a condition instead"
            yield from visit(child, excused=fine)

    if source.within("tests/"):
        yield from visit(source.tree, excused=source.within("tests/unit/sim/"))


def testless(source: Source) -> Faults:
    """Find test files without a test, such as an accidentally emptied file. A test class may inherit its tests."""
    if source.within("tests/") and Path(source.path).name.startswith("test_"):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if not any(isinstance(node, kinds) and node.name.lower().startswith("test") for node in source.nodes):
            yield 1, "the file contains no test: write one, or remove the file"


def postponed(source: Source) -> Faults:
    """Find markers of postponed work, which belongs in an issue."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := re.search(r"\b(TO[D]O|FIX[M]E|XX[X])\b", line):
            yield number, f"{found[0]} marks postponed work: do it, or remove the marker"


def machine_path(source: Source) -> Faults:
    """Find paths of one developer's machine, and package registries in the list of versions."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := re.search(r"(?<!\w)/(?:work|root|farm)/\S*", line):
            yield number, f"{found[0]} is a path on one developer's machine"
        if source.path == "constraints.txt" and re.search(r"://|--|@", line):
            yield number, "constraints.txt may only contain names and versions"


PYTHON_RULES: list[Callable[[Source], Faults]] = [
    long_file,
    long_function,
    nameless,
    opens_file,
    asynchronous,
    spawns,
    compares_secret,
    stub,
    no_theory,
    misdescribed_api,
    sleeps,
    testless,
    *prose.RULES,
]
TEXT_RULES: list[Callable[[Source], Faults]] = [postponed, machine_path]


def same_name(sources: list[Source]) -> Iterator[str]:
    """Find classes and aliases of pykbroker that share a name."""
    places: dict[str, list[str]] = {}
    for source in sources:
        if source.within("pykbroker/") and source.path.endswith(".py"):
            for node in source.tree.body:
                if (name := _named_type(node)) is not None:
                    places.setdefault(name, []).append(f"{source.path}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{found[-1]}: {name} is also defined in {', '.join(found[:-1])}"


def full_folders(paths: Iterable[str]) -> Iterator[str]:
    """Find folders with more than 40 Python files. Messages and tests mirror something else, and may have more."""
    folders = Counter(str(Path(path).parent) for path in paths if path.endswith(".py"))
    for folder, files in sorted(folders.items()):
        if files > FOLDER_FILES_MAX and not f"{folder}/".startswith(("wire/messages/", "tests/")):
            yield f"{folder}: {files} files in one folder, at most {FOLDER_FILES_MAX}"


def _named_type(node: ast.stmt) -> str | None:
    """Return the name of a class or of an alias of a class, or None."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
        spelled_as_class = re.fullmatch(r"[A-Z][A-Za-z]*[a-z][A-Za-z]*", target.id)
        if spelled_as_class and not ast.unparse(node.value).startswith("TypeVar("):
            return target.id
    return None


def homeless(pyproject: str, paths: list[str]) -> Iterator[str]:
    """Yield the packages of pykbroker that no layer of the import-linter contract lists."""
    layers = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = set(re.findall(r"pykbroker\.(\w+)", " ".join(layers)))
    parts = {Path(path).parts[1].removesuffix(".py") for path in paths if re.fullmatch(r"pykbroker/.+\.py", path)}
    yield from sorted(parts - floors - {"__init__"})


def faults(source: Source) -> Iterator[str]:
    """Yield a line for each fault of one file."""
    rules = TEXT_RULES + (PYTHON_RULES if source.path.endswith(".py") else [])
    for rule in rules:
        for line, what in rule(source):
            yield f"{source.path}:{line}: {what}"


def tree(root: Path) -> Iterator[Source]:
    """Yield the text files that git tracks or would add, except test data."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for path in sorted(set(listed.splitlines())):
        if not path.startswith("tests/data/") and (root / path).is_file():
            yield Source(path, (root / path).read_text(encoding="utf-8", errors="replace"))


def main() -> int:
    """Print every fault; return the exit code, which is 1 if there was one."""
    root = Path(__file__).parent.parent
    sources = list(tree(root))
    found = [fault for source in sources for fault in faults(source)]
    parts = homeless((root / "pyproject.toml").read_text(), [source.path for source in sources])
    found += same_name(sources)
    found += full_folders(source.path for source in sources)
    found += prose.areas_missing(prose.subjects(root))
    found += [f"pykbroker.{part}: on no floor in pyproject.toml" for part in parts]
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
