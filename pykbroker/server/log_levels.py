"""The levels of this process's loggers, which admin clients read and change (KIP-412). A restart discards changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pykbroker.core.config.type import INTEGER
from pykbroker.core.errors import ApiError, bad_request
from pykbroker.core.metadata.alter_configs import AlterConfigOp
from wire.error_codes import ErrorCode
from wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource

TRACE = 5
LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
NAMES = {level: name for name, level in LEVELS.items()}
logging.addLevelName(TRACE, NAMES[TRACE])  # Python has no such level, and would call it "Level 5" in each line


def logger_levels() -> Iterator[tuple[str, str]]:
    """Yield (name, effective level) of each logger and of each package of loggers, the root logger first."""
    for logger in (logging.root, *map(logging.getLogger, list(logging.root.manager.loggerDict))):
        level = logger.getEffectiveLevel()
        yield logger.name, NAMES.get(level) or logging.getLevelName(level)


def alter_levels(resource: AlterConfigsResource, node_id: int, *, validate_only: bool) -> None:
    """Make all of the changes to this broker's logger levels. If one is invalid, raise ApiError and change nothing."""
    name = resource.resource_name
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise bad_request("Error due to duplicate config keys")
    if nulls := [
        one.name for one in resource.configs if one.value is None and one.config_operation != AlterConfigOp.DELETE
    ]:
        raise bad_request(f"Null value not supported for : {', '.join(nulls)}")
    if not INTEGER.fullmatch(name):
        raise bad_request(f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise bad_request(f"Unexpected node id. Expected {node_id}, but received {name}")
    for config in resource.configs:
        check_change(config)
    for config in resource.configs if not validate_only else ():
        deleted = config.config_operation == AlterConfigOp.DELETE
        logging.getLogger(config.name).setLevel(logging.NOTSET if deleted else LEVELS[str(config.value)])


def check_change(config: AlterableConfig) -> None:
    """Check that a change sets the level of one logger, or resets it to its parent's level."""
    name, operation = config.name, config.config_operation
    if operation in (AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT):
        raise bad_request(f"{AlterConfigOp(operation).name} operation is not allowed for the BROKER_LOGGER resource")
    if operation not in tuple(AlterConfigOp):
        raise bad_request(f"Unknown operations type {operation}")
    if name not in dict(logger_levels()):
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == AlterConfigOp.SET and config.value not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {config.value} as it is not a "
            f"supported log level. Valid log levels are {', '.join(LEVELS)}",
        )
    if operation == AlterConfigOp.DELETE and name == logging.root.name:
        raise bad_request("Removing the log level of the root logger is not allowed")
