"""Is a cluster as it should be? What can be found out without writing anything; and, if asked to, by writing a record.

Brokers tell nobody what time they have, except in a record that they stamp.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AclOperation, ConfigResource, NewTopic, ResourceType, TopicMetadata

from millstream.config.secrets import reveal
from millstream.core.diagnostics import Check
from millstream.errors import AuthenticationError, AuthorizationError, LogError, MillstreamError
from millstream.log.kafka.clients import Clients
from millstream.log.kafka.release import TRANSACTIONS, release_of, requests_of
from millstream.log.kafka.topics import is_internal
from millstream.log.opening import Cluster

_PATIENCE = 10.0
_REACH_SECONDS = 3.0
_LISTED = 3
_APART = 1.0
_LOCAL = ("127.", "localhost", "[::1]", "::1")
_BROKERS_OWN = "__"

Configs = Mapping[str, Mapping[str, str]]


def client() -> Check:
    """The client, and the library that it is made of."""
    return Check("confluent-kafka", "ok", f"{confluent_kafka.version()}, with librdkafka {_library()}")


def examine(cluster: Cluster, *, probe: bool = False) -> Iterator[Check]:
    """Gives what each look at a cluster finds, one after the other; the last one, if there is no going on after it.

    Args:
        cluster: Which one.
        probe: Make a topic for a moment, and write a record to it, to see the brokers' clock.
    """
    try:
        clients = Clients({key: reveal(value) for key, value in cluster.clients.items()}, _PATIENCE)
        clients.connect(_PATIENCE)
        answer = clients.admin.describe_cluster(include_authorized_operations=True, request_timeout=_PATIENCE)
        found = clients.result(answer, "the cluster cannot be looked at")
    except MillstreamError as error:
        name = "authentication" if isinstance(error, AuthenticationError) else "cluster"
        yield Check(name, "fail", error.message, error.hint)
        return
    nodes = sorted(found.nodes, key=lambda node: node.id)
    controller = f", controller {found.controller.id}" if found.controller is not None else ""
    count = f"{len(nodes)} broker{'s' if len(nodes) > 1 else ''}"
    yield Check("cluster", "ok", f"{count}{controller}, cluster id {found.cluster_id}")
    yield _reach((node.id, node.host, node.port) for node in nodes)
    yield _release(clients)
    yield _authentication(cluster)
    try:
        topics = clients.admin.list_topics(timeout=_PATIENCE).topics
        configs, refused = _configs(clients, topics)
    except (KafkaException, LogError) as error:
        told = clients.failure(error, "topics cannot be listed") if isinstance(error, KafkaException) else error
        yield Check("authorisation", "fail", told.message, told.hint)
        return
    yield _authorisation(topics, refused, found.authorized_operations)
    yield from _topics(topics, configs, len(nodes))
    if probe:
        yield _clock(clients)


def _release(clients: Clients) -> Check:
    try:
        requests = requests_of(clients)
    except KafkaException as error:
        told = clients.failure(error, "the brokers cannot be asked what they are")
        return Check("release", "fail", told.message, told.hint)
    release = release_of(requests)
    if not requests:
        return Check("release", "warn", "the brokers do not tell", "Millstream is tried with Kafka 4")
    if not all(request in requests for request in TRANSACTIONS):
        return Check("release", "fail", "the brokers have no transactions", "exactly once needs Kafka 2.8 or later")
    if release is None:
        return Check("release", "warn", "older than Kafka 2.8", "Millstream is tried with Kafka 4")
    return Check("release", "ok", f"Kafka {release} or later")


def _clock(clients: Clients) -> Check:
    """How far the clock of a broker is from ours, as a record tells that it has stamped."""
    topic = f"millstream-doctor-{uuid.uuid4().hex[:8]}"
    new = NewTopic(topic, 1, config={"message.timestamp.type": "LogAppendTime"})
    try:
        clients.result(clients.admin.create_topics([new])[topic], f"topic {topic!r} cannot be made")
        try:
            before, stamp, after = time.time(), _stamp(clients, topic), time.time()
        finally:
            clients.result(clients.admin.delete_topics([topic])[topic], f"topic {topic!r} cannot be deleted")
    except (KafkaException, LogError) as error:
        told = clients.failure(error, "a record cannot be written") if isinstance(error, KafkaException) else error
        return Check("clock", "fail", told.message, told.hint)
    if stamp is None:
        return Check("clock", "fail", f"no broker has stamped a record within {_PATIENCE:g} s", "are they busy?")
    apart = max(0.0, before - stamp, stamp - after)
    if apart > _APART:
        found = f"that of the brokers is {apart:.1f} s {'behind' if stamp < before else 'ahead of'} ours"
        fix = "let both follow a time server: windows, retention and the ticks of an application go by these clocks"
        return Check("clock", "warn", found, fix)
    return Check("clock", "ok", f"less than {max(_APART, after - before):.1f} s from that of the brokers")


def _stamp(clients: Clients, topic: str) -> float | None:
    """The time that a broker gives to a record, in seconds; None if it takes too long."""
    told: list[tuple[KafkaError | None, Message]] = []
    producer = clients.plain_producer()
    producer.produce(topic, b"", on_delivery=lambda error, record: told.append((error, record)))
    producer.flush(_PATIENCE)
    for error, record in told:
        if error is not None:
            raise KafkaException(error)
        return record.timestamp()[1] / 1000
    return None


def _library() -> str:
    return str(confluent_kafka.libversion()[0])


def _reach(nodes: Iterable[tuple[int, str, int]]) -> Check:
    """The first connection goes where we say; all others go where the brokers say that they are."""
    away = []
    for number, host, port in nodes:
        try:
            with socket.create_connection((host, port), timeout=_REACH_SECONDS):
                pass
        except OSError as error:
            away.append(f"broker {number} says that it is at {host}:{port}: {error.strerror or error}")
    if not away:
        return Check("brokers", "ok", "each can be reached where it says that it is")
    fix = "its advertised.listeners must have an address that this machine reaches"
    return Check("brokers", "fail", "; ".join(away), fix)


def _authentication(cluster: Cluster) -> Check:
    settings = cluster.clients
    protocol = str(settings.get("security.protocol") or "PLAINTEXT")
    mechanism, user = settings.get("sasl.mechanism"), settings.get("sasl.username")
    who = f", {mechanism} as {user!r}" if protocol.startswith("SASL") and user else ""
    local = all(server.strip().startswith(_LOCAL) for server in cluster.servers.split(","))
    if protocol == "SASL_PLAINTEXT" and mechanism == "PLAIN" and not local:
        found = f"{protocol}{who}: whoever listens on the network reads the password"
        return Check("authentication", "warn", found, "security.protocol=SASL_SSL, if the cluster has it")
    return Check("authentication", "ok", f"{protocol}{who}")


def _authorisation(
    topics: Mapping[str, TopicMetadata], refused: list[str], operations: Iterable[AclOperation] | None
) -> Check:
    name = "authorisation"
    if refused:
        found = f"the configuration of {_listed(refused)} cannot be read"
        return Check(name, "fail", found, "the user needs the right DescribeConfigs on its topics")
    seen = sum(not topic.startswith(_BROKERS_OWN) for topic in topics)
    anywhere = {AclOperation.CREATE, AclOperation.ALL} & set(operations or ())  # of no rights, the client makes None
    more = "" if anywhere else "; topics can be made only under names to which the user has the right Create"
    return Check(name, "ok", f"topics that the user may see: {seen}{more}")


def topic_configs(cluster: Cluster) -> Configs:
    """The whole configuration of the topics of a cluster that may be looked at, with what holds by default."""
    clients = Clients({key: reveal(value) for key, value in cluster.clients.items()}, _PATIENCE)
    try:
        return _configs(clients, clients.admin.list_topics(timeout=_PATIENCE).topics)[0]
    except KafkaException as error:
        raise clients.failure(error, "topics cannot be listed") from error


def _configs(clients: Clients, topics: Iterable[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The whole configuration of topics, with what holds by default; and those of which it is not told."""
    found: dict[str, dict[str, str]] = {}
    refused = []
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics if not name.startswith(_BROKERS_OWN)]
    answers = clients.admin.describe_configs(resources, request_timeout=_PATIENCE) if resources else {}
    for resource, answer in answers.items():
        try:
            entries: Mapping[str, Any] = clients.result(answer, f"topic {resource.name!r} cannot be looked at")
        except AuthorizationError:
            refused.append(resource.name)
        else:
            found[resource.name] = {key: entry.value for key, entry in entries.items()}
    return found, sorted(refused)


def _topics(topics: Mapping[str, TopicMetadata], configs: Configs, brokers: int) -> Iterator[Check]:
    """Only what bites, each with the topics that it is about."""
    replicas = {
        name: min((len(part.replicas) for part in topic.partitions.values()), default=0)
        for name, topic in topics.items()
    }
    least = {name: int(config.get("min.insync.replicas", 1)) for name, config in configs.items()}
    parts = {name: topic.partitions.values() for name, topic in topics.items()}
    bad = {
        "a partition has no leader: it can be neither read nor written": (
            [name for name in topics if any(part.leader < 0 for part in parts[name])],
            "start the brokers that are away",
        ),
        "a replica is behind or away": (
            [name for name in topics if any(len(part.isrs) < len(part.replicas) for part in parts[name])],
            "start the brokers that are away, or wait until they have caught up",
        ),
        "min.insync.replicas is above the number of replicas: nothing can be written": (
            [name for name in least if least[name] > replicas[name]],
            "lower min.insync.replicas of the topic, or give it more replicas",
        ),
        "min.insync.replicas is the number of replicas: nothing can be written while one broker is away": (
            [name for name in least if 1 < least[name] == replicas[name]],
            "min.insync.replicas one below the number of replicas",
        ),
        "min.insync.replicas is 1: what was acknowledged can be lost with one broker": (
            [name for name in least if replicas[name] > 1 and least[name] == 1],
            "min.insync.replicas=2, with three replicas",
        ),
        f"there is one replica, though there are {brokers} brokers: what is in it is lost with one of them": (
            [name for name in topics if brokers > 1 and replicas[name] == 1],
            "three replicas; for the topics of an application, replication.factor=3 before it first runs",
        ),
        "it holds state, and is not compacted: the state is deleted with time": (
            [
                name
                for name, config in configs.items()
                if is_internal(name)
                and not name.endswith("-repartition")
                and "compact" not in config.get("cleanup.policy", "")
            ],
            "cleanup.policy=compact",
        ),
        "records are deleted though they may not have been read": (
            [
                name
                for name, config in configs.items()
                if name.endswith("-repartition") and config.get("retention.ms", "-1") != "-1"
            ],
            "retention.ms=-1; what has been read, the application deletes",
        ),
    }
    warned = False
    for what, (names, fix) in bad.items():
        if names:
            warned = True
            yield Check("topics", "warn", f"{_listed(names)}: {what}", fix)
    if not warned:
        yield Check("topics", "ok", "nothing in their settings bites")


def _listed(names: Iterable[str]) -> str:
    """Some names, and how many more there are.

    >>> _listed(["e", "d", "c", "b", "a"])
    'a, b, c and 2 more'
    """
    known = sorted(names)
    more = len(known) - _LISTED
    return ", ".join(known[:_LISTED]) + (f" and {more} more" if more > 0 else "")
