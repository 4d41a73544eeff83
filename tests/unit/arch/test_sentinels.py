"""Kafka's -1s: no module defines a name of `wire.sentinels` again."""

from __future__ import annotations

import re
from pathlib import Path

from wire import sentinels

ROOT = Path(__file__).parents[3]
NAMES = "|".join(name for name in vars(sentinels) if name.isupper())
DEFINITION = re.compile(rf"^(?:\w+(?:, | = ))*(?:{NAMES})(?:, \w+)* = ", re.MULTILINE)


def test_no_other_module_defines_a_sentinel():
    files = [file for root in ("pykbroker", "wire", "tools") for file in (ROOT / root).rglob("*.py")]
    found = [str(file.relative_to(ROOT)) for file in files if DEFINITION.search(file.read_text())]
    assert found == ["wire/sentinels.py"]
