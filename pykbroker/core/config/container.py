"""The variables with which compose files configure an image of Kafka: Apache's, Confluent's, bitnami's, wurstmeister's.

1. KAFKA_NUM_PARTITIONS, and bitnami's KAFKA_CFG_NUM_PARTITIONS, set num.partitions.
2. CLUSTER_ID, and bitnami's KAFKA_KRAFT_CLUSTER_ID, are the id of the cluster.
3. wurstmeister's KAFKA_CREATE_TOPICS creates topics, and its KAFKA_ADVERTISED_HOST_NAME is an advertised listener.
4. Variables for a JVM, for scripts, and for a service named kafka (set by Kubernetes) have no effect.
5. Every other variable counts as a config. If there is none of that name, a warning names the variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pykbroker.core.address import parse_address
from pykbroker.core.cluster_id import RequiredClusterId, required_cluster_id
from pykbroker.core.config.config import known
from pykbroker.core.config.environment import EnvironmentConfigs, config_name, own_configs
from pykbroker.core.config.listeners import ADVERTISED, LISTENERS, PLAINTEXT
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.names import check_topic_name
from pykbroker.core.new_topic import PARTITIONS_MAX, REPLICAS_MAX, NewTopic

PREFIX, BITNAMI_PREFIX = "KAFKA_", "KAFKA_CFG_"
CLUSTER_IDS = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
CREATE_TOPICS, SEPARATORS = "KAFKA_CREATE_TOPICS", "KAFKA_CREATE_TOPICS_SEPARATOR"
HOST, PORT = "KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_PORT"
DEFAULT_PORT = "9092"
ENABLE_KRAFT = "KAFKA_ENABLE_KRAFT"
WITH_A_MEANING = {*CLUSTER_IDS, CREATE_TOPICS, SEPARATORS, HOST, PORT, ENABLE_KRAFT}
PASSED_OVER = re.compile(
    "KAFKA_(VERSION|HEAP_OPTS|OPTS|LOG4J_.*|TOOLS_LOG4J_.*|JMX_.*|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS"
    r"|SERVICE_(HOST|PORT.*)|PORT(_[0-9]+_.*)?)|BITNAMI_DEBUG|ALLOW_PLAINTEXT_LISTENER"
)
OF_IMAGE = "log.dirs"
"""The config that the image of `docker/Dockerfile` sets itself, by a variable without bitnami's prefix."""
ENTRY = re.compile(
    r"(?P<name>[^:]*):(?P<partitions>[1-9][0-9]{0,9}):(?P<replicas>[1-9][0-9]{0,9})"
    r"(:(?P<policy>(compact|delete)(,(compact|delete))*)?)?"
)
TOPIC_FORM = "NAME:PARTITIONS:REPLICAS or NAME:PARTITIONS:REPLICAS:POLICY, such as orders:3:1 or orders:1:1:compact"


def container_configs(environ: Mapping[str, str]) -> EnvironmentConfigs:
    """Return the configs, the cluster id and the topics in the variables. StartError: they contradict each other.

    PYKBROKER_* variables take precedence.
    """
    variables = _variables(environ)
    texts = {name: environ[variable] for name, variable in variables.items()}
    for name in (LISTENERS, ADVERTISED):  # an empty variable names no listener, as in the images
        if name in texts and not texts[name].strip():
            del texts[name], variables[name]
    if environ.get(HOST, "").strip() and ADVERTISED not in texts:
        texts[ADVERTISED], variables[ADVERTISED] = _advertised(environ), HOST
    own = own_configs(environ)
    return EnvironmentConfigs(
        {**texts, **own.texts},
        {**variables, **own.variables},
        tuple(sorted(filter(PASSED_OVER.fullmatch, environ))),
        _cluster_id(environ),
        created_topics(environ.get(CREATE_TOPICS, ""), environ.get(SEPARATORS) or ","),
        tuple(_warnings(environ)),
    )


def created_topics(text: str, separators: str = ",") -> tuple[NewTopic, ...]:
    """Return the topics of KAFKA_CREATE_TOPICS. Each character of `separators` separates topics. Raise StartError."""
    topics: dict[str, NewTopic] = {}
    for entry in filter(None, map(str.strip, re.split(f"[{re.escape(separators)}]", text))):
        topic = _topic(entry)
        if topic.name in topics:
            raise StartError(f"{CREATE_TOPICS} has the topic {topic.name} twice: remove one of them")
        topics[topic.name] = topic
    return tuple(topics.values())


def _topic(entry: str) -> NewTopic:
    form = ENTRY.fullmatch(entry)
    if form is None or int(form["partitions"]) > PARTITIONS_MAX or int(form["replicas"]) > REPLICAS_MAX:
        raise StartError(f"{CREATE_TOPICS}: {entry!r} is not {TOPIC_FORM}")
    try:
        check_topic_name(form["name"])
    except ApiError as error:
        raise StartError(f"{CREATE_TOPICS}: {entry!r}: {error}: write another name") from None
    configs = {"cleanup.policy": form["policy"]} if form["policy"] else {}
    return NewTopic(form["name"], int(form["partitions"]), configs, int(form["replicas"]), CREATE_TOPICS)


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable of each config."""
    found: dict[str, str] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in WITH_A_MEANING or PASSED_OVER.fullmatch(variable):
            continue
        prefix = BITNAMI_PREFIX if variable.startswith(BITNAMI_PREFIX) else PREFIX
        name = config_name(variable.removeprefix(prefix))
        other = found.setdefault(name, variable)
        if environ[other] != environ[variable] and known(name) and name != OF_IMAGE:
            raise StartError(f"{other} and {variable} have different values: remove one of them")
        if prefix == BITNAMI_PREFIX:
            found[name] = variable
    return found


def _advertised(environ: Mapping[str, str]) -> str:
    host, port = environ[HOST].strip(), environ.get(PORT, "").strip() or DEFAULT_PORT
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    try:
        return f"{PLAINTEXT}://{parse_address(f'{host}:{port}')}"
    except ValueError as error:
        raise StartError(f"{HOST} and {PORT}: {error}") from None


def _cluster_id(environ: Mapping[str, str]) -> RequiredClusterId | None:
    """Return the id that the variables require, or None. An empty variable requires none."""
    required = [required_cluster_id(environ[source], source) for source in CLUSTER_IDS if environ.get(source)]
    if len({text for text, _ in required}) > 1:
        raise StartError(f"{' and '.join(CLUSTER_IDS)} have different values: remove one of them")
    return required[0] if required else None


def _warnings(environ: Mapping[str, str]) -> Iterator[str]:
    if environ.get(ENABLE_KRAFT, "").strip().lower() in ("no", "false", "0"):
        yield f"{ENABLE_KRAFT}: there is no ZooKeeper mode, as in Kafka 4. The variable has no effect."
    if environ.get(PORT) and not environ.get(HOST, "").strip():
        yield f"{PORT} has no effect without {HOST}."
