"""The commit: on the driver, once for each batch, one publication of all that the batch did."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from millstream import errors
from millstream.core.failpoints import declare, reach
from millstream.errors import MillstreamError, NonDeterministicError, RunError
from millstream.log.api import Append, Log, Publication
from millstream.log.blocks import Block, decode, decode_headers
from millstream.log.replays import FORM
from millstream.plan.stateless import Repartition, Sink
from millstream.runtime.messages import Failure, OutputBlock, StoreChange, TaskResult, unpack
from millstream.runtime.program.program import Program
from millstream.runtime.publish.output_blocks import UNKNOWN, blocks_of, merged
from millstream.runtime.queries import stores_of
from millstream.runtime.start.application_state import ApplicationState, read_state
from millstream.runtime.start.compatibility import facts_of
from millstream.state.spec import StoreSpec
from millstream.views.changes import ViewChange, change_of

RECEIVED = declare("driver.batch.received")
PUBLISHED = declare("driver.batch.published")

_FORM = 3
"""How digests are made. To be raised with each change: a batch of an earlier version may come once more."""


class Committer:
    """Publishes the batches of an application.

    Args:
        program: The application.
        log: Its log.
        epoch: Which instance of the application this is.
        base: How many batches were published before the checkpoint was made.
    """

    def __init__(self, program: Program, log: Log, epoch: int, base: int = 0) -> None:
        self._program = program
        self._base = base
        self._log = log
        self._epoch = epoch
        self._specs: dict[str, StoreSpec] = {
            spec.name: spec for node in program.topology.plan.nodes for spec in node.stores
        }

        topology = program.topology
        self._passed_on = {topology.topic_of(node) for node in topology.plan.of_type(Repartition)}
        self._unknown = [spec for spec in stores_of(topology) if program.has_view(spec)]
        published = log.applications.published(topology.application_id)
        self._published = -1 if published is None else published.batch
        self._facts = facts_of(topology, program.whole)
        self._bounds = read_state(log, topology.application_id).bounds or {}

    @property
    def bounds(self) -> list[tuple[str, int, int]]:
        """(topic, partition, time) of all that was ever read: no record that is still to come counts as earlier."""
        return [(topic, part, bound) for topic, bounds in self._bounds.items() for part, bound in bounds.items()]

    def commit(self, batch: int, payloads: Iterable[bytes]) -> list[TaskResult]:
        """Publishes a batch, and returns what its tasks did.

        Raises:
            MillstreamError: A task failed, or the batch cannot be published. Nothing was.
        """
        given = (written for payload in payloads for written in unpack(payload, list[TaskResult]))
        results = sorted(given, key=lambda written: written.origin)
        for written in results:
            if written.failure is not None:
                raise error_of(written.failure)
        appends = self._merged(
            append for written in results for block in written.blocks for append in self._appends(block, written)
        )
        for topic, partition, bound in (each for written in results for each in written.bounds):
            known = self._bounds.setdefault(topic, {})
            known[partition] = max(bound, known.get(partition, bound))
        publication = Publication(
            application=self._program.topology.application_id,
            epoch=self._epoch,
            batch=self._base + batch,
            appends=appends,
            offsets={(topic, part): end for written in results for topic, part, _begin, end in written.offsets},
            views=self._views([change for written in results for change in written.changes]),
            fingerprints=self._fingerprints(appends, results),
            state=msgspec.structs.replace(
                self._facts,
                waiting=sum(written.waiting for written in results),
                bounds=self._bounds,
                cells={written.origin[2]: written.cells for written in results if written.cells},
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
        if publication.batch > self._published:  # else it was published before, with what was to be known then
            self._facts = ApplicationState()
        reach(PUBLISHED)
        return results

    def _appends(self, block: OutputBlock, written: TaskResult) -> Iterable[Append]:
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
            (block.topic, key, value, time, decode_headers(headers) if headers else (), chosen)
            for key, value, time, headers in zip(*columns, strict=True)
        ]
        for known in blocks_of(records, lambda _topic: topic.partitions, written.origin[2]):
            yield from self._appends(known, written)

    def _merged(self, appends: Iterable[Append]) -> list[Append]:
        """What tasks pass on to others through a topic comes there in one order of time."""
        found: list[Append] = []
        passed: dict[tuple[str, int], list[Block]] = {}
        for append in appends:
            if append.topic in self._passed_on:
                passed.setdefault((append.topic, append.partition), []).append(append.block)
            else:
                found.append(append)
        for (topic, partition), blocks in passed.items():
            found.append(Append(topic, partition, blocks[0] if len(blocks) == 1 else merged(blocks)))
        return found

    def _views(self, changes: list[StoreChange]) -> list[ViewChange]:
        """What changes in the views; with the first batch, stores in which nothing has changed are made known."""
        found = []
        for change in changes:
            records = list(zip(change.keys, change.values, change.timestamps, strict=True))
            found.append(change_of(self._specs[change.store], change.partition, records, change.time))
        for spec in self._unknown:
            if all(change.store != spec.name for change in changes):
                found.append(change_of(spec, 0, []))
        self._unknown = []
        return found

    @staticmethod
    def _fingerprints(appends: Sequence[Append], results: Sequence[TaskResult]) -> dict[str, tuple[int, bytes]]:
        """By topic and store, how much was written and a digest of it."""
        digests: dict[str, tuple[int, Any]] = {}
        for append in appends:
            count, digest = digests.get(append.topic) or (0, hashlib.blake2b(digest_size=16))
            digest.update(append.partition.to_bytes(4, "big") + len(append.block.data).to_bytes(8, "big"))
            digest.update(append.block.data)
            digests[append.topic] = (count + append.block.count, digest)
        for change in (change for written in results for change in written.changes if change.keys):
            name = f"view {change.store}"
            count, digest = digests.get(name) or (0, hashlib.blake2b(digest_size=16))
            for part in _told_apart(change):
                digest.update(part)
            digests[name] = (count + len(change.keys), digest)
        return {FORM: (_FORM, b""), **{name: (count, digest.digest()) for name, (count, digest) in digests.items()}}

    def _explained(self, error: NonDeterministicError) -> MillstreamError:
        """Says which operators gave something else when the batch was run again."""
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
            f"{error.message}: look at operator {listed}, and those above",
            names=error.names,
            hint="a batch that is run again must give the same: functions must not use random numbers, the clock, or "
            "anything outside; take the time of a record from the record. If the application was changed since it was "
            "ended, start it once more as it was",
        )


def _told_apart(change: StoreChange) -> Iterable[bytes]:
    """The columns of a change, with their lengths: no two changes give the same bytes.

    There may be very many rows, so that nothing is made of each of them but its length.
    """
    count = len(change.keys)
    lengths = [-1 if value is None else len(value) for value in change.values]
    yield np.array([change.partition, count, *change.timestamps], "<i8").tobytes()
    yield np.fromiter(map(len, change.keys), "<i8", count).tobytes()
    yield np.array(lengths, "<i8").tobytes()
    yield b"".join(change.keys)
    yield b"".join(filter(None, change.values))


def error_of(failure: Failure) -> MillstreamError:
    """The error that a failure was, with its trace as a note."""
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
