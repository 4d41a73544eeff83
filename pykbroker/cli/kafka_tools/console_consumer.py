"""kafka-console-consumer: prints the records of topics, as `pykbroker consume` does.

Without --group, the partitions are read without a group, so that none is left behind.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.kafka_tools.connection import REACH_S_MAX, bootstrap, file_properties, reach, security_of
from pykbroker.cli.kafka_tools.options import CONNECTION, Given, InvalidCommandLine, Option, Tool, missing, pairs
from pykbroker.cli.kafka_tools.properties import client_settings, warn
from pykbroker.cli.records.read_range import BEGINNING, END

if TYPE_CHECKING:
    from pykbroker.cli.interruption import Interruption
    from pykbroker.cli.kafka_tools.console_format import ConsoleFormat
    from pykbroker.cli.records.read_plan import ReadPlan
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.security import ClientSecurity
    from pykbroker.core.address import Address
    from pykbroker.core.consumer.records import FetchedColumns
    from pykbroker.core.topic_partition import TopicPartition

REACH_S_MIN = 1
LOOK_UP_MS_MAX = 30_000
LOOK_UP_S = 0.2
PARTITION_MAX = 2**31 - 1
EARLIEST, LATEST = "earliest", "latest"
FORMATTERS = {"DefaultMessageFormatter": False, "NoOpMessageFormatter": True}
"""The formatters of Kafka that are translated -> whether they print nothing."""
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
    Option("formatter", "CLASS"),
    *missing("it serves tests of Kafka itself: leave it out", "enable-systest-events"),
)
LEVELS = ("read_uncommitted", "read_committed")
RESETS = {"earliest": BEGINNING, "latest": END}
"""The values of auto.offset.reset -> where to begin without a group."""


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
    start_of(given, settings)
    timeout_s = given.number("timeout-ms", -1) / 1000
    reach(
        servers, min(REACH_S_MAX, max(timeout_s, REACH_S_MIN)) if timeout_s >= 0 else REACH_S_MAX, security_of(settings)
    )
    printing = Printing(given, form, timeout_s)
    try:
        with warning_lines():
            failing_as_sentence(lambda: trio.run(printing.run, servers, settings), ConsumerError, click.ClickException)
    finally:
        print(f"Processed a total of {printing.count} messages", file=sys.stderr)
    return printing.exit_code


def check(given: Given) -> None:
    """Raise InvalidCommandLine if options contradict each other."""
    if "offset" in given and "partition" not in given:
        raise InvalidCommandLine("The partition is required when offset is specified.")
    if "offset" in given and "from-beginning" in given:
        raise InvalidCommandLine("Options from-beginning and offset cannot be specified together.")
    if "partition" in given and "topic" not in given:
        raise InvalidCommandLine("The topic is required when partition is specified.")
    if given.text("isolation-level", LEVELS[0]) not in LEVELS:
        raise InvalidCommandLine(f"--isolation-level must be one of {', '.join(LEVELS)}")
    given.number("max-messages", -1)
    given.number("partition", 0, 0, PARTITION_MAX)
    included(given.text("include"))
    for one, other in (("consumer-property", "command-property"), ("consumer.config", "command-config")):
        if one in given and other in given:
            raise InvalidCommandLine(f"Options --{one} and --{other} cannot be specified together.")
    if formatter_of(given) not in FORMATTERS:
        raise InvalidCommandLine(
            f"--formatter {formatter_of(given)} is not translated: leave it out, or use `pykbroker consume --format`"
        )


def formatter_of(given: Given) -> str:
    """Return the name of the formatter without its package."""
    return given.text("formatter", "DefaultMessageFormatter").rpartition(".")[2]


def console_format(given: Given) -> ConsoleFormat:
    """Return the format that properties and deserializers describe. InvalidCommandLine: a deserializer is unknown."""
    from pykbroker.cli.kafka_tools.console_format import parsed_format

    texts = file_properties(given, "formatter-config")
    texts |= pairs(given.all("property", "formatter-property"), "property")
    names = ("key-deserializer", "value-deserializer")
    return parsed_format(texts | {name.replace("-", "."): given.text(name) for name in names if name in given})


def settings_of(given: Given) -> dict[str, Any]:
    """Return the settings of the consumer. InvalidCommandLine: they contradict the options, or are wrong."""
    from pykbroker.consumer.settings import ConsumerSettings

    files = file_properties(given, "command-config", "consumer.config")
    properties = pairs(given.all("consumer-property", "command-property"), "consumer-property")
    settings = client_settings(files | properties, ConsumerSettings)
    settings.pop("bootstrap_servers", None)
    groups = {*given.all("group"), *(found["group.id"] for found in (files, properties) if "group.id" in found)}
    if len(groups) > 1:
        raise InvalidCommandLine(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via"
            f" '--consumer.config') do not match. Detected group ids: {', '.join(map(repr, sorted(groups)))}"
        )
    if groups and "partition" in given:
        raise InvalidCommandLine("Options group and partition cannot be specified together.")
    if groups:
        (settings["group_id"],) = groups
    reset = settings.get("auto_offset_reset", EARLIEST)
    if "from-beginning" in given and reset != EARLIEST:
        raise InvalidCommandLine(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    return {
        "client_id": "console-consumer",
        "auto_offset_reset": EARLIEST if "from-beginning" in given else LATEST,
        "isolation_level": given.text("isolation-level", LEVELS[0]),
        "default_api_timeout_ms": LOOK_UP_MS_MAX,
        **settings,
    }


class Printing:
    """One run: the number of printed records, and the exit code."""

    def __init__(self, given: Given, form: ConsoleFormat, timeout_s: float) -> None:
        self._given, self._form, self._timeout_s = given, form, timeout_s
        self._is_silent = FORMATTERS[formatter_of(given)]
        self.count, self.exit_code = 0, 0
        self._last_at = 0.0

    async def run(self, servers: tuple[Address, ...], settings: dict[str, Any]) -> None:
        """Print the records of the plan of the command line."""
        import trio

        from pykbroker.cli.interruption import interruptible
        from pykbroker.cli.records.read_range import InvalidStart
        from pykbroker.cli.records.reader import Reader
        from pykbroker.cli.signals import SIGNAL_EXIT_CODE
        from pykbroker.consumer import Consumer

        self._last_at = trio.current_time()
        async with interruptible() as interruption, trio.open_nursery() as nursery:
            if self._timeout_s >= 0:
                nursery.start_soon(self._stop_when_idle, interruption)
            plan = None
            with interruption.cancels():
                plan = await plan_of(self._given, servers, settings)
            if plan is not None:
                async with Consumer(**plan.settings) as consumer:
                    try:
                        await Reader(consumer, plan, self._take, interruption).run()
                    except InvalidStart:
                        plan = plan._replace(start=reset_of(settings))
                        offset = self._given.text("offset")
                        warn(f"the offset {offset} is after the end of the log: reading starts at its {plan.start}")
                        await Reader(consumer, plan, self._take, interruption).run()
            nursery.cancel_scope.cancel()
        if interruption.signal is not None:
            self.exit_code = SIGNAL_EXIT_CODE + interruption.signal

    async def _take(self, parts: list[FetchedColumns]) -> None:
        """Print records. click.ClickException: a deserializer cannot read one, and errors are not skipped."""
        import trio

        for part in parts:
            for count, output in [(len(part), b"")] if self._is_silent else self._form.pieces(part):
                self.count += count
                if isinstance(output, bytes):
                    await trio.to_thread.run_sync(write, output)
                elif "skip-message-on-error" in self._given:
                    warn(str(output))
                else:
                    raise click.ClickException(str(output))
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

    partitions = await partitions_of(given, servers, security_of(settings))
    count = given.number("max-messages", -1)
    return ReadPlan(
        topics=list(dict.fromkeys(each.topic for each in partitions)),
        partitions=partitions,
        start=start_of(given, settings),
        stop=None,
        records_max=count if count >= 0 else None,
        follows=True,
        group=settings.get("group_id"),
        settings={"bootstrap_servers": named(servers), **settings},
    )


def start_of(given: Given, settings: Mapping[str, Any]) -> int | str:
    """Return where to begin without a group. InvalidCommandLine: --offset or auto.offset.reset is invalid."""
    if "offset" not in given:
        return reset_of(settings) if "partition" not in given or "from-beginning" in given else END
    text = given.text("offset")
    if text in RESETS:
        return RESETS[text]
    if not (text.isascii() and text.isdigit()):
        raise InvalidCommandLine(
            f"The offset '{text}' is incorrect. Valid values are 'earliest', 'latest', or a number from 0 on"
        )
    return int(text)


def reset_of(settings: Mapping[str, Any]) -> str:
    """Return where auto.offset.reset begins. InvalidCommandLine: it is neither earliest nor latest, without a group."""
    reset = settings["auto_offset_reset"]
    if reset not in RESETS and "group_id" not in settings:
        raise InvalidCommandLine(f"auto.offset.reset={reset} is not translated: use {' or '.join(RESETS)}")
    return RESETS.get(reset, END)


async def partitions_of(given: Given, servers: tuple[Address, ...], security: ClientSecurity) -> list[TopicPartition]:
    """Return the partitions to read. Wait for a topic that does not exist yet.

    As with Kafka's tool, the broker creates the topic if auto.create.topics.enable permits it.
    """
    import trio

    from pykbroker.cli.ask import converse

    found: list[TopicPartition] = []

    async def look(admin: Admin) -> None:
        found.extend(await existing(admin, given))

    while True:
        await converse(servers, look, security)
        if found:
            return found
        await trio.sleep(LOOK_UP_S)


async def existing(admin: Admin, given: Given) -> list[TopicPartition]:
    """Return the partitions of the topics that exist now. click.ClickException: the partition does not exist."""
    from pykbroker.cli.records.existing_partition import lacking
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
            raise click.ClickException(lacking(name, len(indexes), wanted))
        indexes = [wanted]
    return [TopicPartition(name, index) for index in indexes]


def included(text: str) -> re.Pattern[str]:
    """Return the pattern of --include. InvalidCommandLine: it is invalid."""
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidCommandLine(f"--include {text} is not a regular expression: {error}") from None


TOOL = Tool(
    "kafka-console-consumer",
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    OPTIONS,
    run,
)
