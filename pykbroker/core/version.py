"""The version of this package. The build reads it here; querying the installed package costs a tenth of a start."""

from __future__ import annotations

VERSION = "0.1.0"
