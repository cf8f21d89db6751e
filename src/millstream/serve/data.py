"""The data that a server serves: the log, the views and the reports of a data directory or of a cluster."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from millstream.config import Config
from millstream.core.names import check_name
from millstream.errors import LogError, SetupError, UnknownStoreError, suggestion
from millstream.log import Log
from millstream.log.opening import LogLocation, log_location, open_location
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.serve.observe.reports import Reports
from millstream.serve.options import ServeOptions
from millstream.views.database import ViewDatabase

_KEPT_SECONDS = 10.0


class UnknownApplicationError(UnknownStoreError):
    """There is no application of this name."""

    code = "unknown-application"


class ServedData:
    """The log, the views and the reports that a server reads. It may be used from any thread.

    Args:
        options: The options of the server.
    """

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.config = Config(options.config)
        self.location: LogLocation = log_location(self.config, options.data)
        self.views = ViewDatabase(self.location.views)
        self.reports = Reports(self.directory, options.application)
        self._log: Log | None = None
        self._lock = threading.Lock()
        self._groups: dict[str, tuple[bool, float]] = {}

    @property
    def directory(self) -> Path:
        """The data directory."""
        return self.location.directory

    @property
    def log(self) -> Log:
        """The log. It is opened when it is first needed: an application may create it later.

        Raises:
            LogError: There is none, or it cannot be used.
        """
        with self._lock:
            if self._log is None:
                self._log = open_location(self.location, create=False)
            return self._log

    def applications(self) -> list[str]:
        """The ids of the applications: those that have reported, and those that have committed offsets."""
        only = self.options.application
        names = set(self.reports.applications())
        if only is None:
            try:
                names |= {name for name in self.log.groups() if name in names or self._is_application(name)}
            except LogError:
                if not names:
                    raise
        else:
            names.add(only)
        return sorted(names)

    def state(self, application: str) -> ApplicationState:
        """Returns the recorded state of an application.

        Raises:
            UnknownApplicationError: There is no such application, or it is not served.
        """
        check_name(application, "application")
        only = self.options.application
        state = self._state(application) if only in {None, application} else ApplicationState()
        if state.started_plan is None:
            names = self.applications()
            hint = suggestion(application, names) or f"the applications are: {', '.join(names) or 'none'}"
            raise UnknownApplicationError(f"there is no application {application!r}", hint=hint)
        return state

    def _is_application(self, group: str) -> bool:
        """Whether a group is an application. An answer is kept for a while: a cluster has many groups."""
        known = self._groups.get(group)
        if known is None or known[1] < time.monotonic():
            try:
                is_application = self._state(group).started_plan is not None
            except SetupError:  # of another version of Millstream
                is_application = True
            known = self._groups[group] = (is_application, time.monotonic() + _KEPT_SECONDS)
        return known[0]

    def _state(self, application: str) -> ApplicationState:
        return read_state(self.log, application)

    def close(self) -> None:
        """Closes the log and the views."""
        self.views.close()
        if self._log is not None:
            self._log.close()
