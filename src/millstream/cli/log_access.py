"""Opens the log that a command works with: the embedded log of a data directory, or a Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from millstream.cli.exits import CommandError
from millstream.cli.options import cluster_settings
from millstream.cli.printing import print_note
from millstream.config import Config
from millstream.core.names import check_name
from millstream.errors import LogError, LogFormatError, suggestion

if TYPE_CHECKING:
    from millstream.log import Log
    from millstream.log.opening import LogLocation
    from millstream.runtime.start.application_state import ApplicationState

_CONNECT_SECONDS = 10.0


def location_of(data: str | None, config: Mapping[str, Any] | None = None) -> LogLocation:
    """Returns the location of the log. The command line takes precedence over the configuration and the environment."""
    from millstream.log.opening import log_location

    return log_location(Config({**Config(config).explicit, **cluster_settings()}), data)


def open_data(data: str | None, *, create: bool = False, config: Mapping[str, Any] | None = None) -> Log:
    """Opens the log of a data directory, or of a cluster.

    Raises:
        LogError: There is none, or it cannot be used.
    """
    from millstream.log.opening import open_location

    location = location_of(data, config)
    try:
        log = open_location(location, create=create)
        log.connect(_CONNECT_SECONDS, print_note)
        return log
    except LogFormatError:
        raise
    except LogError as error:
        directory = location.directory
        if create or location.cluster or location.views.exists() or (directory.exists() and not directory.is_dir()):
            raise
        hint = "name another one with --data or MILLSTREAM_DATA, or create one: millstream topics create NAME"
        raise CommandError(f"there is no data directory {directory}", hint=hint) from error


def check_application(log: Log, application: str) -> ApplicationState:
    """Returns the recorded state of an application.

    Raises:
        CommandError: The application has never run on this log.
        SetupError: Another version of Millstream wrote its state.
    """
    from millstream.log import Scope
    from millstream.runtime.start.application_state import ApplicationState

    check_name(application, "application")
    entries = log.applications.state(Scope(application))
    if not entries:
        hint = suggestion(application, log.groups()) or "millstream groups list shows the applications that have run"
        raise CommandError(f"there is no application {application!r} here", hint=hint)
    return ApplicationState.load(application, entries)
