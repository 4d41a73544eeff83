"""What the README lists is what there is: the options of the command, the APIs and their versions."""

from __future__ import annotations

import re
from pathlib import Path

from pykbroker.cli.start import start

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def test_the_options_are_those_of_the_command():
    described = re.findall(r"^\| `(--[\w-]+)", README, re.MULTILINE)
    assert sorted(described) == sorted(parameter.opts[0] for parameter in start.params)


def test_the_apis_are_those_that_have_a_file():
    files = (ROOT / "pykbroker" / "apis").glob("[!_]*.py")
    openings = [re.match(r'"""(\w+) \((\d+)\), v([\d-]+)', path.read_text()) for path in files]
    served = sorted((int(opening[2]), opening[1], opening[3]) for opening in openings if opening)
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|$", README.partition("The APIs that are served")[2], re.MULTILINE)
    listed = [tuple(api.split()) for row in rows for api in row.split(",") if row.strip("-") and row != " APIs "]
    assert sorted(listed) == sorted((name, versions) for _, name, versions in served)
