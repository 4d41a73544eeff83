"""The entry point of Kafka's tools: `python -m pykbroker.cli.kafka_tools kafka-topics --list ...`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import cast

import click

from pykbroker.cli.kafka_tools.options import KAFKA_VERSION, InvalidCommandLine, Tool, parsed, usage

TOOLS = {
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-producer": "console_producer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-storage": "storage",
    "kafka-topics": "topics",
}
"""The module of each tool, which has it as TOOL. The scripts of the image have these names."""


def tool_named(name: str) -> Tool:
    """Return a tool by the name of its script, with or without .sh. InvalidCommandLine: there is no such tool."""
    bare = name.removesuffix(".sh")
    if bare not in TOOLS:
        raise InvalidCommandLine(f"{name!r} is none of {', '.join(TOOLS)}")
    return cast("Tool", import_module(f"pykbroker.cli.kafka_tools.{TOOLS[bare]}").TOOL)


def main(words: Sequence[str] | None = None) -> int:
    """Run the tool that the first word names, and return its exit code."""
    name, *rest = (sys.argv[1:] if words is None else words) or [""]
    try:
        tool = tool_named(name)
    except InvalidCommandLine as error:
        print(error, file=sys.stderr)
        return 1
    try:
        given = parsed(tool, rest)
        if not rest or "help" in given:
            print(usage(tool), file=sys.stderr)
            return 1
        if "version" in given:
            print(KAFKA_VERSION)
            return 0
        return tool.run(given)
    except InvalidCommandLine as error:
        print(error, file=sys.stderr)
        return 1
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        print(tool.failure + error.message, file=sys.stdout if tool.fails_on_stdout else sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output has gone, as in `kafka-topics --list | head -1`
        return 1


if __name__ == "__main__":
    sys.exit(main())
