"""Input from a person: times and settings on the command line, and confirmation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime

import typer

from millstream.cli.exits import CommandError, ExitCode, UsageError
from millstream.cli.printing import print_note
from millstream.text.escaping import printable


def to_milliseconds(text: str, option: str, others: str = "") -> int:
    """Returns a time in milliseconds since the epoch. A time without a zone is in UTC.

    Args:
        text: The time as typed.
        option: The option that it belongs to, for an error.
        others: Other values that the option accepts, for an error.

    >>> to_milliseconds("1700000000000", "--timestamp"), to_milliseconds("2026-01-01T00:00:01Z", "--timestamp")
    (1700000000000, 1767225601000)
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        first = f"{others}, " if others else ""
        hint = f"write {first}milliseconds since the epoch, or a time such as 2026-01-31T12:00:00Z"
        raise UsageError(f"{option}: cannot read the time {text!r}", hint=hint) from None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def to_pairs(settings: Iterable[str] | None, option: str = "--config") -> dict[str, str]:
    """Returns settings of the form ``key=value`` as a mapping."""
    pairs = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"{option}: {setting!r} is not of the form key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def confirm(question: str, *, yes: bool) -> None:
    """Asks for confirmation of an action that cannot be undone.

    Raises:
        CommandError: There is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("this cannot be undone, and there is no terminal to ask on", hint="add --yes")
    if not typer.confirm(printable(question), err=True):
        print_note("nothing was done")
        raise typer.Exit(ExitCode.ERROR)
