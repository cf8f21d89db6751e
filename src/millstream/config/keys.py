"""The configuration keys: the default, the validator and the description of each."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from millstream.config.validators import (
    OPTIMIZATIONS,
    Validator,
    anything,
    flag,
    guarantee,
    handler,
    number,
    offset_reset,
    one_of,
    optimization,
    optional,
    secret,
    servers,
    text,
    topic,
    urls,
    user_info,
)

STRATEGIES = ("TopicName", "RecordName", "TopicRecordName")
"""The strategies for the names of subjects."""

Mode: TypeAlias = Literal["micro_batch", "real_time", "local"]
"""The values of ``execution.mode``."""

Handler: TypeAlias = "Literal['fail', 'continue'] | Callable[..., Any]"


class Key(NamedTuple):
    """One configuration key.

    Attributes:
        default: Its default value.
        check: Returns the value to use, or raises an error that names the mistake.
        doc: Its description in the reference.
    """

    default: Any
    check: Validator
    doc: str


KEYS: dict[str, Key] = {
    "default.key.serde": Key(str, anything, "The serde of keys without one of their own: a type, a name or a Serde."),
    "default.value.serde": Key(
        object, anything, "The serde of values without one of their own: a type, a name or a Serde. Default: JSON."
    ),
    "topology.optimization": Key(
        "none", optimization, "`none`, `all`, or some of " + ", ".join(f"`{o}`" for o in OPTIMIZATIONS) + "."
    ),
    "auto.register.schemas": Key(
        True, flag, "Whether serdes with a schema register it under the subject of their topic."
    ),
    "use.latest.version": Key(
        False,
        flag,
        "Whether serdes write with the latest version of their subject, and not with their own schema.",
    ),
    "normalize.schemas": Key(
        False, flag, "Whether the registry compares schemas without regard to their form (order of attributes, …)."
    ),
    "key.subject.name.strategy": Key(
        "TopicName",
        one_of(*STRATEGIES),
        "The subjects of schemas of keys: `TopicName`, `RecordName`, `TopicRecordName`.",
    ),
    "value.subject.name.strategy": Key(
        "TopicName", one_of(*STRATEGIES), "The subjects of schemas of values: the same names."
    ),
    "deserialization.exception.handler": Key(
        "fail", handler, "Handles a record that cannot be deserialized: `fail`, `continue`, or a function."
    ),
    "processing.exception.handler": Key(
        "fail", handler, "Handles a record on which a user's function raises: `fail`, `continue`, or a function."
    ),
    "production.exception.handler": Key(
        "fail", handler, "Handles a record that cannot be written: `fail`, `continue`, or a function."
    ),
    "errors.dead.letter.queue.topic.name": Key(
        None, topic, "The topic to which the handlers send the source records of failures."
    ),
    "ensure.explicit.internal.resource.naming": Key(
        False, flag, "Refuse a topology in which a store or a repartition topic has no explicit name."
    ),
    "processing.guarantee": Key(
        "exactly_once",
        guarantee,
        "`exactly_once` (also spelt `exactly_once_v2`), `at_least_once`, or `at_most_once`: a batch that was started "
        "is not read again. In real-time and local execution, `at_least_once` uses no transactions on a Kafka cluster, "
        "and results are visible as they are produced, not only after a commit.",
    ),
    "state.dir": Key(
        None,
        optional(text),
        "The data directory: log, views and checkpoints. Default: the environment variable `MILLSTREAM_DATA`, else "
        "`./.millstream`.",
    ),
    "checkpoint.location": Key(
        None,
        optional(text),
        "The location of Spark's checkpoint, if outside the data directory: a path, or a URL such as `hdfs://…`, in a "
        "file system that all executors reach. Millstream does not inspect or delete a checkpoint behind a URL: see "
        "`reset`.",
    ),
    "execution.mode": Key(
        "micro_batch",
        one_of(*get_args(Mode)),
        "How the application runs. `micro_batch`: as a Spark streaming query, in batches. `real_time`: in long-lived "
        "workers on Spark, which read and publish by themselves. `local`: in such workers in the calling process, "
        "without Spark.",
    ),
    "commit.interval.ms": Key(
        100,
        number(5, 10_000),
        "Real-time and local execution: how long a worker collects results before they are published, the commit "
        "included as far as a quarter of the interval. A shorter interval makes results visible sooner, a longer one "
        "costs less.",
    ),
    "num.tasks": Key(
        None,
        optional(number(1)),
        "The number of tasks, which share the keys. Fixed at the first start. Default: the largest partition count of "
        "the input topics, at most 48.",
    ),
    "num.workers": Key(
        None,
        optional(number(1)),
        "Real-time execution: the number of workers, which share the tasks. Each holds a core while the application "
        "runs. Default: the number of cores, at most the number of tasks.",
    ),
    "auto.offset.reset": Key(
        "earliest",
        offset_reset,
        "The start position in a topic without a committed offset of the application: `earliest`, `latest`, "
        "`by_duration:1h` (the records of the last hour), or `none`: the application does not start.",
    ),
    "input.partitioning": Key(
        "check",
        one_of("check", "repartition", "trust"),
        "Real-time and local execution: the partitioning of input topics whose records reach state directly. Kafka's "
        "own producers write a key to the partition that its murmur2 hash selects; librdkafka's default is another "
        "one. `check`: the application stops at a record in another partition. After each start, the first 10,000 "
        "records of a partition are checked, then 64 of each read. `repartition`: such topics go through a "
        "repartition topic. `trust`: no check.",
    ),
    "data.loss.handler": Key(
        "fail",
        one_of("fail", "continue"),
        "Handles records that were deleted before they were read, by retention or with their topic: `fail` stops the "
        "application; `continue` counts the lost records and continues with the remaining ones.",
    ),
    "bootstrap.servers": Key(
        None,
        optional(servers),
        "The brokers of a Kafka cluster: `host:port,host:port`. Default: the cluster that the environment variable "
        "`MILLSTREAM_BOOTSTRAP_SERVERS` or `MILLSTREAM_PROFILE` names, else the embedded log.",
    ),
    "kafka.source": Key(
        "client",
        one_of("client", "connector"),
        "The reader of topics of a Kafka cluster: Millstream's client, or Spark's Kafka connector, whose jars "
        "`spark.jars` or `spark.jars.packages` must name.",
    ),
    "security.protocol": Key(
        None,
        optional(one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        "The protocol of connections to brokers. `ssl.*` and `sasl.*` configure it.",
    ),
    "request.timeout.ms": Key(30_000, number(100), "The longest time that a broker may take to answer a request."),
    "default.api.timeout.ms": Key(
        60_000,
        number(100),
        "How long an application waits for a broker that does not answer: at its start, and between two batches, after "
        "which its query is restarted.",
    ),
    "replication.factor": Key(
        -1,
        number(-1),
        "The replication factor of the application's internal topics on a cluster; -1: the brokers' default.",
    ),
    "schema.registry.url": Key(
        None,
        optional(urls),
        "The addresses of a schema registry with Confluent's API: `http://host:port,https://host:port/path`. Default: "
        "the one that the environment variable `MILLSTREAM_SCHEMA_REGISTRY_URL` or `MILLSTREAM_PROFILE` names, else "
        "the embedded registry in the data directory.",
    ),
    "schema.registry.basic.auth.user.info": Key(
        None, optional(user_info), "Basic authentication at the schema registry: `user:password`."
    ),
    "schema.registry.bearer.auth.credentials.source": Key(
        None,
        optional(one_of("STATIC_TOKEN", "OAUTHBEARER")),
        "Bearer authentication at the schema registry: with a fixed token (`STATIC_TOKEN`, the default if there is a "
        "token), or with tokens of an OAuth server for a client id and a secret (`OAUTHBEARER`).",
    ),
    "schema.registry.bearer.auth.token": Key(None, secret, "The token of `STATIC_TOKEN`."),
    "schema.registry.bearer.auth.issuer.endpoint.url": Key(
        None, optional(text), "The address from which `OAUTHBEARER` fetches tokens."
    ),
    "schema.registry.bearer.auth.client.id": Key(None, optional(text), "The client id of `OAUTHBEARER`."),
    "schema.registry.bearer.auth.client.secret": Key(None, secret, "The client secret of `OAUTHBEARER`."),
    "schema.registry.bearer.auth.scope": Key(None, optional(text), "The scope of `OAUTHBEARER`."),
    "schema.registry.bearer.auth.logical.cluster": Key(
        None, optional(text), "The logical cluster of the registry, in a cloud that hosts several."
    ),
    "schema.registry.bearer.auth.identity.pool.id": Key(
        None, optional(text), "The identity pool, in a cloud that has them."
    ),
    "schema.registry.ssl.ca.location": Key(
        None,
        optional(text),
        "The file or folder of the certificates that sign the schema registry's. Default: those of public authorities.",
    ),
    "schema.registry.ssl.certificate.location": Key(
        None, optional(text), "The file of the client's certificate for the schema registry."
    ),
    "schema.registry.ssl.key.location": Key(
        None, optional(text), "The file of the private key, if it is not in that of the certificate."
    ),
    "schema.registry.ssl.key.password": Key(None, secret, "The password of the private key."),
    "schema.registry.enable.ssl.certificate.verification": Key(
        True, flag, "Whether the certificate of the schema registry is verified."
    ),
    "schema.registry.request.timeout.ms": Key(
        10_000, number(10), "The longest time that the schema registry may take to answer a request."
    ),
    "schema.registry.api.timeout.ms": Key(
        60_000,
        number(0),
        "How long a request for an unknown schema waits for a schema registry that is away; 0: it fails at once. Known "
        "ids and schemas need no request.",
    ),
    "schema.registry.max.retries": Key(
        3, number(0), "How many times a request is repeated that the schema registry answers with an internal error."
    ),
    "schema.registry.retries.wait.ms": Key(
        500, number(1), "The delay before the first repetition of a request; it doubles for each further one."
    ),
    "schema.registry.retries.max.wait.ms": Key(5_000, number(1), "The longest delay before a repetition of a request."),
    "schema.registry.cache.capacity": Key(
        10_000, number(1), "The number of ids and schemas that each process keeps in memory."
    ),
    "schema.registry.cache.latest.ttl.sec": Key(
        60,
        number(0),
        "How long a process keeps the latest version of a subject, in seconds. While the registry is away, it is kept "
        "longer.",
    ),
    "target.batch.ms": Key(
        500,
        number(10),
        "The target duration of a batch, from which its number of records follows. With a backlog a batch may take up "
        "to four times as long.",
    ),
    "min.batch.records": Key(
        1_000, number(1), "The target duration does not limit a batch to fewer records than this."
    ),
    "max.batch.records": Key(
        500_000,
        number(1),
        "The largest number of records in a batch, including those of repartition topics; but at least one of each "
        "partition that has any.",
    ),
    "max.batch.bytes": Key(
        16 * 1024**2,
        number(1024),
        "The approximate size limit of a batch, converted to a number of records by the size of earlier records. Java "
        "and the workers hold several copies of a batch.",
    ),
    "host.memory.max.bytes": Key(
        2 * 1024**3,
        number(1024**2),
        "The memory that a task host may use for the state of its tasks, in equal shares. State that does not fit is "
        "read from the state store on access.",
    ),
    "task.timeout.ms": Key(
        300_000,
        number(100),
        "The longest time that a task, or the function that reads a partition, may work on a batch. Then the "
        "application stops, and reports where it hangs.",
    ),
    "session.timeout.ms": Key(
        45_000,
        number(3_000),
        "Real-time execution on Spark: a worker that sends no heartbeat for this time is ended, and started again. A "
        "worker sends one each second, unless its process is stopped or a function in C holds the interpreter lock.",
    ),
    "restart.max.attempts": Key(
        10, number(0), "How many times in a row an application restarts after a transient failure."
    ),
    "restart.backoff.ms": Key(500, number(1), "The delay before the first restart; it doubles for each further one."),
    "log.cleanup.interval.ms": Key(
        60_000,
        number(0),
        "How often a running application applies retention and compaction to the topics of the embedded log; 0: never.",
    ),
    "report.interval.ms": Key(
        1000,
        number(0),
        "How often a running application writes a report of its metrics, which `millstream serve` shows; 0: never.",
    ),
    "store.views": Key(True, flag, "Named stores can be queried; each change is also written to a view."),
    "store.changelogs": Key(True, flag, "Named stores have changelog topics."),
    "exact.replays": Key(
        True,
        flag,
        "Tasks wait for records on their way through internal topics: results do not depend on how far the application "
        "is behind.",
    ),
    "status": Key(
        "auto",
        one_of("auto", "line", "text", "json", "none"),
        "The status that a running application prints on stderr. `line`: a live line; `text`: a line for each change "
        "of state and, at most every 30 seconds, one with figures; `json`: the same as JSON, with all figures each "
        "second; `none`. `auto`: `line` on a terminal, `text` in a pipe; in a notebook, problems only.",
    ),
}


class Settings(TypedDict, total=False):
    """The keys in snake case, as keyword arguments of `App`, so that type checkers report misspelt ones."""

    default_key_serde: Any
    default_value_serde: Any
    auto_register_schemas: bool
    use_latest_version: bool
    normalize_schemas: bool
    key_subject_name_strategy: str
    value_subject_name_strategy: str
    topology_optimization: str | list[str] | tuple[str, ...]
    deserialization_exception_handler: Handler
    processing_exception_handler: Handler
    production_exception_handler: Handler
    errors_dead_letter_queue_topic_name: str | None
    ensure_explicit_internal_resource_naming: bool
    processing_guarantee: Literal["exactly_once", "exactly_once_v2", "at_least_once", "at_most_once"]
    state_dir: str | PathLike[str] | None
    checkpoint_location: str | PathLike[str] | None
    execution_mode: Mode
    commit_interval_ms: int
    num_tasks: int | None
    num_workers: int | None
    auto_offset_reset: str
    input_partitioning: Literal["check", "repartition", "trust"]
    data_loss_handler: Literal["fail", "continue"]
    bootstrap_servers: str | list[str] | None
    kafka_source: Literal["client", "connector"]
    security_protocol: str | None
    request_timeout_ms: int
    default_api_timeout_ms: int
    replication_factor: int
    schema_registry_url: str | list[str] | None
    schema_registry_basic_auth_user_info: str | None
    schema_registry_bearer_auth_credentials_source: str | None
    schema_registry_bearer_auth_token: str | None
    schema_registry_bearer_auth_issuer_endpoint_url: str | None
    schema_registry_bearer_auth_client_id: str | None
    schema_registry_bearer_auth_client_secret: str | None
    schema_registry_bearer_auth_scope: str | None
    schema_registry_bearer_auth_logical_cluster: str | None
    schema_registry_bearer_auth_identity_pool_id: str | None
    schema_registry_ssl_ca_location: str | PathLike[str] | None
    schema_registry_ssl_certificate_location: str | PathLike[str] | None
    schema_registry_ssl_key_location: str | PathLike[str] | None
    schema_registry_ssl_key_password: str | None
    schema_registry_enable_ssl_certificate_verification: bool
    schema_registry_request_timeout_ms: int
    schema_registry_api_timeout_ms: int
    schema_registry_max_retries: int
    schema_registry_retries_wait_ms: int
    schema_registry_retries_max_wait_ms: int
    schema_registry_cache_capacity: int
    schema_registry_cache_latest_ttl_sec: int
    target_batch_ms: int
    min_batch_records: int
    max_batch_records: int
    max_batch_bytes: int
    host_memory_max_bytes: int
    task_timeout_ms: int
    session_timeout_ms: int
    restart_max_attempts: int
    restart_backoff_ms: int
    log_cleanup_interval_ms: int
    report_interval_ms: int
    store_views: bool
    store_changelogs: bool
    exact_replays: bool
    status: str


PREFIXES = {
    "spark.": "Spark's configuration.",
    "ssl.": "TLS: `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`, …",
    "sasl.": "SASL: `sasl.mechanism` (`PLAIN`, `SCRAM-SHA-256`, …), `sasl.username`, `sasl.password`, …",
    "enable.ssl.": "TLS: `enable.ssl.certificate.verification`.",
    "client.": "All Kafka clients: `client.id`, `client.rack`, …",
    "producer.": "The producer: `producer.compression.type`, `producer.transaction.timeout.ms`, …",
    "consumer.": "Consumers: `consumer.fetch.message.max.bytes`, …",
    "mask.key.": 'The keys of masks: `mask.key.customers` is that of `hmac("customers")`. Secret texts.',
    "topic.": "The application's internal topics on a cluster: `topic.segment.bytes`, …",
}
"""Prefixes of keys that are passed on unchanged. Those of Kafka's clients follow librdkafka's names."""
