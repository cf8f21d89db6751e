"""Topics of a cluster: created, described, changed and deleted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from millstream.core.names import check_name
from millstream.errors import BrokerError, ConfigError, LogError, TopicExistsError, UnknownTopicError, suggestion
from millstream.log.api import Offsets, Topic
from millstream.log.kafka.clients import Clients, code_of
from millstream.log.topic_config import check_partitions

_INTERNAL = re.compile(r".+-(changelog|repartition|progress(\..+)?)")
"""A journal of a worker ends in ``-progress.WORKER``."""

_POLL = 0.02
_BROKERS_OWN = "__"


def find_all(clients: Clients) -> dict[str, Topic]:
    """Returns all topics except those of the brokers, by name."""
    counts = all_counts(clients)
    configs = _configs(clients, list(counts))
    return {name: Topic(name, counts[name], configs[name], is_internal(name)) for name in sorted(configs)}


def find(clients: Clients, name: str) -> Topic:
    """Returns the topic of that name, or raises an `UnknownTopicError`."""
    count = count_of(clients, name)
    return Topic(name, count, _configs(clients, [name]).get(name, {}), is_internal(name))


def count_of(clients: Clients, name: str) -> int:
    """Returns the number of partitions of a topic."""
    return counts_of(clients, [name])[name]


def counts_of(clients: Clients, names: Iterable[str], *, age: float = 0.0) -> dict[str, int]:
    """Returns the numbers of partitions of topics, at most `age` seconds old."""
    wanted = list(names)
    topics = clients.counts.get(age)
    if not all(topics.get(name) for name in wanted):
        topics = _listed(clients)
    for name in wanted:
        if not topics.get(name):
            raise _unknown(clients, name, topics)
    return {name: topics[name] for name in wanted}


def all_counts(clients: Clients) -> dict[str, int]:
    """Returns the number of partitions of each topic, except those of the brokers."""
    return {name: count for name, count in _listed(clients).items() if not name.startswith(_BROKERS_OWN)}


def _listed(clients: Clients) -> dict[str, int]:
    """Returns the number of partitions of each topic. A closed connection is retried."""
    deadline = time.monotonic() + clients.timeout
    while True:
        try:
            topics = clients.admin.list_topics(timeout=clients.timeout).topics
            return clients.counts.set({name: len(topic.partitions) for name, topic in topics.items()})
        except KafkaException as error:
            if code_of(error).code() != KafkaError._TRANSPORT or time.monotonic() > deadline:
                raise clients.failure(error, "topics cannot be listed") from error
            time.sleep(_POLL)


def _unknown(clients: Clients, name: str, topics: Iterable[str]) -> UnknownTopicError:
    if name:
        _check_right(clients, name)
    names = sorted(topic for topic in topics if not topic.startswith(_BROKERS_OWN))
    hint = suggestion(str(name), names) or (
        "create it first" if len(names) > 20 else f"the topics are: {', '.join(names)}" if names else "there are none"
    )
    return UnknownTopicError(f"there is no topic {name!r}", hint=hint)


def _check_right(clients: Clients, name: str) -> None:
    """Describes a topic, because a list of topics silently leaves out those that the user may not see."""
    answer = clients.admin.describe_topics(TopicCollection([str(name)]), request_timeout=clients.timeout)[str(name)]
    what = f"topic {name!r} cannot be described"
    try:
        clients.answer(answer, what)
    except KafkaException as error:
        if code_of(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise clients.failure(error, what) from error


def create(clients: Clients, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
    """Creates a topic, and waits until it is visible."""
    check_name(name, "topic")
    check_partitions(partitions)
    replication = _replication(config.get("replication.factor", "-1"))
    rest = {key: value for key, value in config.items() if key != "replication.factor"}
    new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=rest)
    deadline = time.monotonic() + clients.timeout
    while True:
        try:
            clients.answer(clients.admin.create_topics([new])[name], f"topic {name!r} cannot be created")
            break
        except KafkaException as error:
            if not _is_fenced(code_of(error)) or time.monotonic() > deadline:
                raise _refused(clients, error, name) from error
            time.sleep(_POLL)
    _until(clients, lambda: count_of(clients, name) == partitions, f"topic {name!r} does not appear")
    return find(clients, name)


def _replication(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"replication.factor: {text!r} is not a whole number") from None


def delete(clients: Clients, name: str) -> None:
    """Deletes a topic, and waits until it has disappeared."""
    find(clients, name)
    clients.result(clients.admin.delete_topics([name])[name], f"topic {name!r} cannot be deleted")

    def is_gone() -> bool:
        try:
            count_of(clients, name)
        except UnknownTopicError:
            return True
        return False

    _until(clients, is_gone, f"topic {name!r} does not disappear")


def delete_records(clients: Clients, offsets: Offsets) -> None:
    """Deletes the records before these offsets."""
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    if places:
        for place, answer in clients.admin.delete_records(places).items():
            clients.result(answer, f"records of topic {place.topic!r} cannot be deleted")


def add_partitions(clients: Clients, name: str, total: int) -> Topic:
    """Adds partitions to a topic."""
    check_partitions(total)
    topic = find(clients, name)
    if total <= topic.partitions:
        raise ConfigError(f"topic {name!r} has {topic.partitions} partitions already, and cannot have {total}")
    clients.result(
        clients.admin.create_partitions([NewPartitions(name, total)])[name],
        f"partitions cannot be added to topic {name!r}",
    )
    _until(clients, lambda: count_of(clients, name) == total, f"the new partitions of topic {name!r} do not appear")
    return find(clients, name)


def alter(clients: Clients, name: str, config: Mapping[str, str | None]) -> Topic:
    """Changes keys of a topic's configuration; None restores the default of a key."""
    before = find(clients, name).config
    resource = ConfigResource(ResourceType.TOPIC, name)
    for key, value in config.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
    try:
        clients.answer(
            clients.admin.incremental_alter_configs([resource])[resource], f"topic {name!r} cannot be changed"
        )
    except KafkaException as error:
        raise _refused(clients, error, name) from error
    wanted = {key: value for key, value in {**before, **config}.items() if value is not None}
    _until(
        clients, lambda: find(clients, name).config == wanted, f"the configuration of topic {name!r} does not change"
    )
    return find(clients, name)


def _configs(clients: Clients, names: list[str]) -> dict[str, dict[str, str]]:
    """Returns the explicit configuration of topics, by topic and key. Deleted topics are left out."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    configs = {}
    for resource, future in clients.admin.describe_configs(resources).items():
        try:
            entries = clients.result(future, f"the configuration of topic {resource.name!r} cannot be read")
        except LogError as error:
            if (
                isinstance(error.__cause__, KafkaException)
                and code_of(error.__cause__).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            ):
                continue
            raise
        configs[resource.name] = {
            key: entry.value
            for key, entry in entries.items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
    return configs


def _refused(clients: Clients, error: KafkaException, name: str) -> LogError | ConfigError:
    cause = code_of(error)
    if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return TopicExistsError(f"topic {name!r} exists already")
    if cause.code() in {KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR} and not _is_fenced(cause):
        return ConfigError(f"topic {name!r}: {cause.str()}")
    return clients.failure(error, f"topic {name!r}")


def _is_fenced(cause: KafkaError) -> bool:
    """Whether all brokers are fenced: a broker that starts, or was silent for long, is, for a moment.

    Only the text tells this from a replication factor that is too large.
    """
    return cause.code() == KafkaError.INVALID_REPLICATION_FACTOR and "All brokers are currently fenced" in cause.str()


def is_internal(name: str) -> bool:
    """Returns whether a topic belongs to an application. Kafka does not record that, so its name decides."""
    return _INTERNAL.fullmatch(name) is not None


def _until(clients: Clients, condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition, because changes by one broker reach the others with a delay."""
    deadline = time.monotonic() + clients.timeout
    while True:
        try:
            if condition():
                return
        except UnknownTopicError:
            pass
        if time.monotonic() > deadline:
            raise BrokerError(what)
        time.sleep(_POLL)
