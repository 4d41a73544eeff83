"""A generator of the parts of `docs/` and of `examples/README.md` that repeat tables of the code.

In a page, a generated part is between `<!-- generated: NAME -->` and `<!-- end -->`. `python -m tools.document` writes
all parts again. `tests/unit/arch/test_docs.py` fails if a page differs from the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from pykbroker.cli.kafka_tools.__main__ import TOOLS, tool_named
from pykbroker.cli.kafka_tools.options import form
from pykbroker.cli.start.start import start
from pykbroker.core.config.docs import DOCS, UNUSED
from pykbroker.core.config.row import Row
from pykbroker.core.config.table import BROKER
from pykbroker.core.security.rights import RIGHTS, Need
from tests.interop import drop_in_programs as drop_in
from tools.examples import PROGRAMS
from tools.tested_with import rows
from wire.apis import APIS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
API = re.compile(r'^(?:"""|    # )(\w+) \((\d+)\), v([\d-]+): (.*?)(?:"""|\n\n|\n    [#A])', re.DOTALL | re.MULTILINE)
"""The name, key, versions and first sentence of an API: its file's docstring, or the comment of its row in a table."""


def table(*rows: Iterable[str]) -> str:
    """Return a table in Markdown, of which the first row is the heading."""
    heading, *rest = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [heading, ["---"] * len(heading), *rest]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def apis() -> str:
    """Return the name, versions and first sentence of each served API, in the order of their keys."""
    found = [
        (int(opening[2]), opening[1], opening[3], " ".join(opening[4].split()))
        for path in (ROOT / "pykbroker" / "apis").rglob("[!_]*.py")
        for opening in API.finditer(path.read_text())
    ]
    return table(
        ("key", "API", "versions", "what it does"),
        *((str(key), name, versions, does) for key, name, versions, does in sorted(found)),
    )


def rights() -> str:
    """Return the rights that each API needs, with the answer to a client without them, in the order of their keys."""
    found = []
    for key, needed in sorted(RIGHTS.items()):
        api = APIS[key].request.__name__.removesuffix("Request")
        found += [
            (api, right.part, " or ".join(map(need_text, right.needs)), right.denial.value.format(right.code.name))
            for right in needed
        ] or [(api, "", "none", "")]
    return table(("API", "part of a request", "right", "without it"), *found)


def need_text(need: Need) -> str:
    """Return an operation and its resource, such as `WRITE on the topic`."""
    resource = need.resource.name.lower().replace("_", " ")
    return f"{need.operation.name} on {'any' if need.anywhere else 'the'} {resource}"


def own_configs() -> str:
    """Return the configs that Kafka does not have."""
    return table(
        ("config", "default", "meaning"),
        *(
            (f"`{row.name}`", f"`{default(row)}`", DOCS[row.name])
            for row in BROKER.values()
            if row.name.startswith("pykbroker.")
        ),
    )


def default(row: Row) -> str:
    """Return the default value of a config in the form of a config file."""
    return str(row.default).lower() if isinstance(row.default, bool) else str(row.default)


def idle_configs() -> str:
    """Return the configs that are accepted but have no effect, with their meaning in Kafka."""
    return table(("config", "meaning in Kafka"), *((f"`{name}`", text) for name, text in sorted(UNUSED.items())))


def options() -> str:
    """Return the options of `pykbroker start`, as `--help` prints them."""
    context = click.Context(start)
    found = filter(None, (parameter.get_help_record(context) for parameter in start.params))
    return table(("option", "meaning"), *((f"`{names}`", " ".join(text.split())) for names, text in found))


def examples() -> str:
    """Return the programs of `examples/`: what each does, its command, and what it needs."""
    return table(
        ("program", "what it does", "run", "needs"),
        *(
            (
                f"[{example.directory}]({example.directory}/{example.file})",
                example.does,
                f"`{example.command}`",
                example.needs,
            )
            for example in PROGRAMS
        ),
    )


def tested() -> str:
    """Return the clients and applications that tests and examples run, with their versions."""
    return table(("client or application", "version", "what is tested", "test or example"), *rows())


def drop_in_differences(programs: Sequence[str], differences: Sequence[drop_in.Difference]) -> str:
    """Return the number of programs that a test runs with kafka-python and the drop-in, and those that differ."""
    rows = [
        (f"`{program}`", *(f"`{each}`" for each in outcomes), difference.reason)
        for difference in differences
        for program, outcomes in difference.outcomes.items()
    ]
    opening = f"A test runs {len(programs)} small programs with both libraries. The outcome of {len(rows)} differs:"
    return f"\n{opening}\n\n{table(('program', 'kafka-python', 'pykbroker.kafka', 'reason'), *rows)}\n"


def kafka_tools() -> str:
    """Return the options of Kafka's tools, and for each option that is missing what to use instead."""
    rows = []
    for name in TOOLS:
        tool = tool_named(name)
        carried_out = [f"`{form(each)}`" for each in tool.options if not each.missing]
        gone: dict[str, list[str]] = {}
        for each in tool.options:
            if each.missing:
                gone.setdefault(each.missing, []).append(f"`--{each.name}`")
        missing = "; ".join(f"{', '.join(names)}: {sentence}" for sentence, names in gone.items())
        rows.append((f"`{name}`", ", ".join(carried_out), missing))
    return table(("tool", "options", "missing"), *rows)


PARTS = {
    "drop-in-producer": lambda: drop_in_differences(drop_in.PROGRAMS_OF_PRODUCER, drop_in.OF_PRODUCER),
    "drop-in-consumer": lambda: drop_in_differences(drop_in.PROGRAMS_OF_CONSUMER, drop_in.OF_CONSUMER),
    "apis": apis,
    "rights": rights,
    "own-configs": own_configs,
    "idle-configs": idle_configs,
    "options": options,
    "examples": examples,
    "tested-with": tested,
    "kafka-tools": kafka_tools,
}


def generated(page: str) -> str:
    """Return the text of a page with its generated parts made anew; raise KeyError for an unknown part."""
    return PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}{found[3]}", page)


def main() -> None:
    """Write every page whose text has changed."""
    for path in PAGES:
        before = path.read_text()
        after = generated(before)
        if after != before:
            path.write_text(after)
            print(f"{path.relative_to(ROOT)}: written anew")


if __name__ == "__main__":
    main()
