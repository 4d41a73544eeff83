"""The version of kafka-python whose interface the drop-in has."""

__version__ = "3.0.12"
