"""kafka-storage: makes cluster ids, and formats log directories before the first start of a broker."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.kafka_tools.options import Given, InvalidCommandLine, Option, Tool

if TYPE_CHECKING:
    from pykbroker.core.metadata.record import Record
    from pykbroker.core.settings import Settings
    from pykbroker.quorum.identity import Voter

COMMANDS = ("random-uuid", "format", "info")
ONE_CONTROLLER = "a new node is its own controller: write --standalone, or leave it out"
ONE_LEVEL = "a directory is always formatted for Kafka 4.3: leave it out"
OPTIONS = (
    Option("config", "FILE", "-c"),
    Option("cluster-id", "ID", "-t"),
    Option("ignore-formatted", "", "-g"),
    Option("standalone", "", "-s"),
    Option("no-initial-controllers", "", "-N"),
    Option("initial-controllers", "LIST", "-I", is_repeatable=True, missing=ONE_CONTROLLER),
    Option("release-version", "VERSION", "-r", is_repeatable=True, missing=ONE_LEVEL),
    Option("feature", "FEATURE=LEVEL", "-f", is_repeatable=True, missing=ONE_LEVEL),
    Option("add-scram", "CREDENTIAL", "-S", is_repeatable=True),
)


def run(given: Given) -> int:
    """Carry out the command that the first word names."""
    from pykbroker.core.errors import StartError

    command = given.words[0] if given.words else ""
    if command not in COMMANDS:
        raise InvalidCommandLine(f"kafka-storage: {command!r} is none of {', '.join(COMMANDS)}")
    if extra := given.words[1:]:
        raise InvalidCommandLine(f"kafka-storage {command} takes options only, and not {extra[0]!r}")
    try:
        return {"random-uuid": random_uuid, "format": format_directories, "info": info}[command](given)
    except StartError as error:
        raise click.ClickException(str(error)) from None


def random_uuid(given: Given) -> int:
    """Print a new cluster id."""
    import random

    from pykbroker.core.ids import id_text, new_id

    print(id_text(new_id(random.SystemRandom())))
    return 0


def format_directories(given: Given) -> int:
    """Write the cluster id and the first metadata to the log directories of a config file.

    A broker that starts on them belongs to that cluster.
    """
    given.require("config", "cluster-id")
    if "standalone" in given and "no-initial-controllers" in given:
        raise InvalidCommandLine("--no-initial-controllers is not allowed with --standalone")
    settings = settings_of(given)
    if "standalone" in given and settings.quorum:
        raise InvalidCommandLine("You cannot use --standalone on a broker node.")
    done = [path for path in settings.data_dirs if is_formatted(path)]
    if done and "ignore-formatted" not in given:
        raise click.ClickException(
            f"Log directory {done[0]} is already formatted. Use --ignore-formatted to ignore this directory and format"
            " the others."
        )
    cluster_id = given.text("cluster-id").strip()
    if not cluster_id:
        raise InvalidCommandLine("--cluster-id is empty: write the output of kafka-storage random-uuid")
    credentials = scram_credentials(given.all("add-scram"))
    prepare_directories(settings, cluster_id, voter_of(settings) if "standalone" in given else None, credentials)
    if len(done) == len(settings.data_dirs):
        print("All of the log directories are already formatted.")
    for path in settings.data_dirs:
        if path not in done:
            print(f"Formatting {path} for the cluster {cluster_id}.")
    return 0


def settings_of(given: Given) -> Settings:
    """Return the settings of the config file. StartError or click.ClickException: the file is invalid."""
    from pykbroker.cli.start.options import Options

    return Options(file=given.text("config")).settings()


def voter_of(settings: Settings) -> Voter:
    """Return the only voter of a new cluster, with the addresses that the config file advertises for its controller."""
    from pykbroker.core.metadata.image import Endpoint
    from pykbroker.quorum.identity import Voter

    places = [(each, each.advertised or each.address) for each in settings.listeners_of_controller]
    return Voter(tuple(Endpoint(each.name, *place, each.protocol) for each, place in places))


def scram_credentials(options: Sequence[str]) -> list[Record]:
    """Return the records of the credentials of new users. InvalidCommandLine: an option is none."""
    import random

    from pykbroker.core.security.sasl.scram import NONCE_BITS, base36
    from pykbroker.core.security.sasl.scram_option import parse_scram_option

    rng = random.SystemRandom()
    try:
        return [parse_scram_option(option, lambda: base36(rng.getrandbits(NONCE_BITS)).encode()) for option in options]
    except ValueError as error:
        raise InvalidCommandLine(f"--add-scram: {error}") from None


def prepare_directories(
    settings: Settings, cluster_id: str, voter: Voter | None, first_records: Sequence[Record]
) -> None:
    """Format the empty log directories. StartError: one belongs to another cluster or node, or holds other files."""
    import trio

    from pykbroker.quorum.identity import prepare
    from pykbroker.world.system import system_world

    world = system_world(settings.data_dirs)

    async def work() -> None:
        await prepare(
            world.disks,
            settings.config.node_id,
            world.rng,
            world.wall_ms(),
            cluster_id,
            voter,
            is_controller=not settings.quorum,
            first_records=first_records,
        )

    trio.run(work)


def info(given: Given) -> int:
    """Print the log directories of a config file, and the identity in them. Return 1 if one is not formatted."""
    given.require("config")
    directories = sorted(settings_of(given).data_dirs)
    found = [path for path in directories if os.path.isdir(path)]
    formatted = [path for path in found if is_formatted(path)]
    problems = [f"{path} is not formatted." for path in found if path not in formatted]
    problems += [f"{path} does not exist" for path in directories if path not in found]
    show("Found log directory:", "Found log directories:", found)
    identities = [identity(path) for path in formatted]
    for each in identities[:1]:
        print("Found metadata: {" + ", ".join(f"{name}={each[name]}" for name in sorted(each)) + "}\n")
    for name, what in (("cluster.id", "cluster IDs"), ("node.id", "node IDs")):
        if len({each.get(name) for each in identities}) > 1:
            problems.append(f"Mismatched {what} between storage directories.")
    show("Found problem:", "Found problems:", problems)
    return 1 if problems else 0


def show(one: str, many: str, lines: Sequence[str]) -> None:
    """Print lines below a heading, or nothing if there are none."""
    if lines:
        print(one if len(lines) == 1 else many, *(f"  {line}" for line in lines), "", sep="\n")


def identity(path: str) -> Mapping[str, str]:
    """Return the properties that formatting has written to a log directory."""
    from pykbroker.storage.files.meta_properties import NAME, properties

    with open(f"{path}/{NAME}", "rb") as file:
        return properties(file.read())


def is_formatted(path: str) -> bool:
    """Whether a log directory has the file that formatting writes last."""
    from pykbroker.storage.files.meta_properties import NAME

    return os.path.exists(os.path.join(path, NAME))


TOOL = Tool("kafka-storage", "The Kafka storage tool: random-uuid, format or info.", OPTIONS, run)
