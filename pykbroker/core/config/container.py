"""The variables with which compose files configure an image of Kafka.

The images are those of Apache, Confluent, bitnami, wurstmeister and Debezium.

1. KAFKA_NUM_PARTITIONS, and bitnami's KAFKA_CFG_NUM_PARTITIONS, set num.partitions. Debezium's NODE_ID sets node.id.
2. CLUSTER_ID, and bitnami's KAFKA_KRAFT_CLUSTER_ID, are the id of the cluster.
3. wurstmeister's KAFKA_CREATE_TOPICS creates topics, and its KAFKA_PORT, KAFKA_ADVERTISED_HOST_NAME and
   KAFKA_ADVERTISED_PORT describe a listener. Debezium's image has the same variables without the prefix.
4. Variables for a JVM, for scripts, and for a service named kafka (set by Kubernetes) have no effect.
5. Every other variable counts as a config. If there is none of that name, a warning names the variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

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
CREATE_TOPICS, SEPARATORS = ("KAFKA_CREATE_TOPICS", "CREATE_TOPICS"), "KAFKA_CREATE_TOPICS_SEPARATOR"
HOSTS, PORTS = ("KAFKA_ADVERTISED_HOST_NAME", "ADVERTISED_HOST_NAME"), ("KAFKA_ADVERTISED_PORT", "ADVERTISED_PORT")
LISTENED, DEFAULT_PORT = "port", "9092"
"""The config of the port to listen on in old versions of Kafka, which wurstmeister's KAFKA_PORT sets; its default."""
ENABLE_KRAFT, ALLOW_PLAINTEXT = "KAFKA_ENABLE_KRAFT", "ALLOW_PLAINTEXT_LISTENER"
WITH_A_MEANING = {*CLUSTER_IDS, *CREATE_TOPICS, SEPARATORS, *HOSTS, *PORTS, ENABLE_KRAFT}
OF_DEBEZIUM = {
    "BROKER_ID": "broker.id",
    "NODE_ID": "node.id",
    "NODE_ROLE": "process.roles",
    "ZOOKEEPER_CONNECT": "zookeeper.connect",
}
COMMANDS = ("BROKER_ID_COMMAND", "HOSTNAME_COMMAND", "PORT_COMMAND", "RACK_COMMAND")
"""Variables of wurstmeister's image with commands that print a value."""
ROLES_OF_DEBEZIUM = {"combined": "broker,controller"}
OF_CONTAINER_ADDRESS = {ALLOW_PLAINTEXT, ENABLE_KRAFT, "KAFKA_ZOOKEEPER_CONNECT", *OF_DEBEZIUM}
"""Variables of images that advertise an address of their container, unless a variable names another one.

bitnami's KAFKA_CFG_* are more of them.
"""
PASSED_OVER = re.compile(
    "KAFKA_(VERSION|HEAP_OPTS|OPTS|LOG4J_.*|TOOLS_LOG4J_.*|JMX_.*|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS)"
    rf"|BITNAMI_DEBUG|{ALLOW_PLAINTEXT}"
    r"|KAFKA_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
OF_SERVICE = re.compile(r"KAFKA_(\w+_)?PORT=\w+://.*")
"""The variable that Kubernetes sets to the address of a service. A bare number in it is meant for the broker."""
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
    texts = {name: _text(environ, variable) for name, variable in variables.items()}
    for name in (LISTENERS, ADVERTISED):  # an empty variable names no listener, as in the images
        if name in texts and not texts[name].strip():
            del texts[name], variables[name]
    host, port, topics = (_one_of(environ, names) for names in (HOSTS, PORTS, CREATE_TOPICS))
    listened = DEFAULT_PORT
    if (host or LISTENED in texts) and not {LISTENERS, ADVERTISED} & {*texts}:
        listened = texts.pop(LISTENED, DEFAULT_PORT)
        texts[LISTENERS], variables[LISTENERS] = f"{PLAINTEXT}://:{listened}", variables.pop(LISTENED, host)
    if host and ADVERTISED not in texts:
        texts[ADVERTISED], variables[ADVERTISED] = _advertised(environ, host, port or PORTS[0], listened), host
    own = own_configs(environ)
    return EnvironmentConfigs(
        {**texts, **own.texts},
        {**variables, **own.variables},
        tuple(sorted(variable for variable in environ if _is_passed_over(environ, variable))),
        _cluster_id(environ),
        created_topics(environ.get(topics, ""), environ.get(SEPARATORS) or ",", topics),
        tuple(_warnings(environ, host, port)),
        any(name in OF_CONTAINER_ADDRESS or name.startswith(BITNAMI_PREFIX) for name in environ),
    )


def created_topics(text: str, separators: str = ",", source: str = CREATE_TOPICS[0]) -> tuple[NewTopic, ...]:
    """Return the topics of a variable such as KAFKA_CREATE_TOPICS. Each character of `separators` separates topics.

    Raise StartError, which names the variable `source`.
    """
    topics: dict[str, NewTopic] = {}
    for entry in filter(None, map(str.strip, re.split(f"[{re.escape(separators)}]", text))):
        topic = _topic(entry, source)
        if topic.name in topics:
            raise StartError(f"{source} has the topic {topic.name} twice: remove one of them")
        topics[topic.name] = topic
    return tuple(topics.values())


def _topic(entry: str, source: str) -> NewTopic:
    form = ENTRY.fullmatch(entry)
    if form is None or int(form["partitions"]) > PARTITIONS_MAX or int(form["replicas"]) > REPLICAS_MAX:
        raise StartError(f"{source}: {entry!r} is not {TOPIC_FORM}")
    try:
        check_topic_name(form["name"])
    except ApiError as error:
        raise StartError(f"{source}: {entry!r}: {error}: write another name") from None
    configs = {"cleanup.policy": form["policy"]} if form["policy"] else {}
    return NewTopic(form["name"], int(form["partitions"]), configs, int(form["replicas"]), source)


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable of each config."""
    found: dict[str, str] = {}
    for variable in sorted(environ):
        name = _config(environ, variable)
        if name is None:
            continue
        other = found.setdefault(name, variable)
        if _text(environ, other) != _text(environ, variable) and known(name) and name != OF_IMAGE:
            raise _different(other, variable)
        if variable.startswith(BITNAMI_PREFIX):
            found[name] = variable
    return found


def _config(environ: Mapping[str, str], variable: str) -> str | None:
    """Return the config that a variable sets, or None."""
    if variable in OF_DEBEZIUM:
        return OF_DEBEZIUM[variable]
    if not variable.startswith(PREFIX) or variable in WITH_A_MEANING or _is_passed_over(environ, variable):
        return None
    return config_name(variable.removeprefix(BITNAMI_PREFIX).removeprefix(PREFIX))


def _text(environ: Mapping[str, str], variable: str) -> str:
    """Return the value of a variable in the form of a config."""
    text = environ[variable]
    return ROLES_OF_DEBEZIUM.get(text, text) if variable in OF_DEBEZIUM else text


def _is_passed_over(environ: Mapping[str, str], variable: str) -> bool:
    return bool(PASSED_OVER.fullmatch(variable) or OF_SERVICE.fullmatch(f"{variable}={environ[variable]}"))


def _one_of(environ: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the variable of these names that has a value, or an empty string. StartError: two values differ."""
    given = [name for name in names if environ.get(name, "").strip()]
    if len({environ[name] for name in given}) > 1:
        raise _different(*given)
    return given[0] if given else ""


def _different(*variables: str) -> StartError:
    return StartError(f"{' and '.join(variables)} have different values: remove one of them")


def _advertised(environ: Mapping[str, str], host_variable: str, port_variable: str, listened: str) -> str:
    host, port = environ[host_variable].strip(), environ.get(port_variable, "").strip() or listened
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    try:
        return f"{PLAINTEXT}://{parse_address(f'{host}:{port}')}"
    except ValueError as error:
        raise StartError(f"{host_variable} and {port_variable}: {error}") from None


def _cluster_id(environ: Mapping[str, str]) -> RequiredClusterId | None:
    """Return the id that the variables require, or None. An empty variable requires none."""
    source = _one_of(environ, CLUSTER_IDS)
    return required_cluster_id(environ[source], source) if source else None


def _warnings(environ: Mapping[str, str], host: str, port: str) -> Iterator[str]:
    if environ.get(ENABLE_KRAFT, "").strip().lower() in ("no", "false", "0"):
        yield f"{ENABLE_KRAFT}: there is no ZooKeeper mode, as in Kafka 4. The variable has no effect."
    for name in filter(environ.get, COMMANDS):
        yield f"{name} has no effect, as no command is run: write the value that it prints."
    if port and not host:
        yield f"{port} has no effect without {HOSTS[PORTS.index(port)]}."
