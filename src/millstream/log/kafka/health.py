"""Checks of a cluster: read-only, and on request one that writes a record.

Brokers report their clock only in records with log-append time.
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
    """Reports the versions of the client and of its library."""
    return Check("confluent-kafka", "ok", f"{confluent_kafka.version()}, with librdkafka {_library()}")


def examine(cluster: Cluster, *, probe: bool = False) -> Iterator[Check]:
    """Yields checks of a cluster. A check that fails may be the last one.

    Args:
        cluster: The cluster.
        probe: Create a temporary topic, and write a record to it, to check the brokers' clock.
    """
    try:
        clients = Clients({key: reveal(value) for key, value in cluster.clients.items()}, _PATIENCE)
        clients.connect(_PATIENCE)
        answer = clients.admin.describe_cluster(include_authorized_operations=True, request_timeout=_PATIENCE)
        description = clients.result(answer, "the cluster cannot be described")
    except MillstreamError as error:
        name = "authentication" if isinstance(error, AuthenticationError) else "cluster"
        yield Check(name, "fail", error.message, error.hint)
        return
    nodes = sorted(description.nodes, key=lambda node: node.id)
    controller = f", controller {description.controller.id}" if description.controller is not None else ""
    count = f"{len(nodes)} broker{'s' if len(nodes) > 1 else ''}"
    yield Check("cluster", "ok", f"{count}{controller}, cluster id {description.cluster_id}")
    yield _reach((node.id, node.host, node.port) for node in nodes)
    yield _release(clients)
    yield _authentication(cluster)
    try:
        topics = clients.admin.list_topics(timeout=_PATIENCE).topics
        configs, refused = _configs(clients, topics)
    except (KafkaException, LogError) as error:
        failure = clients.failure(error, "topics cannot be listed") if isinstance(error, KafkaException) else error
        yield Check("authorisation", "fail", failure.message, failure.hint)
        return
    yield _authorisation(topics, refused, description.authorized_operations)
    yield from _topics(topics, configs, len(nodes))
    if probe:
        yield _clock(clients)


def _release(clients: Clients) -> Check:
    try:
        requests = requests_of(clients)
    except KafkaException as error:
        failure = clients.failure(error, "the brokers do not report their release")
        return Check("release", "fail", failure.message, failure.hint)
    release = release_of(requests)
    if not requests:
        return Check("release", "warn", "the brokers do not report it", "Millstream is tested with Kafka 4")
    if not all(request in requests for request in TRANSACTIONS):
        return Check("release", "fail", "the brokers have no transactions", "exactly-once requires Kafka 2.8 or later")
    if release is None:
        return Check("release", "warn", "older than Kafka 2.8", "Millstream is tested with Kafka 4")
    return Check("release", "ok", f"Kafka {release} or later")


def _clock(clients: Clients) -> Check:
    """Compares the clock of a broker with the local one, by the timestamp of a record."""
    topic = f"millstream-doctor-{uuid.uuid4().hex[:8]}"
    new = NewTopic(topic, 1, config={"message.timestamp.type": "LogAppendTime"})
    try:
        clients.result(clients.admin.create_topics([new])[topic], f"topic {topic!r} cannot be created")
        try:
            before, stamp, after = time.time(), _stamp(clients, topic), time.time()
        finally:
            clients.result(clients.admin.delete_topics([topic])[topic], f"topic {topic!r} cannot be deleted")
    except (KafkaException, LogError) as error:
        failure = clients.failure(error, "a record cannot be written") if isinstance(error, KafkaException) else error
        return Check("clock", "fail", failure.message, failure.hint)
    if stamp is None:
        return Check("clock", "fail", f"no broker has acknowledged a record within {_PATIENCE:g} s", "are they busy?")
    apart = max(0.0, before - stamp, stamp - after)
    if apart > _APART:
        difference = f"that of the brokers is {apart:.1f} s {'behind' if stamp < before else 'ahead of'} the local one"
        fix = "synchronize both with a time server: windows, retention and punctuation depend on these clocks"
        return Check("clock", "warn", difference, fix)
    return Check("clock", "ok", f"less than {max(_APART, after - before):.1f} s from that of the brokers")


def _stamp(clients: Clients, topic: str) -> float | None:
    """Returns the log-append time of a record, in seconds; None after a timeout."""
    deliveries: list[tuple[KafkaError | None, Message]] = []
    producer = clients.plain_producer()
    producer.produce(topic, b"", on_delivery=lambda error, record: deliveries.append((error, record)))
    producer.flush(_PATIENCE)
    for error, record in deliveries:
        if error is not None:
            raise KafkaException(error)
        return record.timestamp()[1] / 1000
    return None


def _library() -> str:
    return str(confluent_kafka.libversion()[0])


def _reach(nodes: Iterable[tuple[int, str, int]]) -> Check:
    """Checks the advertised addresses: clients use the bootstrap servers for the first connection only."""
    away = []
    for number, host, port in nodes:
        try:
            with socket.create_connection((host, port), timeout=_REACH_SECONDS):
                pass
        except OSError as error:
            away.append(f"broker {number} advertises {host}:{port}: {error.strerror or error}")
    if not away:
        return Check("brokers", "ok", "each can be reached at its advertised address")
    fix = "its advertised.listeners must have an address that this machine can reach"
    return Check("brokers", "fail", "; ".join(away), fix)


def _authentication(cluster: Cluster) -> Check:
    settings = cluster.clients
    protocol = str(settings.get("security.protocol") or "PLAINTEXT")
    mechanism, user = settings.get("sasl.mechanism"), settings.get("sasl.username")
    who = f", {mechanism} as {user!r}" if protocol.startswith("SASL") and user else ""
    local = all(server.strip().startswith(_LOCAL) for server in cluster.servers.split(","))
    if protocol == "SASL_PLAINTEXT" and mechanism == "PLAIN" and not local:
        risk = f"{protocol}{who}: the password is readable on the network"
        return Check("authentication", "warn", risk, "security.protocol=SASL_SSL, if the cluster has it")
    return Check("authentication", "ok", f"{protocol}{who}")


def _authorisation(
    topics: Mapping[str, TopicMetadata], refused: list[str], operations: Iterable[AclOperation] | None
) -> Check:
    name = "authorisation"
    if refused:
        problem = f"the configuration of {_listed(refused)} cannot be read"
        return Check(name, "fail", problem, "the user needs the right DescribeConfigs on its topics")
    visible = sum(not topic.startswith(_BROKERS_OWN) for topic in topics)
    anywhere = {AclOperation.CREATE, AclOperation.ALL} & set(operations or ())  # None if there are none
    more = "" if anywhere else "; topics can be created only under names for which the user has the right Create"
    return Check(name, "ok", f"topics that are visible to the user: {visible}{more}")


def topic_configs(cluster: Cluster) -> Configs:
    """Returns the configurations of the visible topics of a cluster, including defaults."""
    clients = Clients({key: reveal(value) for key, value in cluster.clients.items()}, _PATIENCE)
    try:
        return _configs(clients, clients.admin.list_topics(timeout=_PATIENCE).topics)[0]
    except KafkaException as error:
        raise clients.failure(error, "topics cannot be listed") from error


def _configs(clients: Clients, topics: Iterable[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Returns the configurations of topics, including defaults, and the topics that the user may not describe."""
    configs: dict[str, dict[str, str]] = {}
    refused = []
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics if not name.startswith(_BROKERS_OWN)]
    answers = clients.admin.describe_configs(resources, request_timeout=_PATIENCE) if resources else {}
    for resource, answer in answers.items():
        try:
            entries: Mapping[str, Any] = clients.result(answer, f"topic {resource.name!r} cannot be described")
        except AuthorizationError:
            refused.append(resource.name)
        else:
            configs[resource.name] = {key: entry.value for key, entry in entries.items()}
    return configs, sorted(refused)


def _topics(topics: Mapping[str, TopicMetadata], configs: Configs, brokers: int) -> Iterator[Check]:
    """Yields a warning for each problem, with the affected topics."""
    replicas = {
        name: min((len(part.replicas) for part in topic.partitions.values()), default=0)
        for name, topic in topics.items()
    }
    least = {name: int(config.get("min.insync.replicas", 1)) for name, config in configs.items()}
    parts = {name: topic.partitions.values() for name, topic in topics.items()}
    bad = {
        "a partition has no leader: it can be neither read nor written": (
            [name for name in topics if any(part.leader < 0 for part in parts[name])],
            "start the brokers that are down",
        ),
        "a replica is behind or offline": (
            [name for name in topics if any(len(part.isrs) < len(part.replicas) for part in parts[name])],
            "start the brokers that are down, or wait until they have caught up",
        ),
        "min.insync.replicas is above the number of replicas: nothing can be written": (
            [name for name in least if least[name] > replicas[name]],
            "lower min.insync.replicas of the topic, or give it more replicas",
        ),
        "min.insync.replicas is the number of replicas: nothing can be written while one broker is down": (
            [name for name in least if 1 < least[name] == replicas[name]],
            "set min.insync.replicas to one less than the number of replicas",
        ),
        "min.insync.replicas is 1: acknowledged records can be lost with one broker": (
            [name for name in least if replicas[name] > 1 and least[name] == 1],
            "min.insync.replicas=2, with three replicas",
        ),
        f"there is one replica, though there are {brokers} brokers: records are lost with one of them": (
            [name for name in topics if brokers > 1 and replicas[name] == 1],
            "three replicas; for the topics of an application, replication.factor=3 before it first runs",
        ),
        "it holds state, and is not compacted: retention deletes the state": (
            [
                name
                for name, config in configs.items()
                if is_internal(name)
                and not name.endswith("-repartition")
                and "compact" not in config.get("cleanup.policy", "")
            ],
            "cleanup.policy=compact",
        ),
        "records may be deleted before they are read": (
            [
                name
                for name, config in configs.items()
                if name.endswith("-repartition") and config.get("retention.ms", "-1") != "-1"
            ],
            "retention.ms=-1; the application deletes records that it has read",
        ),
    }
    warned = False
    for problem, (names, fix) in bad.items():
        if names:
            warned = True
            yield Check("topics", "warn", f"{_listed(names)}: {problem}", fix)
    if not warned:
        yield Check("topics", "ok", "no problem in their settings")


def _listed(names: Iterable[str]) -> str:
    """Returns the first names, and the number of the others.

    >>> _listed(["e", "d", "c", "b", "a"])
    'a, b, c and 2 more'
    """
    ordered = sorted(names)
    more = len(ordered) - _LISTED
    return ", ".join(ordered[:_LISTED]) + (f" and {more} more" if more > 0 else "")
