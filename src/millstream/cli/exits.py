"""Exit codes, and the errors that only commands raise."""

from __future__ import annotations

from enum import IntEnum

from millstream.errors import MillstreamError


class ExitCode(IntEnum):
    """The exit codes of every command."""

    OK = 0
    ERROR = 1
    USAGE = 2
    INCOMPATIBLE = 3
    STATE_LOST = 4
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


MEANINGS = {
    ExitCode.OK: "Success. `run` also returns it after Ctrl-C or SIGTERM.",
    ExitCode.ERROR: "Failure, with the reason on stderr; or a check of `doctor` failed; or a confirmation was denied.",
    ExitCode.USAGE: "An option, an argument or a command is wrong or missing.",
    ExitCode.INCOMPATIBLE: "`plan-diff`, `run`, `migrate`: the topology is incompatible with the existing state. "
    "`schemas check`, `schemas register`: the schema is incompatible with earlier versions.",
    ExitCode.STATE_LOST: "`plan-diff`: the topology is compatible, but some stores lose their contents.",
    ExitCode.INTERRUPTED: "Interrupted with Ctrl-C.",
    ExitCode.OUTPUT_CLOSED: "The reader of its output closed the pipe, as `head` does.",
}
"""The meaning of each code, for the documentation."""


class CommandError(MillstreamError):
    """A command cannot be executed."""

    code = "command"


class UsageError(MillstreamError):
    """The value of an option or an argument is invalid."""

    code = "usage"
