"""Imports the libraries of the formats, which are optional dependencies."""

from __future__ import annotations

import importlib
from typing import Any

from millstream.errors import SetupError


def library(module: str, package: str, extra: str) -> Any:
    """Imports a module of an optional dependency.

    Args:
        module: The module.
        package: The name of its package, for the error.
        extra: The extra of Millstream that installs it.

    Raises:
        SetupError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SetupError(
            f"this requires the package {package}: {error}", hint=f'pip install "millstream[{extra}]"'
        ) from None
