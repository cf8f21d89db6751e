"""Compares a topology with the one that last ran in workers, without starting it."""

from __future__ import annotations

from millstream.config import Config
from millstream.log.api import Log
from millstream.plan.compare import Comparison
from millstream.runtime.real_time.input_partitioning import existing_counts, with_repartitions
from millstream.runtime.real_time.task_record import read_offsets
from millstream.runtime.start.application_state import ApplicationState
from millstream.runtime.start.compatibility import compare_with_last
from millstream.runtime.start.schemas import with_recorded_schemas
from millstream.runtime.start.topics import input_counts
from millstream.stages import Topology
from millstream.stages.placement import place


def compare_workers(
    topology: Topology, config: Config, state: ApplicationState, log: Log, checkpoint: str
) -> Comparison:
    """Compares as the next start does.

    Raises:
        SetupError: A topic has another number of partitions than the state that its records reach.
        UnknownTopicError: An input topic does not exist.
    """
    topology = worker_topology(topology, config, state, log)
    read = read_offsets(log, topology.application_id)
    return compare_with_last(topology, place(topology, shuffle=False), state, log, checkpoint, read)


def worker_topology(topology: Topology, config: Config, state: ApplicationState, log: Log) -> Topology:
    """Returns a topology as it would run in workers, with the repartitions that its input topics need.

    Raises:
        SetupError: A topic has another number of partitions than the state that its records reach.
        UnknownTopicError: An input topic does not exist.
    """
    counts = input_counts(topology, log) | existing_counts(topology, log)
    topology = with_repartitions(topology, config["input.partitioning"], counts, state.published_plan).topology
    return with_recorded_schemas(topology, state, register=False)
