"""The version of this package, which the build reads here: to ask the installed package costs a tenth of a start."""

from __future__ import annotations

VERSION = "0.1.0"
