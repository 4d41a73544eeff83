"""The errors of a pipeline that its user can correct. The text says what happened and what to do."""

from __future__ import annotations


class PipelineError(Exception):
    """The error of a job that cannot run, or that has stopped."""


class NoJava(PipelineError):
    """The error of a machine without a Java that Spark can use."""


class NoConnector(PipelineError):
    """The error of a session without a way to read Kafka topics."""


class NoExchange(PipelineError):
    """The error of a file system that cannot exchange two directories in one step."""


class StateConflict(PipelineError):
    """The error of a checkpoint or an archive that belongs to something else."""


class RecordsLost(PipelineError):
    """The error of records that a job was to read and that the cluster no longer has."""
