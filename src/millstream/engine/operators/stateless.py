"""Operators that look at one record of a stream at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from millstream.core.names import check_name
from millstream.core.records import Headers
from millstream.engine.chunks import Bulk, Chunk, results
from millstream.engine.compile import Build, Process, in_bulk, operator
from millstream.engine.context import OutputBatch, OutputRecord, size_of
from millstream.engine.errors import FAILURES
from millstream.errors import ProcessingError, ProductionError, SerializationError
from millstream.plan import stateless as plan
from millstream.plan.functions import Function
from millstream.plan.node import Node
from millstream.serde import Serde
from millstream.serde.windowed import window_bytes


@operator(plan.Filter)
def filter_(node: plan.Filter, build: Build) -> Process:  # noqa: C901  (one form for each kind of function)
    """Passes the records for which the predicate holds."""
    forward, fail = build.forward(node), build.failure(node, node.predicate)
    holds = _callable(node.predicate)
    if node.negate:
        holds = _negated(holds)

    if node.predicate.on_whole_record:

        def process_whole(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                if not holds(key, value, timestamp, headers):
                    return
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return process_whole

    if node.predicate.takes_key:

        def process_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                if not holds(key, value):
                    return
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return process_with_key

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            if not holds(value):
                return
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, value, timestamp, headers)

    return process


def _negated(holds: Callable[..., Any]) -> Callable[..., bool]:
    return lambda *arguments: not holds(*arguments)


@in_bulk(plan.Filter)
def filter_all(node: plan.Filter, build: Build) -> Bulk | None:
    """Passes the records for which the predicate holds."""
    holds, wanted = _callable(node.predicate), not node.negate

    def choose(chunk: Chunk, found: list[bool]) -> Chunk:
        chosen = [one is wanted for one in found]
        return chunk if all(chosen) else chunk.where(chosen)

    return _calling(node, build, node.predicate, lambda *given: bool(holds(*given)), choose)


def _calling(
    node: Node,
    build: Build,
    function: Function,
    call: Callable[..., Any],
    use: Callable[[Chunk, list[Any]], Chunk],
) -> Bulk | None:
    """Calls a function for all records, and passes on what comes of it.

    None if somebody could tell that from calling it for each in its turn: a handler of the user's own may stop the
    application at any record, and none behind it must be seen by the function.
    """
    below = build.bulk(node)
    handler = build.context.config["processing.exception.handler"]
    if below is None or below.calls or not below.copies or handler not in ("fail", "continue"):
        return None
    fail, columns = build.failure(node, function), _columns(function)

    def take(chunk: Chunk) -> None:
        passed = use(*results(call, columns(chunk), chunk, fail, goes_on=handler == "continue"))
        if len(passed):
            below.take(passed)

    return Bulk(take, calls=True)


def _callable(function: Function) -> Callable[..., Any]:
    """The function, taking the parts of a record that it reads: all of them, key and value, or the value."""
    return function.on_record() if function.on_whole_record else function.bare()


def _columns(function: Function) -> Callable[[Chunk], tuple[Any, ...]]:
    """The columns that a function takes."""
    if function.on_whole_record:
        return lambda chunk: (chunk.keys, chunk.values, chunk.timestamps, chunk.headers or [()] * len(chunk))
    if function.takes_key:
        return lambda chunk: (chunk.keys, chunk.values)
    return lambda chunk: (chunk.values,)


@operator(plan.MapValues)
def map_values(node: plan.MapValues, build: Build) -> Process:
    """Gives each record a new value."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = _callable(node.function)

    if node.function.on_whole_record:

        def process_whole(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                result = function(key, value, timestamp, headers)
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, result, timestamp, headers)

        return process_whole

    if node.function.takes_key:

        def process_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                result = function(key, value)
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, result, timestamp, headers)

        return process_with_key

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            result = function(value)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, result, timestamp, headers)

    return process


@in_bulk(plan.MapValues)
def map_all_values(node: plan.MapValues, build: Build) -> Bulk | None:
    """Gives each record a new value."""
    return _calling(node, build, node.function, _callable(node.function), Chunk.with_values)


@operator(plan.SelectKey)
def select_key(node: plan.SelectKey, build: Build) -> Process:
    """Gives each record a new key."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            chosen = function(key, value, timestamp, headers)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(chosen, value, timestamp, headers)

    return process


@operator(plan.Map)
def map_(node: plan.Map, build: Build) -> Process:
    """Gives each record a new key and a new value."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        pair = None
        try:
            pair = function(key, value, timestamp, headers)
            new_key, new_value = pair
        except FAILURES as error:
            fail(no_pair(error, pair), key, value, timestamp, headers)
            return
        forward(new_key, new_value, timestamp, headers)

    return process


def no_pair(error: BaseException, given: Any) -> BaseException:
    """Says so if a function gave something else than a key and a value."""
    if isinstance(error, TypeError | ValueError) and given is not None and not isinstance(given, tuple | list):
        return ProcessingError(
            f"the function gave {given!r} ({type(given).__name__})", hint="it must give a pair: (key, value)"
        )
    return error


@operator(plan.FlatMap)
def flat_map(node: plan.FlatMap, build: Build) -> Process:
    """Turns each record into any number of records."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        pair = None
        pairs = []
        try:
            for pair in function(key, value, timestamp, headers):
                new_key, new_value = pair
                pairs.append((new_key, new_value))
        except FAILURES as error:
            fail(no_pair(error, pair), key, value, timestamp, headers)
            return
        for new_key, new_value in pairs:
            forward(new_key, new_value, timestamp, headers)

    return process


@operator(plan.FlatMapValues)
def flat_map_values(node: plan.FlatMapValues, build: Build) -> Process:
    """Turns each record into any number of records of the same key."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            values = list(function(key, value, timestamp, headers))
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        for new_value in values:
            forward(key, new_value, timestamp, headers)

    return process


@operator(plan.Peek)
@operator(plan.Foreach)
def peek(node: plan.Peek | plan.Foreach, build: Build) -> Process:
    """Calls a function for each record, and passes the record on."""
    forward, fail = build.forward(node), build.failure(node, node.function)
    function = node.function.on_record()

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            function(key, value, timestamp, headers)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, value, timestamp, headers)

    return process


@operator(plan.Branch)
def branch(node: plan.Branch, build: Build) -> Process:
    """Deals each record to the first output whose predicate holds, or to the default one."""
    outputs = build.branches(node, len(node.predicates) + node.default)
    rest = outputs[-1] if node.default else build.drop(node, "no branch")
    choices = [(p.on_record(), build.failure(node, p), o) for p, o in zip(node.predicates, outputs, strict=False)]

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for holds, fail, output in choices:
            try:
                chosen = bool(holds(key, value, timestamp, headers))
            except FAILURES as error:
                fail(error, key, value, timestamp, headers)
                return
            if chosen:
                output(key, value, timestamp, headers)
                return
        rest(key, value, timestamp, headers)

    return process


@operator(plan.BranchOutput)
@operator(plan.Merge)
@operator(plan.Late)
def pass_on(node: Node, build: Build) -> Process:
    """Passes records on as they are."""
    return build.forward(node)


@operator(plan.Sink)
def sink(node: plan.Sink, build: Build) -> Process:
    """Writes each record to a topic."""
    if isinstance(node.topic, Function):
        return _dynamic_sink(node, node.topic, build)
    return _writer(node, build, node.topic, node.key, node.value, node.partitioner)


@in_bulk(plan.Sink)
def write_all(node: plan.Sink, build: Build) -> Bulk | None:
    """Writes records to a topic; what cannot be written is found by writing them singly."""
    dead = build.context.config["errors.dead.letter.queue.topic.name"]
    if isinstance(node.topic, Function) or node.partitioner is not None or node.topic == dead:
        return None
    topic, key_serde, value_serde = node.topic, node.key, node.value
    write = _writer(node, build, topic, key_serde, value_serde, None)
    context, partition = build.context, -window_bytes(key_serde) or None

    def take(chunk: Chunk) -> None:
        try:
            names, values = chunk.names_for(key_serde), value_serde.serialize_all(chunk.values)
            for serde, column in ((key_serde, names), (value_serde, values)):
                if not _is_own(serde):
                    _check_bytes(serde, *column)
        except FAILURES:
            chunk.one_by_one(write)
            return
        largest = context.largest
        if largest is not None and (chunk.headers is not None or _longest(names) + _longest(values) > largest):
            chunk.one_by_one(write)
        else:
            context.outputs.append(OutputBatch(topic, names, values, chunk.timestamps, chunk.headers, partition))

    return Bulk(take, copies=value_serde.immutable)


def _is_own(serde: Serde[Any]) -> bool:
    """Whether a serde is one of Millstream's, which give bytes or None, or one that a user has written."""
    return type(serde).__module__.startswith("millstream.")


def _serializer(serde: Serde[Any]) -> Callable[[Any], bytes | None]:
    if _is_own(serde):
        return serde.serialize

    def serialize(value: Any) -> bytes | None:
        data = serde.serialize(value)
        _check_bytes(serde, data)
        return data

    return serialize


def _check_bytes(serde: Serde[Any], *serialized: Any) -> None:
    for data in serialized:
        if not isinstance(data, bytes | None):
            raise SerializationError(f"serialize() of serde {serde.name!r} gave {type(data).__name__}, not bytes")


def _longest(data: Sequence[bytes | None]) -> int:
    return max([len(one) for one in data if one is not None], default=0)


@operator(plan.Repartition)
def repartition(node: plan.Repartition, build: Build) -> Process:
    """Writes each record to an internal topic; its other end is a source."""
    topic = build.context.topology.topic_of(node)
    if node.changes:
        return _change_writer(node, build, topic)
    write = _writer(node, build, topic, node.key, node.value, node.partitioner)
    if node in build.facts.null_keys or not _carries_records(node):
        return write
    drop = build.drop(node, "null key before repartition")

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop(key, value, timestamp, headers)
        else:
            write(key, value, timestamp, headers)

    return process


def _carries_records(node: plan.Repartition) -> bool:
    """Whether the user's records go through, and not the messages of a foreign-key join, whose key may be null."""
    return not type(node.parent).__name__.startswith("ForeignKey")


def _change_writer(node: plan.Repartition, build: Build, topic: str) -> Process:
    write = _writer(node, build, topic, node.key, node.value, None)

    def process(key: Any, new: Any, old: Any, timestamp: int, headers: Headers, _latest: bool) -> None:
        write(key, (new, old), timestamp, headers)

    return process


def _writer(
    node: Node, build: Build, topic: str, key_serde: Serde[Any], value_serde: Serde[Any], partitioner: Function | None
) -> Process:
    """Makes the function that turns a record into bytes and hands it over."""
    context = build.context
    outputs = context.outputs
    if context.raw and partitioner is None:
        append = outputs.append

        def keep(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            append((topic, key, value, timestamp, headers))

        return keep
    fail = context.failure(node, phase="production")
    key_bytes, value_bytes = _serializer(key_serde), _serializer(value_serde)
    choose = None if partitioner is None else partitioner.full()
    # In sinks, as in Kafka Streams, the key of a window decides without its time; not in repartitions.
    is_sink = isinstance(node, plan.Sink)
    usual = -window_bytes(key_serde) or None if is_sink else None
    # A named tuple takes twice as long to make by its own name.
    make, append = partial(tuple.__new__, OutputRecord), outputs.append

    def write(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        partition = usual
        try:
            if choose is not None:
                count = context.partition_counts(topic)
                partition = _checked_partition(choose(key, value, count), count)
            data, content = key_bytes(key), value_bytes(value)
        except FAILURES as error:
            fail(_of_the_key(error, key, key_serde), key, value, timestamp, headers)
            return
        largest = context.largest if is_sink else None
        if largest is not None and (headers or len(data or b"") + len(content or b"") > largest):
            size = size_of(data, content, headers)
            if size > largest:
                fail(_too_large(topic, size, largest), key, value, timestamp, headers)
                return
        append(make((topic, data, content, timestamp, headers, partition)))

    return write


def _too_large(topic: str, size: int, largest: int) -> ProductionError:
    return ProductionError(
        f"a record of {size:,} bytes is too large for topic {topic!r}: the producer takes {largest:,}",
        hint="raise producer.message.max.bytes, and max.message.bytes of the topic",
    )


def _of_the_key(error: BaseException, key: Any, serde: Serde[Any]) -> BaseException:
    """Says so if it is the key that cannot be written."""
    if isinstance(error, SerializationError):
        try:
            serde.serialize(key)
        except SerializationError:
            hint = None if error.hint is None else error.hint.replace("value=", "key=")
            return SerializationError(f"the key: {error.message}", hint=hint)
    return error


def _checked_partition(chosen: Any, count: int) -> int | None:
    """Refuses what is no partition of a topic; None leaves the choice to the key."""
    if chosen is None or (type(chosen) is int and 0 <= chosen < count):
        return chosen
    raise ProductionError(
        f"the partitioner chose partition {chosen!r} of {count}",
        hint="a partitioner gives a number from 0 to partitions - 1",
    )


def _dynamic_sink(node: plan.Sink, topic: Function, build: Build) -> Process:
    fail = build.failure(node, topic)
    name = topic.on_record()
    writers: dict[str, Process] = {}

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            target = name(key, value, timestamp, headers)
            write = writers.get(target)
            if write is None:
                check_name(target, "topic")
                write = writers[target] = _writer(node, build, target, node.key, node.value, node.partitioner)
        except FAILURES as error:
            fail(error, key, value, timestamp, headers)
            return
        write(key, value, timestamp, headers)

    return process
