"""Configuration: Kafka's keys, with Python's spelling accepted too, and an error for every key that is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from millstream.errors import ConfigError, suggestion
from millstream.names import check_name


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
    return value if callable(value) else _one_of("fail", "continue")(key, value)


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
        "Where Spark keeps the checkpoint, if not in the data directory: a file system that all executors reach.",
    ),
    "num.tasks": Key(
        None,
        _optional(_number(1)),
        "How many tasks the keys are dealt to. Decided at the first start; by default the largest number of partitions "
        "of the input topics.",
    ),
    "auto.offset.reset": Key(
        "earliest", _one_of("earliest", "latest"), "Where an application begins to read a topic that is new to it."
    ),
    "target.batch.ms": Key(500, _number(10), "How long a batch should take; how many records it has follows from it."),
    "min.batch.records": Key(1_000, _number(1), "A batch has no fewer records than this because of its target time."),
    "max.batch.records": Key(500_000, _number(1), "A batch has no more records than this."),
    "host.memory.max.bytes": Key(
        2 * 1024**3,
        _number(1024**2),
        "How much memory a task host may use for the state of its tasks; what does not fit is read when it is needed.",
    ),
    "task.timeout.ms": Key(
        300_000,
        _number(100),
        "How long a task may work on a batch; then the application stops and says where it hangs.",
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
        _one_of("auto", "line", "json", "none"),
        "What a running application shows: a live `line`, `json` lines, `none`; `auto`: line or, if piped, json.",
    ),
}

FREE_PREFIXES = ("spark.",)
"""Keys that begin so are passed on as they are."""


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
        for name, value in (given or {}).items():
            dotted = name if not isinstance(name, str) or name in KEYS else name.replace("_", ".")
            if not isinstance(dotted, str):
                raise ConfigError(f"unknown configuration key {name!r}: keys are text")
            if dotted.startswith(FREE_PREFIXES):
                self._values[name if name.startswith(FREE_PREFIXES) else dotted] = value
                continue
            if dotted not in KEYS:
                hint = suggestion(dotted, KEYS) or f"the keys are: {', '.join(KEYS)}"
                raise ConfigError(f"unknown configuration key {name!r}", hint=hint)
            self._values[dotted] = KEYS[dotted].check(dotted, value)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
