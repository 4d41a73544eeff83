"""The rules of `tools.tidy` for prose: docstrings, comments, log lines, HELP texts and commit subjects."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.source import Faults, Source

RIDDLES = frozenset(
    "What Who Whose Whoever Each Those That These This Which How Where When Until It Its They As Of By From "
    "Is Are Does Do".split()
)
"""Words with which no docstring begins, since a sentence that begins with one has no plain subject or verb."""
RIDDLES_OF_FUNCTIONS = RIDDLES - {"Do"} | {"The", "A", "An", "All", "One", "For", "Every"}
"""Words with which no docstring of a function begins, since it begins with a verb or with "Whether".

The docstring of a test function states a fact, so it may begin with a noun.
"""
COINED = {
    r"forgo(es|ne|ing)?": "do without",
    r"spoken": "supported, advertised or negotiated",
    r"tak(e|es|ing) leave|took leave": "shut down, unregister or leave",
    r"giv(e|es|en|ing) way|gave way": "step down, yield or be replaced",
    r"owed": "unsent, unanswered or pending",
    r"mak(e|es|ing) up with|made up with": "reconcile",
}
"""Patterns of words that name nothing in Kafka or trio, and what to write instead."""
PRONOUNS = r"\b(those|they|them|their own|it|its turn|what|who|how)\b"
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
AREA = re.compile(r"[a-z0-9_./-]+(, [a-z0-9_./-]+)*: [^A-Z\s]")
FIRST_CHECKED = "tools: let tidy check commit subjects, and prepare its rules for prose"
"""The subject of the commit after which commit subjects are checked."""

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def riddle(source: Source) -> Faults:
    """Find docstrings that begin with a word that cannot be the subject or the verb of a plain sentence."""
    for node, line, text in docstrings(source):
        words = re.findall(r"^\s*(\w+)", text)
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("test_")
        if words and words[0] in (RIDDLES_OF_FUNCTIONS if is_function else RIDDLES):
            yield line, f"a docstring begins with {words[0]!r}: begin with {'a verb' if is_function else 'a noun'}"


def coined(source: Source) -> Faults:
    """Find coined words in docstrings, comments and log lines."""
    if source.path == "tools/prose.py":
        return
    for line, text in sentences(source):
        for pattern, instead in COINED.items():
            if found := re.search(rf"\b({pattern})\b", text, re.IGNORECASE):
                yield line, f"{found[0]!r} is a coined word: write {instead}"


def vague_help(source: Source) -> Faults:
    """Find HELP texts that refer to another metric or to nothing: a dashboard shows each text alone."""
    if source.path != "pykbroker/console/metrics.py":
        return
    for node in source.nodes:
        if isinstance(node, ast.Call | ast.Tuple):
            arguments = node.args if isinstance(node, ast.Call) else node.elts
            for text in arguments[1:2]:
                found = isinstance(text, ast.Constant) and re.search(PRONOUNS, str(text.value), re.IGNORECASE)
                if found:
                    yield text.lineno, f"HELP {ast.unparse(text)}: name the thing instead of {found[0]!r}"


def docstrings(source: Source) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield the owner, line and text of each docstring, including docstrings below an assignment."""
    for node in source.nodes:
        previous: ast.stmt | None = None
        for number, child in enumerate(node.body if isinstance(node, Documented) else ()):
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                owner = node if number == 0 else previous
                if isinstance(child.value.value, str) and isinstance(owner, Documented | ast.Assign | ast.AnnAssign):
                    yield owner, child.lineno, child.value.value
            previous = child


def sentences(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring, comment and log line."""
    for _, line, text in docstrings(source):
        yield line, text
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_METHODS:
            for each in node.args[:1]:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.lineno, each.value


def subjects(root: Path) -> list[str]:
    """Return the subjects of the commits after FIRST_CHECKED; return an empty list without git or
    without that commit.
    """
    try:
        log = ["git", "log", "--no-merges", "--format=%s"]
        found = subprocess.run(log, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []
    return found[: found.index(FIRST_CHECKED)] if FIRST_CHECKED in found else []


def areas_missing(subjects: list[str]) -> Iterator[str]:
    """Yield a finding for each subject that is not `area: what changed`."""
    for subject in subjects:
        if not AREA.match(subject):
            yield f"commit {subject!r}: write `area: what changed`"


RULES: list[Callable[[Source], Faults]] = [riddle, coined, vague_help]
