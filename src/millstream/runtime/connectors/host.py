"""The connectors of an application: their tasks, states and metrics, and the commands for them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from millstream.connect import Connector, SinkConnector, SourceConnector
from millstream.errors import ConfigError, MillstreamError, suggestion
from millstream.runtime.connectors.letters import DeadLetters
from millstream.runtime.connectors.sink_task import SinkTask
from millstream.runtime.connectors.source_task import SourceTask
from millstream.runtime.connectors.task import ConnectorTask, Environment, TaskState, shown

Kind: TypeAlias = type[SourceConnector] | type[SinkConnector]

_ORDER = (
    TaskState.FAILED,
    TaskState.RESTARTING,
    TaskState.RUNNING,
    TaskState.PAUSED,
    TaskState.UNASSIGNED,
    TaskState.FINISHED,
    TaskState.STOPPED,
)
"""The state of a connector is the first of these that one of its tasks has."""


class ConnectorHost:
    """Runs the tasks of connectors, each in a thread.

    Args:
        environment: What the tasks share.
        connectors: The connectors.
    """

    def __init__(self, environment: Environment, connectors: Sequence[Connector]) -> None:
        self._environment = environment
        self._connectors = {connector.name: connector for connector in connectors}
        self._tasks: dict[str, list[ConnectorTask]] = {}
        self._paused: set[str] = set()
        self._all_paused = False

    def start(self) -> None:
        """Starts the tasks of all connectors."""
        self._tasks = {name: self._tasks_of(connector) for name, connector in self._connectors.items()}
        for name, tasks in self._tasks.items():
            for task in tasks:
                if self._all_paused or name in self._paused:
                    task.order(paused=True)
                task.start()

    def _tasks_of(self, connector: Connector) -> list[ConnectorTask]:
        if isinstance(connector, SourceConnector):
            return [SourceTask(self._environment, connector, split) for split in connector.source.splits()]
        letters = DeadLetters(self._environment, connector)
        return [SinkTask(self._environment, connector, number, letters) for number in range(connector.tasks)]

    def stop(self, seconds: float) -> bool:
        """Ends all tasks after the records that they have taken; returns whether they have ended in time."""
        for tasks in self._tasks.values():
            for task in tasks:
                task.order(stopped=True)
        end = time.monotonic() + seconds
        ended = [task.join(end - time.monotonic()) for tasks in self._tasks.values() for task in tasks]
        return all(ended)

    def pause(self) -> None:
        """Pauses all connectors."""
        self._all_paused = True
        self._order_pauses()

    def resume(self) -> None:
        """Continues after `pause`. A connector that was paused alone stays paused."""
        self._all_paused = False
        self._order_pauses()

    def _order_pauses(self) -> None:
        for name, tasks in self._tasks.items():
            for task in tasks:
                task.order(paused=self._all_paused or name in self._paused)

    def command(self, connector: str, command: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Carries out a command for one connector.

        Args:
            connector: The name of the connector.
            command: ``pause``, ``resume``, ``restart``, or one of the source itself, such as ``snapshot``.
            arguments: The arguments of the command.

        Raises:
            ConfigError: There is no such connector, or it does not have the command.
        """
        tasks = self._tasks.get(connector)
        if tasks is None:
            hint = suggestion(connector, self._connectors) or f"there are: {', '.join(self._connectors)}"
            name = self._environment.application
            raise ConfigError(f"application {name!r} has no connector {connector!r}", hint=hint)
        if command in {"pause", "resume"}:
            (self._paused.add if command == "pause" else self._paused.discard)(connector)
            self._order_pauses()
        elif command == "restart":
            for task in tasks:
                task.order(restart=True)
        else:
            self._command_source(connector, command, arguments or {})

    def _command_source(self, connector: str, command: str, arguments: Mapping[str, Any]) -> None:
        spec = self._connectors[connector]
        known = () if isinstance(spec, SinkConnector) else spec.source.commands
        if command not in known:
            have = ["pause", "resume", "restart", *known]
            raise ConfigError(f"connector {connector!r} has no command {command!r}", hint=f"it has: {', '.join(have)}")
        for task in self._tasks[connector]:
            assert isinstance(task, SourceTask)
            task.command({"id": f"{time.time_ns():x}", "type": command, **arguments})

    def expect_idle(self, kind: Kind) -> None:
        """Begins to watch for a moment at which sources, or sinks, have nothing to do: see `were_idle`."""
        for task in self._of(kind):
            task.expect_idle()

    def were_idle(self, kind: Kind) -> bool:
        """Whether all sources, or all sinks, had nothing to do at some moment since `expect_idle`, or have ended."""
        return all(task.was_idle or task.state is TaskState.FAILED for task in self._of(kind))

    def _of(self, kind: Kind) -> list[ConnectorTask]:
        names = [name for name, connector in self._connectors.items() if isinstance(connector, kind)]
        return [task for name in names for task in self._tasks.get(name, ())]

    def fenced(self) -> MillstreamError | None:
        """The error of a task that another instance of the application has fenced."""
        return next((task.error for tasks in self._tasks.values() for task in tasks if task.fenced), None)

    def failure(self) -> MillstreamError | None:
        """The error of a task that has failed, if all tasks have failed or finished."""
        tasks = [task for own in self._tasks.values() for task in own]
        if any(task.state not in {TaskState.FAILED, TaskState.FINISHED} for task in tasks):
            return None
        return next((task.error for task in tasks if task.state is TaskState.FAILED), None)

    def read(self) -> dict[str, Any]:
        """Returns the states and metrics of the connectors, by name."""
        return {name: self._shown(connector) for name, connector in self._connectors.items()}

    def _shown(self, connector: Connector) -> dict[str, Any]:
        plugin = connector.source if isinstance(connector, SourceConnector) else connector.sink
        tasks = self._tasks.get(connector.name, [])
        states = {task.state for task in tasks} or {TaskState.UNASSIGNED}
        return {
            "type": "source" if isinstance(connector, SourceConnector) else "sink",
            "class": type(plugin).__name__,
            "promise": plugin.promise,
            "reason": plugin.reason,
            "topics": list(connector.topics) if isinstance(connector, SinkConnector) else [],
            "state": next(state.value for state in _ORDER if state in states),
            "records": sum(task.tally.records for task in tasks),
            "tasks": [
                {
                    "task": task.name,
                    "state": task.state.value,
                    "error": None if task.error is None else task.error.message,
                    "hint": None if task.error is None else task.error.hint,
                    **shown(task.tally),
                }
                for task in tasks
            ],
        }
