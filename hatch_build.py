"""The dependencies of the package, which depend on the Python that builds it.

The broker matches regular expressions with google-re2, which has wheels for CPython up to 3.14 with glibc or on macOS.
No environment marker names musl, the libc of Alpine, or a free-threaded Python. A build there leaves google-re2 out: to
build it takes a C++ compiler, RE2 and Abseil. The broker then refuses regular expressions.
"""

from __future__ import annotations

import sysconfig
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RE2 = (
    "google-re2>=1.1.20250722; platform_python_implementation == 'CPython' and python_version < '3.15' and"
    " (platform_machine == 'x86_64' or platform_machine == 'aarch64' or platform_machine == 'arm64')"
)


class DependenciesHook(MetadataHookInterface):
    """The hook that `[tool.hatch.metadata.hooks.custom]` of `pyproject.toml` configures."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies."""
        more = [RE2] if has_wheels(sysconfig.get_config_vars()) else []
        metadata["dependencies"] = [*self.config["dependencies"], *more]


def has_wheels(variables: dict[str, Any]) -> bool:
    """Whether a Python with these variables of `sysconfig` may use the wheels of google-re2."""
    has_musl = "musl" in f"{variables.get('HOST_GNU_TYPE')} {variables.get('SOABI')}"
    return not has_musl and not variables.get("Py_GIL_DISABLED")
