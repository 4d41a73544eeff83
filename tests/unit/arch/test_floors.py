"""The import contracts: import-linter accepts the tree, and each contract finds an import that breaks it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
LAYERS = re.findall(r'layers = \[([^\]]*)\]\ncontainers = \["(pykbroker[.\w]+)"\]', PYPROJECT)
ROOMS = {f"{package}.{room}" for layers, package in LAYERS for room in re.findall(r"\w+", layers)}
MODULES = {
    *re.findall(r'"((?:pykbroker|wire)(?:\.\w+)*)"', PYPROJECT),
    *re.findall(r"pykbroker\.\w+", PYPROJECT),
    *ROOMS,
}
FETCH = "pykbroker.apis.records.fetch"
APIS = {FETCH, "pykbroker.apis.groups.heartbeat"}
PRODUCE = "pykbroker.apis.records.produce"


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=50)


@pytest.fixture
def empty_project(tmp_path: Path) -> Path:
    """Return a directory with the project's import contracts, in which every package exists and is empty."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module in MODULES | APIS:
        for depth in range(module.count(".") + 1):
            package = tmp_path.joinpath(*module.split(".")[: depth + 1])
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
    return tmp_path


def test_the_import_contracts_hold():
    outcome = lint_imports(ROOT)
    assert outcome.returncode == 0, outcome.stdout


def test_an_empty_tree_satisfies_the_import_contracts(empty_project):
    outcome = lint_imports(empty_project)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


FORBIDDEN = [
    ("wire", "pykbroker.core"),
    ("wire", "time"),
    ("pykbroker.core", "trio"),
    ("pykbroker.core", "logging"),
    ("pykbroker.core", "pykbroker.world"),
    ("pykbroker.storage", "pykbroker.replica"),
    ("pykbroker.storage.log", "pykbroker.storage.directory"),
    ("pykbroker.storage.files", "pykbroker.storage.segments"),
    ("pykbroker.replica.partition", "pykbroker.replica.leading"),
    ("pykbroker.replica.partition", "pykbroker.replica.following"),
    ("pykbroker.replica.partition", "pykbroker.replica.placing"),
    ("pykbroker.replica.following", "pykbroker.replica.placing"),
    ("pykbroker.replica.following", "pykbroker.replica.leading"),
    ("pykbroker.replica.placing", "pykbroker.replica.replicas"),
    ("pykbroker.replica.replicas", "pykbroker.replica.care"),
    ("pykbroker.replica.leading", "pykbroker.replica.care"),
    ("pykbroker.replica.care", "pykbroker.replica.leading"),
    ("pykbroker.replica", "pykbroker.server"),
    ("pykbroker.server", "pykbroker.apis"),
    ("pykbroker.apis", "pykbroker.broker"),
    (FETCH, PRODUCE),
    (FETCH, "pykbroker.apis.groups.heartbeat"),
    (f"{FETCH}.locate", f"{FETCH}.fetch"),
    ("pykbroker.broker", "pykbroker.cli"),
    ("pykbroker.testing", "pykbroker.cli"),
    ("pykbroker.pipeline", "pykbroker.storage"),
    ("pykbroker.processes", "trio"),
    ("pykbroker.processes", "pykbroker.broker"),
    ("pykbroker.cli.topics", "pykbroker.cli.groups"),
    ("pykbroker.cli.start", "pykbroker.cli.records"),
    ("pykbroker.cli.admin", "pykbroker.cli.kafka_tools"),
    ("pykbroker.cli.groups", "pykbroker.broker"),
    ("pykbroker.cli.groups.reset_plan", "pykbroker.client"),
    (f"{PRODUCE}.admit", f"{PRODUCE}.append"),
    (f"{PRODUCE}.append", f"{PRODUCE}.admit"),
    (f"{PRODUCE}.settle", f"{PRODUCE}.append"),
    (f"{PRODUCE}.append", f"{PRODUCE}.produce"),
    (f"{PRODUCE}.admit", "trio"),
    (f"{PRODUCE}.append", "pykbroker.core.security"),
    (f"{PRODUCE}.settle", "pykbroker.coordinator"),
    (f"{PRODUCE}.settle", "pykbroker.storage"),
    (f"{PRODUCE}.settle", "wire.records"),
    ("pykbroker.world", "wire"),
    ("pykbroker.storage", "pykbroker.core.metadata"),
    ("pykbroker.storage", "pykbroker.world.net"),
    ("pykbroker.machines", "pykbroker.core.group"),
    ("pykbroker.quorum", "pykbroker.core.txn"),
    ("pykbroker.replica", "pykbroker.core.group"),
    ("pykbroker.replica", "pykbroker.client.connection"),
    ("pykbroker.server", "pykbroker.core.log"),
    ("pykbroker.coordinator", "pykbroker.core.group"),
    ("pykbroker.coordinator.runtime", "pykbroker.core.txn"),
    ("pykbroker.core.txn", "pykbroker.core.security"),
    ("pykbroker.core.config", "pykbroker.core.metadata"),
    ("pykbroker.core.log", "wire.messages"),
    ("wire.records", "wire.messages"),
    ("pykbroker.sim.groups", "pykbroker.core.group"),
    ("pykbroker.sim.transactions", "wire.stored.transaction_log"),
    ("pykbroker.sim.scripted", "pykbroker.producer"),
]


def test_every_forbidden_import_is_found_and_every_contract_can_break(empty_project):
    for importer, imported in FORBIDDEN:
        with (empty_project.joinpath(*importer.split(".")) / "__init__.py").open("a") as file:
            file.write(f"import {imported}\n")
    outcome = lint_imports(empty_project)
    assert outcome.returncode == 1
    found = " ".join(outcome.stdout.split())
    assert [each for each in FORBIDDEN if f"- {each[0]} -> {each[1]} (l." not in found] == []
    assert "Contracts: 0 kept," in found


def test_a_package_that_says_what_it_must_not_know_has_a_contract():
    saying = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for root in ("pykbroker", "wire")
        for file in (ROOT / root).rglob("__init__.py")
        if "must not know" in file.read_text()
    }
    assert len(saying) > 20
    assert saying <= MODULES
