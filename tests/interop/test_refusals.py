"""Tests of every principal and every API: a broker refuses and permits the same as Kafka, whose answers are recorded.

`python -m tools.refusals.record` has written them. Each line of rights.txt has a case, its versions, the principals,
and what they see.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from pykbroker.core.security.rights import RIGHTS
from tools.broker_process import BrokerProcess, set_options
from tools.refusals.matrix import CONFIGS, Matrix
from tools.refusals.requests import api_of, requests, versions_of

RECORDED = Path(__file__).parents[1] / "data" / "protocol" / "rights.txt"
NO_IDS = dict.fromkeys(("open", "shut", "no open", "no shut", "doomed", "kept"), b"")


def recorded() -> dict[tuple[str, int, int], dict[str, str]]:
    """Map each case with its first and last version to the answers of Kafka by principals."""
    lines = [line.split(" | ") for line in RECORDED.read_text().splitlines()]
    found = {}
    for (case, versions), same in groupby(lines, key=lambda line: (line[0], line[1])):
        first, last = map(int, versions.split("-"))
        found[case, first, last] = {who: answer for _, _, who, answer in same}
    return found


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    listen = ("--listen", "CLIENTS=127.0.0.1:0")
    broker = BrokerProcess(tmp_path_factory.mktemp("rights"), "--memory", *listen, *set_options(CONFIGS))
    broker.start()
    with Matrix({name: str(address) for name, address in broker.announced.listeners.items()}) as found:
        yield found
    broker.kill()


def test_every_api_and_version_is_recorded() -> None:
    asked = {(case, version) for case in requests(NO_IDS) for version in versions_of(case)}
    assert {(case, version) for case, first, last in recorded() for version in range(first, last + 1)} == asked
    assert {(key, version) for key in RIGHTS for version in versions_of(key.name)} <= {
        (api_of(case).key, version) for case, version in asked
    }


def test_every_principal_gets_the_answers_of_kafka(matrix: Matrix) -> None:
    differences = []
    for (case, first, last), expected in recorded().items():
        for version in sorted({first, last}):  # Kafka's answers are equal from the first to the last
            found = matrix.answers(case, version)
            if found != expected:
                differences.append((case, version, found, expected))
    assert not differences
