"""The rules of `tools/tidy.py`: each finds a planted violation. `tools/check` applies them to the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose, tidy
from tools.source import Source

ROOT = Path(__file__).parents[3]
LONG_FUNCTION = "def f():\n" + "    x = 1\n" * tidy.FUNCTION_LINES_MAX
API = '"""ListOffsets (2), v1-11: offsets."""\nclass ListOffsets(ApiHandler, frozen=True):\n    pass\n'
API_ROW = "    # ElectLeaders (43), v0-2: elect.\n    # v2 flexible\n    ApiKey.ELECT_LEADERS: ControllerApi(),\n"
METRICS = "pykbroker/console/metrics.py"
THEORY = '"""What a log is.\n\n1. It only grows.\nKnows no topic.\n"""\n'

FINE = [
    (tidy.long_function, "wire/varint.py", LONG_FUNCTION.replace("    x = 1\n", "    # why\n", 1)),
    (tidy.long_file, "wire/varint.py", "\n" * tidy.FILE_LINES_MAX),
    (tidy.long_file, "wire/error_codes.py", "\n" * 5000),
    (tidy.long_function, "wire/varint.py", LONG_FUNCTION.removesuffix("    x = 1\n")),
    (tidy.nameless, "wire/base_offset.py", ""),
    (tidy.opens_file, "pykbroker/world/system_disk.py", "open('x')"),
    (tidy.opens_file, "pykbroker/storage/log/log.py", "disk.open('x')"),
    (tidy.asynchronous, "pykbroker/storage/log/log.py", "async def f(): await g()"),
    (tidy.spawns, "pykbroker/server/listener.py", "nursery.start_soon(f)"),
    (tidy.compares_secret, "pykbroker/server/login/frames.py", "hmac.compare_digest(password, wanted)"),
    (tidy.compares_secret, "pykbroker/tls/stores.py", "store.password is None or kind == PEM or bool(password) == x"),
    (tidy.compares_secret, "pykbroker/core/security/sasl/plain.py", "password == '' or token[0] == b'n'"),
    (tidy.stub, "wire/declare.py", "class Seam(Protocol):\n    def f(self) -> int: ...\n"),
    (tidy.stub, "wire/declare.py", "class Seam:\n    @overload\n    def f(self) -> int: ...\n"),
    (tidy.no_theory, "pykbroker/storage/__init__.py", THEORY),
    (tidy.no_theory, "pykbroker/core/__init__.py", THEORY + "def __getattr__(name):\n    return load(name)\n"),
    (tidy.no_theory, "wire/records/__init__.py", THEORY + "from wire.batch import Batch\n__all__ = ['Batch']\n"),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets.py", API),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets/list_offsets.py", API),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets/append.py", '"""Append a batch."""\n'),
    (tidy.misdescribed_api, "pykbroker/apis/controller_apis.py", API_ROW),
    (tidy.sleeps, "tests/unit/x.py", "async def test(autojump_clock):\n    await trio.sleep(5)"),
    (tidy.sleeps, "tests/unit/x.py", "def wait():\n    while not ready():\n        time.sleep(0.01)"),
    (tidy.sleeps, "pykbroker/server/idle.py", "async def sweep():\n    await trio.sleep(5)"),
    (tidy.testless, "tests/unit/test_x.py", "class TestX(Scenarios):\n    pass"),
    (tidy.testless, "tests/unit/logs.py", ""),
    (tidy.postponed, "README.md", "what todo lists are for"),
    (prose.riddle, "wire/frame.py", '"""All frames."""\nclass A:\n    """A frame."""\n'),
    (prose.riddle, "wire/frame.py", 'def f():\n    """Return the frame."""\ndef g():\n    """Whether it is."""\n'),
    (prose.coined, "wire/frame.py", 'x = "forgo"\n'),
    (prose.vague_help, METRICS, 'gauge("x_longest", "Longest step of the event loop, in seconds", 1)'),
    (prose.vague_help, "pykbroker/cli/start/run.py", 'gauge("x", "Those that took long", 1)'),
    (tidy.machine_path, "README.md", "frame/work/s of art"),
    (tidy.machine_path, "constraints.txt", "# exact versions\ntrio==0.31.0\n"),
]
PLANTED = [
    (tidy.long_file, "wire/varint.py", "\n" * (tidy.FILE_LINES_MAX + 1)),
    (tidy.long_function, "wire/varint.py", LONG_FUNCTION),
    (tidy.long_function, "wire/varint.py", "class A:\n    async " + LONG_FUNCTION.replace("\n", "\n    ").rstrip()),
    (tidy.compares_secret, "pykbroker/core/security/sasl/plain.py", "if user.password == given: pass"),
    (tidy.compares_secret, "pykbroker/server/login/frames.py", "ok = sent[0] != self.stored_key"),
    (tidy.compares_secret, "pykbroker/tls/stores.py", "ok = a < b == key_password.reveal()"),
    (tidy.nameless, "wire/utils.py", ""),
    (tidy.nameless, "pykbroker/core/group_helpers.py", ""),
    (tidy.nameless, "pykbroker/common/names.py", ""),
    (tidy.opens_file, "pykbroker/storage/log/log.py", "with open('x') as f: pass"),
    (tidy.opens_file, "wire/varint.py", "opener = open"),
    (tidy.asynchronous, "pykbroker/core/group/machine.py", "async def f(): pass"),
    (tidy.asynchronous, "wire/frame.py", "async def f(): pass"),
    (tidy.spawns, "pykbroker/apis/records/list_offsets.py", "nursery.start_soon(f)"),
    (tidy.spawns, "pykbroker/apis/records/list_offsets.py", "send, receive = trio.open_memory_channel(1)"),
    (tidy.stub, "pykbroker/core/names.py", "def f() -> int:\n    raise NotImplementedError\n"),
    (tidy.stub, "pykbroker/core/names.py", "def f() -> int: ...\n"),
    (tidy.stub, "wire/declare.py", 'class A:\n    def f(self) -> None:\n        """Says much."""\n        ...\n'),
    (tidy.no_theory, "pykbroker/storage/__init__.py", ""),
    (tidy.no_theory, "pykbroker/storage/__init__.py", '"""The log."""\n'),
    (tidy.no_theory, "pykbroker/storage/__init__.py", THEORY + "CACHE = {}\n"),
    (tidy.no_theory, "wire/__init__.py", THEORY + "import wire.messages\n"),
    (tidy.no_theory, "wire/__init__.py", THEORY + "def load(name):\n    return name\n"),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets.py", API.replace("v1-11", "v0-11")),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets.py", API.replace("ListOffsets", "Fetch")),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets.py", API.replace("(2)", "(3)")),
    (tidy.misdescribed_api, "pykbroker/apis/offsets.py", API),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets/list_offsets.py", API.replace("(2)", "(3)")),
    (
        tidy.misdescribed_api,
        "pykbroker/apis/records/list_offsets.py",
        API.replace("    pass", '    versions: ClassVar[str] = "1-10"'),
    ),
    (tidy.misdescribed_api, "pykbroker/apis/records/list_offsets.py", '"""Offsets of partitions."""\n'),
    (
        tidy.misdescribed_api,
        "pykbroker/apis/records/list_offsets.py",
        API.replace("class ListOffsets", "class Offsets"),
    ),
    (tidy.misdescribed_api, "pykbroker/apis/controller_apis.py", API_ROW.replace("v0-2", "v0-1")),
    (tidy.misdescribed_api, "pykbroker/apis/controller_apis.py", API_ROW.replace("(43)", "(44)")),
    (tidy.misdescribed_api, "pykbroker/apis/controller_apis.py", API_ROW.replace("# ElectLeaders", "# Elect leaders")),
    (tidy.sleeps, "tests/unit/x.py", "def test():\n    time.sleep(0.5)\n    assert ready()"),
    (tidy.sleeps, "tests/unit/x.py", "async def test():\n    with trio.fail_after(9):\n        await trio.sleep(1)"),
    (tidy.sleeps, "tests/unit/x.py", "while True:\n    def f():\n        pass\nsleep(3)"),
    (prose.riddle, "wire/frame.py", '"""What a frame is."""\n'),
    (prose.riddle, "wire/frame.py", 'class A:\n    """Of one frame."""\n'),
    (prose.riddle, "wire/frame.py", 'def f():\n    """The next frame."""\n'),
    (prose.riddle, "wire/frame.py", 'LIMIT = 1\n"""How many frames there may be."""\n'),
    (prose.coined, "wire/frame.py", 'def f():\n    """Forgo the frame."""\n'),
    (prose.coined, "wire/frame.py", "# versions that are spoken\n"),
    (prose.coined, "wire/frame.py", "log.info('%s gives way', x)\n"),
    (prose.vague_help, METRICS, 'gauge("x", "Those that took long", 1)'),
    (prose.vague_help, METRICS, 'rows = [("x", "Longest of them", 1)]'),
    (tidy.testless, "tests/unit/test_x.py", ""),
    (tidy.testless, "tests/unit/test_x.py", "def helper():\n    pass\n"),
    (tidy.postponed, "tools/run", "# TO" + "DO: the rest"),
    (tidy.postponed, "wire/api.py", "x = 1  # FIX" + "ME"),
    (tidy.machine_path, "README.md", "see " + "/wo" + "rk/notes.md"),
    (tidy.machine_path, "tools/run", "cache=/ro" + "ot/.cache"),
    (tidy.machine_path, "constraints.txt", "--index-url https" + "://packages.example/simple\n"),
    (tidy.machine_path, "constraints.txt", "trio @ https" + "://packages.example/trio.whl\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), FINE)
def test_every_rule_accepts_a_file_without_violations(rule, path, text):
    assert list(rule(Source(path, text))) == []


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED)
def test_each_rule_finds_its_planted_violation(rule, path, text):
    assert len(list(rule(Source(path, text)))) == 1


def test_every_rule_is_applied_and_has_a_planted_violation():
    planted = {rule for rule, _, _ in PLANTED}
    assert planted == set(tidy.PYTHON_RULES + tidy.TEXT_RULES)
    assert planted == {rule for rule, _, _ in FINE}


def test_a_package_that_no_import_layer_lists_is_found():
    pyproject = '[[tool.importlinter.contracts]]\nlayers = ["pykbroker.cli | (pykbroker.testing)", "pykbroker.core"]\n'
    paths = [f"pykbroker/{each}.py" for each in ("core/names", "magic/wand", "spell", "__init__")]
    assert list(tidy.homeless(pyproject, paths)) == ["magic", "spell"]


def test_every_package_of_the_broker_is_listed_in_an_import_layer():
    paths = [source.path for source in tidy.tree(ROOT)]
    assert list(tidy.homeless((ROOT / "pyproject.toml").read_text(), paths)) == []


def test_two_classes_of_the_same_name_are_found():
    sources = [
        Source("pykbroker/core/a.py", "class Member: ...\n"),
        Source("pykbroker/core/b.py", "Member = tuple[str, int]\n"),
        Source("pykbroker/core/c.py", "T = TypeVar('T')\nMEMBER = 1\n"),
        Source("wire/messages/d.py", "class Member: ...\n"),
    ]
    assert list(tidy.same_name(sources)) == ["pykbroker/core/b.py:1: Member is also defined in pykbroker/core/a.py:1"]


def test_a_commit_subject_without_an_area_is_found():
    fine = ["storage: fsync the directory", "core/log, wire: read batches", "tests/unit: name each test"]
    bad = ["Read a client id", "storage: Fsync the directory", "Storage: fsync the directory", "storage:fsync"]
    assert len(list(prose.areas_missing(fine + bad))) == len(bad)


def test_commit_subjects_are_not_checked_without_git(tmp_path):
    assert prose.subjects(tmp_path) == []


def test_every_new_commit_subject_names_its_area():
    assert list(prose.areas_missing(prose.subjects(ROOT))) == []


def test_a_folder_with_too_many_files_is_found():
    paths = [f"{folder}/f{number}.py" for folder in ("tools", "tests/unit", "wire/messages") for number in range(40)]
    paths += ["tests/unit/more.py", "wire/messages/more.py", "tools/more.txt"]
    assert list(tidy.full_folders(paths)) == []
    assert list(tidy.full_folders([*paths, "tools/more.py"])) == ["tools: 41 files in one folder, at most 40"]
