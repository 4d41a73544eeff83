"""kafka-console-consumer: prints the records of topics, as `pykbroker consume` does.

Without --group, the partitions are read without a group, so that none is left behind.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.kafka_tools.connection import bootstrap, check_security, client_properties, reach
from pykbroker.cli.kafka_tools.options import (
    CONNECTION,
    Given,
    InvalidCommandLine,
    Option,
    Tool,
    missing,
    pairs,
    topic_pattern,
)

if TYPE_CHECKING:
    from pykbroker.cli.interruption import Interruption
    from pykbroker.cli.kafka_tools.console_format import ConsoleFormat
    from pykbroker.cli.records.read_plan import ReadPlan
    from pykbroker.client.admin import Admin
    from pykbroker.core.address import Address
    from pykbroker.core.consumer.records import FetchedColumns
    from pykbroker.core.topic_partition import TopicPartition

LOOK_UP_MS_MAX = 30_000
LOOK_UP_S = 0.2
PARTITION_MAX = 2**31 - 1
EARLIEST, LATEST = "earliest", "latest"
AS_TEXT = "records are printed as text: leave it out, or use `pykbroker consume --format`"
OPTIONS = (
    *CONNECTION,
    Option("topic", "TOPIC"),
    Option("include", "PATTERN"),
    Option("from-beginning"),
    Option("max-messages", "COUNT"),
    Option("timeout-ms", "MS"),
    Option("group", "GROUP"),
    Option("partition", "PARTITION"),
    Option("offset", "OFFSET"),
    Option("isolation-level", "LEVEL"),
    *(Option(name, "NAME=VALUE", is_repeatable=True) for name in ("property", "formatter-property")),
    *(Option(name, "NAME=VALUE", is_repeatable=True) for name in ("consumer-property", "command-property")),
    *(Option(name, "FILE") for name in ("consumer.config", "formatter-config")),
    *(Option(name, "CLASS") for name in ("key-deserializer", "value-deserializer")),
    Option("skip-message-on-error"),
    *missing(AS_TEXT, "formatter", takes="CLASS"),
    *missing("it serves tests of Kafka itself: leave it out", "enable-systest-events"),
)
LEVELS = ("read_uncommitted", "read_committed")
DESERIALIZERS = ("StringDeserializer", "ByteArrayDeserializer")


def run(given: Given) -> int:
    """Print records until Ctrl-C, --max-messages or --timeout-ms. As in Kafka, the end of the time is no failure."""
    import trio

    from pykbroker.cli.client_failures import failing_as_sentence
    from pykbroker.cli.client_warnings import warning_lines
    from pykbroker.core.consumer.errors import ConsumerError

    given.only_one(("topic", "include"), "Exactly one of the following arguments is required: [topic], [include]")
    check(given)
    servers = bootstrap(given)
    form, settings = console_format(given), settings_of(given)
    timeout_s = given.number("timeout-ms", -1) / 1000
    reach(servers)
    printing = Printing(form, timeout_s)
    try:
        with warning_lines():
            failing_as_sentence(
                lambda: trio.run(printing.run, given, servers, settings), ConsumerError, click.ClickException
            )
    finally:
        print(f"Processed a total of {printing.count} messages", file=sys.stderr)
    return printing.exit_code


def check(given: Given) -> None:
    """Raise InvalidCommandLine if options contradict each other."""
    if "offset" in given and "partition" not in given:
        raise InvalidCommandLine("The partition is required when offset is specified.")
    if "offset" in given and "from-beginning" in given:
        raise InvalidCommandLine("Options from-beginning and offset cannot be specified together.")
    if "partition" in given and "group" in given:
        raise InvalidCommandLine("Options group and partition cannot be specified together.")
    if "partition" in given and "topic" not in given:
        raise InvalidCommandLine("The topic is required when partition is specified.")
    if given.text("isolation-level", LEVELS[0]) not in LEVELS:
        raise InvalidCommandLine(f"--isolation-level must be one of {', '.join(LEVELS)}")
    start_of(given)
    given.number("max-messages", -1)
    given.number("partition", 0, 0, PARTITION_MAX)
    included(given.text("include"))
    for name in ("key-deserializer", "value-deserializer"):
        if name in given and given.text(name).rpartition(".")[2] not in DESERIALIZERS:
            raise InvalidCommandLine(f"--{name} {given.text(name)} is not translated: {AS_TEXT}")


def console_format(given: Given) -> ConsoleFormat:
    """Return the format that --property and --formatter-property describe. InvalidCommandLine: one is unknown."""
    from pykbroker.cli.kafka_tools.console_format import parsed_format

    texts = client_properties(given, "formatter-config")
    return parsed_format(texts | pairs(given.all("property", "formatter-property"), "property"))


def settings_of(given: Given) -> dict[str, Any]:
    """Return the settings of the consumer. InvalidCommandLine: they ask for SASL or TLS."""
    texts = client_properties(given, "command-config", "consumer.config")
    texts |= pairs(given.all("consumer-property", "command-property"), "consumer-property")
    check_security(texts)
    settings: dict[str, Any] = {name.replace(".", "_"): value for name, value in texts.items()}
    for name in ("bootstrap_servers", "security_protocol", "key_deserializer", "value_deserializer"):
        settings.pop(name, None)
    if "group" in given:
        settings["group_id"] = given.text("group")
    return {
        "client_id": "console-consumer",
        "auto_offset_reset": EARLIEST if "from-beginning" in given else LATEST,
        "isolation_level": given.text("isolation-level", LEVELS[0]),
        "default_api_timeout_ms": LOOK_UP_MS_MAX,
        **settings,
    }


class Printing:
    """One run: the number of printed records, and the exit code."""

    def __init__(self, form: ConsoleFormat, timeout_s: float) -> None:
        self._form, self._timeout_s = form, timeout_s
        self.count, self.exit_code = 0, 0
        self._last_at = 0.0

    async def run(self, given: Given, servers: tuple[Address, ...], settings: dict[str, Any]) -> None:
        """Print the records of the plan of a command line."""
        import trio

        from pykbroker.cli.interruption import interruptible
        from pykbroker.cli.records.reader import Reader
        from pykbroker.cli.signals import SIGNAL_EXIT_CODE
        from pykbroker.consumer import Consumer

        self._last_at = trio.current_time()
        async with interruptible() as interruption, trio.open_nursery() as nursery:
            if self._timeout_s >= 0:
                nursery.start_soon(self._stop_when_idle, interruption)
            plan = None
            with interruption.cancels():
                plan = await plan_of(given, servers, settings)
            if plan is not None:
                async with Consumer(**plan.settings) as consumer:
                    await Reader(consumer, plan, self._take, interruption).run()
            nursery.cancel_scope.cancel()
        if interruption.signal is not None:
            self.exit_code = SIGNAL_EXIT_CODE + interruption.signal

    async def _take(self, parts: list[FetchedColumns]) -> None:
        import trio

        await trio.to_thread.run_sync(write, b"".join(map(self._form.formatted, parts)))
        self.count += sum(map(len, parts))
        self._last_at = trio.current_time()

    async def _stop_when_idle(self, interruption: Interruption) -> None:
        """Stop the run once no record has come for the time of --timeout-ms."""
        import trio

        while trio.current_time() < self._last_at + self._timeout_s:  # noqa: ASYNC110 - a record moves the end
            await trio.sleep_until(self._last_at + self._timeout_s)
        interruption.stop()


def write(data: bytes) -> None:
    """Write to the standard output at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


async def plan_of(given: Given, servers: tuple[Address, ...], settings: dict[str, Any]) -> ReadPlan:
    """Return the partitions to read and where to begin. click.ClickException: a partition does not exist."""
    from pykbroker.cli.ask import named
    from pykbroker.cli.records.read_plan import ReadPlan

    partitions = await partitions_of(given, servers)
    count = given.number("max-messages", -1)
    return ReadPlan(
        topics=list(dict.fromkeys(each.topic for each in partitions)),
        partitions=partitions,
        start=start_of(given),
        stop=None,
        records_max=count if count >= 0 else None,
        follows=True,
        group=settings.get("group_id"),
        settings={"bootstrap_servers": named(servers), **settings},
    )


def start_of(given: Given) -> int | str:
    """Return where to begin without a group. InvalidCommandLine: --offset is invalid."""
    from pykbroker.cli.records.read_range import BEGINNING, END

    text = given.text("offset", EARLIEST if "from-beginning" in given else LATEST)
    if text in (EARLIEST, LATEST):
        return BEGINNING if text == EARLIEST else END
    if not (text.isascii() and text.isdigit()):
        raise InvalidCommandLine(
            f"The offset '{text}' is incorrect. Valid values are 'earliest', 'latest', or a number from 0 on"
        )
    return int(text)


async def partitions_of(given: Given, servers: tuple[Address, ...]) -> list[TopicPartition]:
    """Return the partitions to read. Wait for a topic that does not exist yet.

    As with Kafka's tool, the broker creates the topic if auto.create.topics.enable permits it.
    """
    import trio

    from pykbroker.cli.ask import converse

    found: list[TopicPartition] = []

    async def look(admin: Admin) -> None:
        found.extend(await existing(admin, given))

    while True:
        await converse(servers, look)
        if found:
            return found
        await trio.sleep(LOOK_UP_S)


async def existing(admin: Admin, given: Given) -> list[TopicPartition]:
    """Return the partitions of the topics that exist now. click.ClickException: the partition does not exist."""
    from pykbroker.core.topic_partition import TopicPartition
    from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    if "include" in given:
        pattern = included(given.text("include"))
        topics = [each for each in await admin.topics() if pattern.fullmatch(each.name) and not each.internal]
        return [TopicPartition(each.name, part.partition_index) for each in topics for part in each.partitions]
    name = given.text("topic")
    answer = await admin.connection.ask(MetadataRequest([MetadataRequestTopic(name=name)]))
    indexes = sorted(part.partition_index for each in answer.topics if not each.error_code for part in each.partitions)
    if indexes and "partition" in given:
        wanted = given.number("partition", 0, 0, PARTITION_MAX)
        if wanted not in indexes:
            raise click.ClickException(f"topic '{name}' has {len(indexes)} partitions and no partition {wanted}")
        indexes = [wanted]
    return [TopicPartition(name, index) for index in indexes]


def included(text: str) -> re.Pattern[str]:
    """Return the pattern of --include, in which a comma separates alternatives. InvalidCommandLine: it is invalid."""
    try:
        return topic_pattern(text)
    except re.error as error:
        raise InvalidCommandLine(f"--include {text} is not a regular expression: {error}") from None


TOOL = Tool(
    "kafka-console-consumer",
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    OPTIONS,
    run,
)
