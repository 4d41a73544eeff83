"""Tests of the options of a broker for tests: the accepted ones, and one sentence for each that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.errors import StartError
from pykbroker.testing.options import BrokerOptions, checked_options
from wire.sentinels import BROKER_DEFAULT


def checked(environ: dict[str, str] | None = None, **options: Any) -> BrokerOptions:
    chosen: dict[str, Any] = {"port": 0, "topics": (), "configs": None, "data_dir": None, "process": False}
    chosen |= {"start_timeout": 30, **options}
    return checked_options(**chosen, environ=environ or {})


def test_topics_are_names_or_numbers_of_partitions() -> None:
    assert checked(topics=["a", "b"]).topics == {"a": BROKER_DEFAULT, "b": BROKER_DEFAULT}
    assert checked(topics={"a": 3, "b": None}).topics == {"a": 3, "b": BROKER_DEFAULT}


def test_the_limit_of_a_start_is_a_number_of_seconds() -> None:
    assert [checked(start_timeout=each).start_timeout for each in (0.1, 86_400)] == [0.1, 86_400]
    for wrong in (0, -1, 86_401, True, "60", float("nan")):
        with pytest.raises(StartError, match=r"start_timeout is .*: write the seconds that a start may take, such as"):
            checked(start_timeout=wrong)


def test_environment_variables_set_configs_and_options_take_precedence() -> None:
    environ = {"PYKBROKER_NUM_PARTITIONS": "3", "PYKBROKER_LOG_RETENTION_MS": "5", "PYKBROKER_DATA_DIR": "/not/used"}
    options = checked(environ, configs={"num.partitions": 4})
    assert options.configs == {"num.partitions": "4", "log.retention.ms": "5"}
    assert options.data_dir is None


def test_a_data_directory_is_created_and_its_data_is_flushed(tmp_path: Path) -> None:
    options = checked(data_dir=tmp_path / "new")
    assert (tmp_path / "new").is_dir()
    assert not options.settings(str(tmp_path)).memory
    assert checked().settings(str(tmp_path)).memory


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"configs": {"num.partition": 5}}, "configs: There is no broker config num.partition; did you mean num.parti"),
        ({"configs": {"num.partitions": [5]}}, "configs: 'num.partitions' is [5]: write Kafka's name, and a text, num"),
        ({"configs": {"num.partitions": "x"}}, "num.partitions"),
        ({"configs": "num.partitions=5"}, "configs is 'num.partitions=5': write a dict such as {'num.partitions': 3}"),
        ({"configs": {"listeners": "PLAINTEXT://:9092"}}, "configs: listeners cannot be set in tests: write port= for"),
        ({"configs": {"log.dirs": "/tmp/x"}}, "configs: log.dirs cannot be set in tests: write data_dir= for a"),
        ({"topics": "orders"}, "topics is 'orders': write a list such as ['orders'], or a dict such as {'orders': 3}"),
        ({"topics": {"orders": 0}}, "topics: 'orders' has 0 partitions: write a number from 1"),
        ({"topics": {"orders": -1}}, "topics: 'orders' has -1 partitions: write a number from 1"),
        ({"topics": {"orders": "3"}}, "topics: 'orders' has '3' partitions: write a number from 1"),
        ({"topics": ["orders:3"]}, "write ['orders'], or {'orders': 3}"),
        ({"topics": [5]}, "topics: 5 is no name"),
        ({"topics": ["a", "a"]}, "topics has a name twice: write a dict such as {'orders': 3}"),
        ({"topics": 3}, "topics is 3: write a list"),
        ({"port": "9092"}, "port is '9092': write a number up to 65535, or 0 for any free port"),
        ({"port": 65_536}, "port is 65536: write a number up to 65535"),
        ({"process": "yes"}, "process is 'yes': write True for a child process, or False for a thread"),
        ({"data_dir": "/dev/null/x"}, "data_dir: cannot create /dev/null/x (Not a directory): name a directory that"),
    ],
)
def test_an_invalid_option_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StartError) as refused:
        checked(**options)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("PYKBROKER_NUM_PARTITION", "3", "PYKBROKER_NUM_PARTITION: There is no broker config num.partition; did you m"),
        ("PYKBROKER_NUM_PARTITIONS", "x", "PYKBROKER_NUM_PARTITIONS: "),
        ("PYKBROKER_LOG_DIRS", "/tmp/x", "PYKBROKER_LOG_DIRS cannot be set in tests: unset it, and write data_dir="),
    ],
)
def test_an_invalid_variable_is_refused_in_a_sentence(variable: str, value: str, sentence: str) -> None:
    with pytest.raises(StartError) as refused:
        checked({variable: value})
    assert str(refused.value).startswith(sentence)


def test_an_invalid_config_does_not_blame_a_variable_that_it_overrides() -> None:
    with pytest.raises(StartError) as refused:
        checked({"PYKBROKER_NUM_PARTITIONS": "3"}, configs={"num.partitions": "x"})
    assert "PYKBROKER" not in str(refused.value)
