"""The version of this package.

The build reads it from this file, since a query of the installed package slows a start by a tenth.
"""

from __future__ import annotations

VERSION = "0.1.0"
