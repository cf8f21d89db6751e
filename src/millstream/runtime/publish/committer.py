"""The commit of a micro-batch: one publication of all its results, on the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from millstream import errors
from millstream.core.failpoints import declare, reach
from millstream.engine import OutputRecord
from millstream.errors import MillstreamError, NonDeterministicError, RunError
from millstream.log.api import Append, Log, Publication, Scope
from millstream.log.blocks import Block, as_block, decode, decode_headers
from millstream.log.replays import FORM
from millstream.plan.stateless import Repartition, Sink
from millstream.runtime.messages import Failure, OutputBlock, StoreChange, TaskResult, unpack
from millstream.runtime.order.positions import Position
from millstream.runtime.output_blocks import UNKNOWN, blocks_of, merged
from millstream.runtime.program.program import Program
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.runtime.start.compatibility import facts_of
from millstream.state.spec import StoreSpec
from millstream.views.changes import ViewChange, change_of

RECEIVED = declare("driver.batch.received")
PUBLISHED = declare("driver.batch.published")

_DIGEST_FORMAT = 4
"""Raised with each change of the digests, because a batch of an earlier version may be replayed."""


class Committer:
    """Publishes the batches of an application.

    Args:
        program: The application.
        log: Its log.
        epoch: The epoch of this instance of the application.
        base: The number of batches published before the checkpoint was created.
    """

    def __init__(self, program: Program, log: Log, epoch: int, base: int = 0) -> None:
        self._program = program
        self._base = base
        self._log = log
        self._epoch = epoch
        self._scope = Scope(program.topology.application_id)
        self._specs: dict[str, StoreSpec] = {
            spec.name: spec for node in program.topology.plan.nodes for spec in node.stores
        }
        topology = program.topology
        self._internal = {topology.topic_of(node) for node in topology.plan.of_type(Repartition)}
        self._new_views = [spec for spec in topology.stores if program.has_view(spec)]
        published = log.applications.published(self._scope)
        self._published = -1 if published is None else published.batch
        self._facts = facts_of(topology, program.complete_changelogs)
        state = read_state(log, topology.application_id)
        self._bounds = state.bounds or {}
        self._held = state.held or {}

    @property
    def held(self) -> list[tuple[int, Position]]:
        """(sub-topology, position): the least order position that its tasks have read and not processed."""
        return list(self._held.items())

    @property
    def bounds(self) -> list[tuple[str, int, Position]]:
        """(topic, partition, position) of all partitions ever read: no unread record has a lower order position."""
        return [(topic, part, bound) for topic, bounds in self._bounds.items() for part, bound in bounds.items()]

    def commit(self, batch: int, payloads: Iterable[bytes]) -> list[TaskResult]:
        """Publishes a batch and returns its results.

        Raises:
            MillstreamError: A task failed, or the batch cannot be published. Nothing is published then.
        """
        unpacked = (result for payload in payloads for result in unpack(payload, list[TaskResult]))
        results = sorted(unpacked, key=lambda result: result.origin)
        for result in results:
            if result.failure is not None:
                raise error_of(result.failure)
        appends = self._merged(
            append for result in results for block in result.blocks for append in self._appends(block, result)
        )
        for topic, partition, bound in (bound for result in results for bound in result.bounds):
            bounds = self._bounds.setdefault(topic, {})
            bounds[partition] = max(bound, bounds.get(partition, bound))
        self._held = _least_held(results)
        publication = Publication(
            scope=self._scope,
            epoch=self._epoch,
            batch=self._base + batch,
            appends=appends,
            offsets={(topic, part): end for result in results for topic, part, _begin, end in result.offsets},
            views=self._views([change for result in results for change in result.changes]),
            fingerprints=self._fingerprints(appends, results),
            state=msgspec.structs.replace(
                self._facts,
                waiting=sum(result.waiting for result in results),
                bounds=self._bounds,
                held=self._held,
                cells={result.origin[2]: result.cells for result in results if result.cells},
            ).dump(),
        )
        reach(RECEIVED)
        try:
            self._log.applications.publish(publication)
        except NonDeterministicError as error:
            guarantee = self._program.config["processing.guarantee"]
            if guarantee == "exactly_once":
                raise self._explained(error) from None
            if guarantee == "at_least_once":
                self._log.append(appends)
        if publication.batch > self._published:  # a replay has recorded them already
            self._facts = ApplicationState()
        reach(PUBLISHED)
        return results

    def _appends(self, block: OutputBlock, result: TaskResult) -> Iterable[Append]:
        if block.partition > UNKNOWN:
            yield Append(
                block.topic, block.partition, Block(block.data, block.count, block.min_timestamp, block.max_timestamp)
            )
            return
        topic = self._log.create_topic(block.topic, self._program.tasks, exist_ok=True)
        batch = decode(block.data).to_pydict()
        columns = (batch[name] for name in ("key", "value", "timestamp", "headers"))
        chosen = None if block.partition == UNKNOWN else block.partition
        records = [
            OutputRecord(block.topic, key, value, time, decode_headers(headers) if headers else (), chosen)
            for key, value, time, headers in zip(*columns, strict=True)
        ]
        for routed in blocks_of(records, lambda _topic: topic.partitions, result.origin[2]):
            yield from self._appends(routed, result)

    def _merged(self, appends: Iterable[Append]) -> list[Append]:
        """Merges the blocks of each internal partition by their origins; the other blocks stay as they are."""
        outputs: list[Append] = []
        internal: dict[tuple[str, int], list[Block]] = {}
        for append in appends:
            if append.topic in self._internal:
                internal.setdefault((append.topic, append.partition), []).append(as_block(append.block))
            else:
                outputs.append(append)
        for (topic, partition), blocks in internal.items():
            outputs.append(Append(topic, partition, blocks[0] if len(blocks) == 1 else merged(blocks)))
        return outputs

    def _views(self, changes: list[StoreChange]) -> list[ViewChange]:
        """The changes of the views; the first batch also announces stores without a change."""
        view_changes = []
        for change in changes:
            records = list(zip(change.keys, change.values, change.timestamps, strict=True))
            view_changes.append(change_of(self._specs[change.store], change.partition, records, change.time))
        for spec in self._new_views:
            if all(change.store != spec.name for change in changes):
                view_changes.append(change_of(spec, 0, []))
        self._new_views = []
        return view_changes

    @staticmethod
    def _fingerprints(appends: Sequence[Append], results: Sequence[TaskResult]) -> dict[str, tuple[int, bytes]]:
        """The number of records and their digest, by topic and store."""
        digests: dict[str, tuple[int, Any]] = {}
        for append in appends:
            count, digest = digests.get(append.topic) or (0, hashlib.blake2b(digest_size=16))
            block = as_block(append.block)
            digest.update(append.partition.to_bytes(4, "big") + len(block.data).to_bytes(8, "big"))
            digest.update(block.data)
            digests[append.topic] = (count + block.count, digest)
        for change in (change for result in results for change in result.changes if change.keys):
            name = f"view {change.store}"
            count, digest = digests.get(name) or (0, hashlib.blake2b(digest_size=16))
            for part in _digest_input(change):
                digest.update(part)
            digests[name] = (count + len(change.keys), digest)
        finished = {name: (count, digest.digest()) for name, (count, digest) in digests.items()}
        return {FORM: (_DIGEST_FORMAT, b""), **finished}

    def _explained(self, error: NonDeterministicError) -> MillstreamError:
        """The error with the operators whose results differ in the replay."""
        plan = self._program.topology.plan
        topology = self._program.topology
        names = []
        for name in error.names:
            for node in plan.nodes:
                topics = [node.topic] if isinstance(node, Sink) else []
                topics += [topology.topic_of(node)] if isinstance(node, Repartition) else []
                topics += [f"view {spec.name}" for spec in node.stores]
                topics += [topic for spec in node.stores if (topic := self._program.changelog_of(spec))]
                if name in topics:
                    above = node.parents[0].name if isinstance(node, Sink) and node.parents else node.name
                    names.append(f"{above!r} ({node.at})")
        listed = ", ".join(dict.fromkeys(names)) or ", ".join(error.names)
        return NonDeterministicError(
            f"{error.message}: check operator {listed} and the operators above it",
            names=error.names,
            hint="a replayed batch must give the same results: functions must not use random numbers, the clock or "
            "external data; take the time of a record from the record. If the application was changed since it "
            "stopped, start it once more unchanged",
        )


def _least_held(results: Iterable[TaskResult]) -> dict[int, Position]:
    """The least order position that the tasks of each sub-topology hold back."""
    held: dict[int, Position] = {}
    for task in (task for result in results for task in result.tasks):
        if task.held is not None:
            index = task.task.subtopology
            held[index] = min(task.held, held.get(index, task.held))
    return held


def _digest_input(change: StoreChange) -> Iterable[bytes]:
    """The columns of a change, with their lengths, so that no two changes give the same bytes.

    Works by column, because a change may have many rows.
    """
    count = len(change.keys)
    lengths = [-1 if value is None else len(value) for value in change.values]
    yield np.array([change.partition, count, *change.timestamps], "<i8").tobytes()
    yield np.fromiter(map(len, change.keys), "<i8", count).tobytes()
    yield np.array(lengths, "<i8").tobytes()
    yield b"".join(change.keys)
    yield b"".join(filter(None, change.values))


def error_of(failure: Failure) -> MillstreamError:
    """The error of a failure, with its traceback as a note."""
    kinds = {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, MillstreamError)
    }
    kind = kinds.get(failure.code, RunError)
    try:
        error = kind(failure.message, hint=failure.hint)
    except TypeError:
        error = RunError(failure.message, hint=failure.hint)
    if failure.trace:
        error.add_note(failure.trace)
    return error
