"""How commands end: the exit codes, and the error of a command that was used wrongly."""

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
    ExitCode.OK: "The command did what it was asked to. `run` also ends so after Ctrl-C or SIGTERM.",
    ExitCode.ERROR: "It failed, and says why on stderr; or a check of `doctor` failed; or a question was answered no.",
    ExitCode.USAGE: "An option, an argument or a command is wrong or missing.",
    ExitCode.INCOMPATIBLE: "`plan-diff`, `run`, `migrate`: the topology cannot go on with the state that there is.",
    ExitCode.STATE_LOST: "`plan-diff`: the topology can go on, but what is in some stores is lost.",
    ExitCode.INTERRUPTED: "It was interrupted with Ctrl-C.",
    ExitCode.OUTPUT_CLOSED: "Whoever read its output stopped reading, as `head` does.",
}
"""What each code means, for the documentation."""


class CommandError(MillstreamError):
    """A command cannot do what it was asked to."""

    code = "command"


class UsageError(MillstreamError):
    """An option or an argument has a value that it cannot have."""

    code = "usage"
