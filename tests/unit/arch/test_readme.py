"""`docs/` lists exactly the options of the command, the implemented APIs and versions, and the unused configs."""

from __future__ import annotations

import re
from pathlib import Path

from pykbroker.cli.start.start import start
from pykbroker.core.config.config import BrokerConfig, Setting
from pykbroker.core.config.docs import DOCS, NO_EFFECT, UNUSED
from pykbroker.core.config.java_classes import NAMED
from pykbroker.core.config.table import BROKER, BROKER_QUOTAS, GROUP, TOPIC, TOPIC_SYNONYMS
from pykbroker.core.config.tls_settings import KEYSTORE, TRUSTSTORE
from pykbroker.core.security.principal_mapping import RULES
from pykbroker.storage.segments.config import LogConfig

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
CHECKS = {"table", "docs", "check", "group_bounds", "broker_bounds", "broker_change"}
"""Files of `core/config` that name every config but do not apply it."""
DROP_IN = ROOT / "pykbroker" / "kafka"
"""The drop-in for kafka-python, whose arguments have the names of configs of clients."""
FILES = set((ROOT / "pykbroker").rglob("*.py")) - {ROOT / f"pykbroker/core/config/{name}.py" for name in CHECKS}
CODE = "".join(path.read_text() for path in sorted(FILES) if DROP_IN not in path.parents)
ATTRIBUTES = {*vars(BrokerConfig), *LogConfig.__struct_fields__} & set(re.findall(r"\.([a-z0-9_]+)\b", CODE))
NAMES = set(re.findall(r'(?:\.get\(|\.text\(|\[)"([a-z0-9._]+)"', CODE))
OF_LISTENERS = {
    name
    for file in ("listeners", "providers", "quorum")
    for name in re.findall(r'"([a-z.]+)"', (ROOT / f"pykbroker/core/config/{file}.py").read_text())
}
"""Configs that a file reads through constants of its own."""
TLS_SETTINGS = (ROOT / "pykbroker/core/config/tls_settings.py").read_text()
OF_TLS = {
    RULES,
    *re.findall(r'"([a-z.]+)"', TLS_SETTINGS),
    *(f"{store}.{part}" for store in (KEYSTORE, TRUSTSTORE) for part in re.findall(r"\{base\}\.(\w+)", TLS_SETTINGS)),
}
"""Configs of TLS, some of which two stores have."""


def test_the_docs_list_the_options_of_the_command():
    section = page("operating").split("## Options of `pykbroker start`")[1].split("\n## ")[0]
    described = re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE)
    assert sorted(described) == sorted(
        parameter.opts[0] for parameter in start.params if not getattr(parameter, "hidden", False)
    )


def test_the_spark_connector_has_the_version_of_pyspark():
    assert "spark-sql-kafka-0-10_2.13:{pyspark.__version__}" in README
    assert "spark-sql-kafka-0-10_2.13:{pyspark.__version__}" in (ROOT / "examples/spark/square.py").read_text()


def test_the_docs_list_the_apis_that_have_a_file():
    files = (ROOT / "pykbroker" / "apis").rglob("[!_]*.py")
    opening = re.compile(r'^(?:"""|    # )(\w+) \((\d+)\), v([\d-]+)[: ]', re.MULTILINE)
    served = sorted(
        (key, name, versions) for path in files for name, key, versions in opening.findall(path.read_text())
    )
    assert sorted(re.findall(r"^\| (\d+) \| (\w+) \| ([\d-]+) \|", page("apis"), re.MULTILINE)) == served


def test_the_docs_list_the_configs_that_nothing_reads():
    listed = set(re.findall(r"^\| `([a-z._]+)` \|", page("configs").partition("without effect")[2], re.MULTILINE))
    known = {*BROKER, *TOPIC, *GROUP, *BROKER_QUOTAS}
    documented = {name for name in known if DOCS[name].startswith(NO_EFFECT)}
    read = {*filter(is_read, known), *NAMED, *OF_LISTENERS, *OF_TLS}
    assert sorted(documented & read) == [], "the code reads these configs now: move them to USED in core/config/docs.py"
    assert sorted(known - read - documented) == [], (
        "no code reads these configs: move them to UNUSED in core/config/docs.py"
    )
    assert listed == set(UNUSED)


def test_every_attribute_of_the_broker_config_is_read():
    attributes = {name for name, value in vars(BrokerConfig).items() if isinstance(value, Setting)}
    assert sorted(attributes - ATTRIBUTES) == [], (
        "no code reads these attributes: remove them from core/config/config.py"
    )


def page(name: str) -> str:
    """Return the text of a page in `docs/`."""
    return (ROOT / "docs" / f"{name}.md").read_text()


def is_read(config: str) -> bool:
    """Whether the code reads the config or the topic config that defaults to it, as an attribute or by its name."""
    topics = [topic for topic, under in TOPIC_SYNONYMS.items() if config in under and topic != config]
    attribute = config.replace(".", "_")
    return attribute in ATTRIBUTES or not NAMES.isdisjoint((config, attribute)) or any(map(is_read, topics))
