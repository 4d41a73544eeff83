"""The commands of `docs/cluster.md` and their output, in the order of the page, on free ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.keystores import Keystores
from tests.interop.page import ADDRESS, Page, runs
from tools.bench import peers

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
SECTIONS = dict(re.findall(r"^##+ (.+?)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    shell = Page(tmp_path)
    try:
        yield shell
    finally:
        shell.stop()


def test_each_command_of_the_page_is_run() -> None:
    used = ("On one machine", "On several machines", "A rolling restart", "More cores for one host")
    assert sum(len(runs(SECTIONS[section])) for section in used) == PAGE.count("\n$ ")


def test_a_cluster_on_one_machine_prints_what_the_page_says(page: Page) -> None:
    for command, expected in [*runs(SECTIONS["On one machine"]), *runs(SECTIONS["A rolling restart"])]:
        page.run(command, expected)
    assert page.stop() == [0]


def test_the_nodes_of_several_machines_are_one_cluster(page: Page) -> None:
    """The last settings of the page replace earlier ones: the nodes log in by passwords."""
    written = SECTIONS["On several machines"] + SECTIONS["Who is a broker"]
    ini = "".join(re.findall(r"^```ini\n(.*?)^```", written, re.MULTILINE | re.DOTALL))
    stores = Keystores(page.work)
    for path, of_test in (("node.pem", stores.keystore("node1")), ("ca.pem", stores.truststore)):
        ini = ini.replace(f"/etc/pykbroker/{path}", str(of_test))
    (page.work / "cluster.properties").write_text(ini)
    commands = runs(SECTIONS["On several machines"])
    written = dict.fromkeys(address for command, _ in commands for address in ADDRESS.findall(command))
    page.places = {address: f"127.0.0.1:{peers.free_port()}" for address in written}
    for command, expected in commands:
        used = command
        for address, free in page.places.items():
            used = used.replace(address, free)
        page.run(used, expected)
    page.run(
        "pykbroker topics create t:6 && pykbroker brokers",
        "Created the topic t with 6 partitions.\n…\n"
        + "".join(f"{node} … - unfenced {'yes' if node == 1 else 'no'} 2 4 0 0\n" for node in (1, 2, 3)),
    )
    assert page.stop() == [0, 0, 0]


def test_a_cluster_of_one_replica_serves(page: Page) -> None:
    for command, expected in runs(SECTIONS["More cores for one host"]):
        page.run(command, expected)
    page.run(
        "pykbroker topics create t:4 && pykbroker topics describe t",
        "Created the topic t with 4 partitions.\nt\n…\n" + "".join(f"{index} … 0 … …\n" for index in range(4)),
    )
    assert page.stop() == [0]
