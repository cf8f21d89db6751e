"""Configuration: Kafka's keys, with Python's spelling accepted too, and an error for every key that is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from millstream.config.secrets import protected
from millstream.core.asynchronous import ASYNC_HINT, is_async
from millstream.core.durations import to_ms
from millstream.core.names import check_name
from millstream.errors import ConfigError, DurationError, suggestion

Handler: TypeAlias = "Literal['fail', 'continue'] | Callable[..., Any]"


class Key(NamedTuple):
    """One configuration key.

    Attributes:
        default: Its value if nothing is said.
        check: Returns the value to use, or raises an error that says what is wrong.
        doc: What it does.
    """

    default: Any
    check: Callable[[str, Any], Any]
    doc: str


def _one_of(*allowed: str) -> Callable[[str, Any], Any]:
    def check(key: str, value: Any) -> Any:
        if isinstance(value, str) and value in allowed:
            return value
        hint = (suggestion(value, allowed) if isinstance(value, str) else None) or f"use one of: {', '.join(allowed)}"
        raise ConfigError(f"{key}: {value!r} is not a value it can have", hint=hint)

    return check


def _handler(key: str, value: Any) -> Any:
    if not callable(value):
        return _one_of("fail", "continue")(key, value)
    if is_async(value):
        raise ConfigError(f"{key}: {value!r} is asynchronous", hint=ASYNC_HINT)
    return value


def _topic(key: str, value: Any) -> Any:
    return None if value is None else check_name(value, f"{key}: topic")


def _flag(key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise ConfigError(f"{key}: {value!r} is neither true nor false")


def _any(_key: str, value: Any) -> Any:
    return value


def _number(least: int) -> Callable[[str, Any], Any]:
    def check(key: str, value: Any) -> Any:
        number = int(value) if isinstance(value, str) and value.strip().isdigit() else value
        if type(number) is not int or number < least:
            raise ConfigError(f"{key}: {value!r} is not a number it can have", hint=f"use a whole number from {least}")
        return number

    return check


def _optional(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda key, value: None if value is None else check(key, value)


def _text(key: str, value: Any) -> Any:
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        return str(value)
    raise ConfigError(f"{key}: {value!r} is not text")


def _guarantee(key: str, value: Any) -> str:
    known = "exactly_once" if value == "exactly_once_v2" else value
    return str(_one_of("exactly_once", "at_least_once", "at_most_once")(key, known))


def _servers(key: str, value: Any) -> Any:
    text = ",".join(value) if isinstance(value, list | tuple) else value
    if isinstance(text, str) and all(_is_address(part) for part in text.split(",")):
        return text
    raise ConfigError(f"{key}: {value!r} is not a list of servers", hint="write host:port, or host:port,host:port,…")


def _is_address(text: str) -> bool:
    host, _colon, port = text.strip().rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal()


_BY_DURATION = "by_duration:"


def offset_reset(key: str, value: Any) -> Any:
    """Returns where to begin to read: ``earliest``, ``latest``, ``none``, or how many milliseconds before now."""
    if isinstance(value, str) and value.startswith(_BY_DURATION):
        try:
            text = value.removeprefix(_BY_DURATION)
            return to_ms(text[1:].replace("T", "").lower() if text.startswith("P") else text)
        except DurationError as error:
            raise ConfigError(f"{key}: {error.message}", hint="write by_duration:1h, or by_duration:PT1H") from None
    if type(value) is int:
        return value
    return _one_of("earliest", "latest", "none")(key, value)


OPTIMIZATIONS = ("reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")


def _optimization(key: str, value: Any) -> tuple[str, ...]:
    if value in ("none", ()):
        return ()
    if value == "all":
        return OPTIMIZATIONS
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        names = [value]
    return tuple(_one_of(*OPTIMIZATIONS)(key, name) for name in names)


KEYS: dict[str, Key] = {
    "default.key.serde": Key(str, _any, "The serde of keys for which nothing else is said: a type, a name or a Serde."),
    "default.value.serde": Key(
        object, _any, "The serde of values for which nothing else is said: a type, a name or a Serde. Default: JSON."
    ),
    "topology.optimization": Key(
        "none", _optimization, "`none`, `all`, or some of " + ", ".join(f"`{o}`" for o in OPTIMIZATIONS) + "."
    ),
    "deserialization.exception.handler": Key(
        "fail", _handler, "What happens to a record that cannot be read: `fail`, `continue`, or a function."
    ),
    "processing.exception.handler": Key(
        "fail", _handler, "What happens to a record on which a function raises: `fail`, `continue`, or a function."
    ),
    "production.exception.handler": Key(
        "fail", _handler, "What happens to a record that cannot be written: `fail`, `continue`, or a function."
    ),
    "errors.dead.letter.queue.topic.name": Key(
        None, _topic, "The topic to which the handlers send the source records of what failed."
    ),
    "ensure.explicit.internal.resource.naming": Key(
        False, _flag, "Refuse a topology in which a store or a repartition topic has no name given by the user."
    ),
    "processing.guarantee": Key(
        "exactly_once",
        _guarantee,
        "`exactly_once` (also spelt `exactly_once_v2`), `at_least_once`, or `at_most_once`: a batch that was started "
        "is not read again.",
    ),
    "state.dir": Key(
        None,
        _optional(_text),
        "The data directory: log, views and checkpoints. Default: the environment's `MILLSTREAM_DATA`, else "
        "`./.millstream`.",
    ),
    "checkpoint.location": Key(
        None,
        _optional(_text),
        "Where Spark keeps the checkpoint, if not in the data directory: in a file system that all executors reach. A "
        "path, or a URL such as `hdfs://…`; what is there then, Millstream cannot look at: see `reset`.",
    ),
    "num.tasks": Key(
        None,
        _optional(_number(1)),
        "How many tasks the keys are dealt to. Decided at the first start; by default the largest number of partitions "
        "of the input topics, at most 48.",
    ),
    "auto.offset.reset": Key(
        "earliest",
        offset_reset,
        "Where an application begins to read a topic of which its group has no committed offset: `earliest`, `latest`, "
        "`by_duration:1h` (from the records of the last hour on), or `none`: it does not start then.",
    ),
    "data.loss.handler": Key(
        "fail",
        _one_of("fail", "continue"),
        "What happens if records are gone before they were read, by retention or with their topic: the application "
        "stops, or goes on with what there is and counts those that are lost.",
    ),
    "bootstrap.servers": Key(
        None,
        _optional(_servers),
        "The brokers of a Kafka cluster: `host:port,host:port`. Without it, the embedded log is used, unless the "
        "environment's `MILLSTREAM_BOOTSTRAP_SERVERS` or `MILLSTREAM_PROFILE` names a cluster.",
    ),
    "kafka.source": Key(
        "client",
        _one_of("client", "connector"),
        "What reads topics of a Kafka cluster: the client that comes with Millstream, or Spark's own connector, in "
        "Java, whose jars `spark.jars` or `spark.jars.packages` must name.",
    ),
    "security.protocol": Key(
        None,
        _optional(_one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        "How brokers are talked to. The settings `ssl.*` and `sasl.*` go with it.",
    ),
    "request.timeout.ms": Key(30_000, _number(100), "How long a broker may take to answer a request."),
    "default.api.timeout.ms": Key(
        60_000,
        _number(100),
        "How long an application waits for a broker that does not answer: when it starts, and between two batches, "
        "after which its query is started again.",
    ),
    "replication.factor": Key(
        -1,
        _number(-1),
        "How many replicas the topics of a cluster have that belong to the application; -1: as the brokers say.",
    ),
    "target.batch.ms": Key(
        500,
        _number(10),
        "How long a batch should take; how many records it has follows from it. With a backlog it may take up to four "
        "times as long.",
    ),
    "min.batch.records": Key(1_000, _number(1), "A batch has no fewer records than this because of its target time."),
    "max.batch.records": Key(
        500_000,
        _number(1),
        "A batch has no more records than this, those of the application's own repartition topics among them; but at "
        "least one of each partition that has any.",
    ),
    "max.batch.bytes": Key(
        16 * 1024**2,
        _number(1024),
        "A batch has about no more bytes than this: how many records that is follows from the batches before. Java and "
        "the workers hold them several times.",
    ),
    "host.memory.max.bytes": Key(
        2 * 1024**3,
        _number(1024**2),
        "How much memory a task host may use for the state of its tasks, which share it alike; what does not fit is "
        "read when it is needed.",
    ),
    "task.timeout.ms": Key(
        300_000,
        _number(100),
        "How long a task, or what runs where a partition is read, may work on a batch; then the application stops and "
        "says where it hangs.",
    ),
    "restart.max.attempts": Key(
        10, _number(0), "How often in a row an application is started again after a failure that may pass."
    ),
    "restart.backoff.ms": Key(500, _number(1), "How long it waits before that; twice as long each time."),
    "log.cleanup.interval.ms": Key(
        60_000,
        _number(0),
        "How often a running application has the embedded log delete what its topics need not keep; 0: never.",
    ),
    "store.views": Key(True, _flag, "Named stores can be queried; each change is then written to a view, too."),
    "store.changelogs": Key(True, _flag, "Named stores have changelog topics."),
    "status": Key(
        "auto",
        _one_of("auto", "line", "text", "json", "none"),
        "What a running application shows on stderr: a live `line`; `text`, a line for each change of state and, every "
        "30 seconds at most, one with figures; `json`, the same as JSON, with all figures each second; `none`. `auto`: "
        "line on a terminal, text if piped; in a notebook, problems only.",
    ),
}


class Settings(TypedDict, total=False):
    """The keys with underscores, as keyword arguments of `App`, so that type checkers find misspelt ones."""

    default_key_serde: Any
    default_value_serde: Any
    topology_optimization: str | list[str] | tuple[str, ...]
    deserialization_exception_handler: Handler
    processing_exception_handler: Handler
    production_exception_handler: Handler
    errors_dead_letter_queue_topic_name: str | None
    ensure_explicit_internal_resource_naming: bool
    processing_guarantee: Literal["exactly_once", "exactly_once_v2", "at_least_once", "at_most_once"]
    state_dir: str | PathLike[str] | None
    checkpoint_location: str | PathLike[str] | None
    num_tasks: int | None
    auto_offset_reset: str
    data_loss_handler: Literal["fail", "continue"]
    bootstrap_servers: str | list[str] | None
    kafka_source: Literal["client", "connector"]
    security_protocol: str | None
    request_timeout_ms: int
    default_api_timeout_ms: int
    replication_factor: int
    target_batch_ms: int
    min_batch_records: int
    max_batch_records: int
    max_batch_bytes: int
    host_memory_max_bytes: int
    task_timeout_ms: int
    restart_max_attempts: int
    restart_backoff_ms: int
    log_cleanup_interval_ms: int
    store_views: bool
    store_changelogs: bool
    status: str


PREFIXES = {
    "spark.": "Spark's configuration.",
    "ssl.": "TLS: `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`, …",
    "sasl.": "SASL: `sasl.mechanism` (`PLAIN`, `SCRAM-SHA-256`, …), `sasl.username`, `sasl.password`, …",
    "enable.ssl.": "TLS: `enable.ssl.certificate.verification`.",
    "client.": "All clients of a cluster: `client.id`, `client.rack`, …",
    "producer.": "The producer: `producer.compression.type`, `producer.transaction.timeout.ms`, …",
    "consumer.": "Consumers: `consumer.fetch.message.max.bytes`, …",
    "topic.": "The topics of a cluster that belong to the application: `topic.segment.bytes`, …",
}
"""Keys that begin so are passed on as they are. What they say of Kafka's clients goes by librdkafka's names."""

FREE_PREFIXES = tuple(PREFIXES)


_SPECULATION = "spark.speculation"


def refuse_speculation(settings: Mapping[str, Any], whose: str) -> None:
    """Makes sure that Spark does not run a task a second time while the first attempt may still end well.

    Raises:
        ConfigError: It would.
    """
    if str(settings.get(_SPECULATION, "")).strip().lower() == "true":
        raise ConfigError(
            f"{whose} has {_SPECULATION} on, with which Spark runs two attempts of a task at once: both would work on "
            "the state of the task, which only one at a time may do",
            hint=f"set {_SPECULATION} to false, as it is by default, where that Spark is configured",
        )


class Config(Mapping[str, Any]):
    """The configuration of an application: every known key has a value.

    >>> Config({"topology.optimization": "all"})["topology.optimization"]
    ('reuse.ktable.source.topics', 'merge.repartition.topics', 'single.store.self.join')
    >>> Config({"topology.optimisation": "all"})
    Traceback (most recent call last):
    millstream.errors.ConfigError: unknown configuration key 'topology.optimisation'
      hint: did you mean 'topology.optimization'?
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._values = {name: key.check(name, key.default) for name, key in KEYS.items()}
        self._given = set(given.given) if isinstance(given, Config) else set()
        if isinstance(given, Config):
            self._values = dict(given._values)
            return
        for name, value in (given or {}).items():
            dotted = name if not isinstance(name, str) or name in KEYS else name.replace("_", ".")
            if not isinstance(dotted, str):
                raise ConfigError(f"unknown configuration key {name!r}: keys are text")
            if dotted.startswith(FREE_PREFIXES):
                free = name if name.startswith(FREE_PREFIXES) else dotted
                self._values[free] = value if free.startswith("spark.") else protected(free, value)
                self._given.add(free)
                continue
            if dotted not in KEYS:
                hint = suggestion(dotted, KEYS) or f"the keys are: {', '.join(KEYS)}"
                raise ConfigError(f"unknown configuration key {name!r}", hint=hint)
            self._values[dotted] = KEYS[dotted].check(dotted, protected(dotted, value))
            self._given.add(dotted)
        refuse_speculation(self._values, "the configuration")

    @property
    def given(self) -> dict[str, Any]:
        """What was said, without what holds because nothing was."""
        return {key: self._values[key] for key in sorted(self._given)}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
