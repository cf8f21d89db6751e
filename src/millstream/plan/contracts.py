"""Contracts of topics as operators hold them: the rules that records must obey, and the masks of tagged fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from millstream.config.secrets import reveal
from millstream.core.frozen import Frozen
from millstream.errors import ConfigError
from millstream.plan.functions import Function
from millstream.plan.node import Node, Plan

OnViolation: TypeAlias = Literal["fail", "drop", "quarantine"]
Reason: TypeAlias = Literal["violated", "null", "error", "schema"]
"""Why a record violates a contract: its condition is false, is null or raises; or the bytes do not fit the schema."""

SCHEMA_RULE = "schema"
"""The name of the rule that a record can be read, or written."""

NULL_RULE = "no null values"
"""The name of the rule that values are not null."""

KEY_PREFIX = "mask.key."
"""The prefix of the configuration keys with the keys of masks."""

_LEAST_KEY = 16
_DONE = {"drop": "dropped by contract ", "quarantine": "quarantined by contract "}
_COUNTED = re.compile(
    r"(?P<done>dropped|quarantined) by contract (?P<contract>\S+): (?P<rule>.*): (?P<reason>\w+)", re.DOTALL
)


class Rule(Frozen):
    """A condition with a name.

    Attributes:
        condition: A function of the record. The record obeys the rule if the result is true.
        on_violation: What happens to a record that violates it.
    """

    name: str
    condition: Function
    on_violation: OnViolation


class Mask(Frozen):
    """Replaces the values of fields with a tag.

    Attributes:
        tag: The tag.
        key: The name of the key of HMAC-SHA-256; None if the values are replaced by a constant.
        constant: The constant.
    """

    tag: str
    key: str | None = None
    constant: Any = None

    @property
    def config_key(self) -> str:
        """The configuration key with the key of HMAC."""
        return f"{KEY_PREFIX}{self.key}"


class Contract(Frozen):
    """The contract of a topic that an operator reads or writes.

    Attributes:
        on_violation: What happens to records that do not fit the schema.
        quarantine: The quarantine topic that the user named.
        tags: Pairs of the path of a field and its tag.
        allows_null: Records with a null value are not checked.
    """

    name: str
    rules: tuple[Rule, ...]
    on_violation: OnViolation
    masks: tuple[Mask, ...] = ()
    quarantine: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    allows_null: bool = True

    def quarantine_topic(self, config: Mapping[str, Any]) -> str | None:
        """Returns the quarantine topic; None if no record goes there."""
        if "quarantine" not in {self.on_violation, *(rule.on_violation for rule in self.rules)}:
            return None
        return self.quarantine or config["errors.dead.letter.queue.topic.name"] or f"{self.name}-quarantine"

    def plain(self) -> dict[str, Any]:
        """Returns the contract as plain data, for descriptions and comparisons."""
        rules = [{"name": rule.name, "on_violation": rule.on_violation} for rule in self.rules]
        masks = [
            {"tag": mask.tag, "with": "constant" if mask.key is None else f"hmac {mask.key}"} for mask in self.masks
        ]
        tags = [{"field": field, "tag": tag} for field, tag in self.tags]
        shown = {"name": self.name, "on_violation": self.on_violation, "rules": rules, "masks": masks, "tags": tags}
        extra = {} if self.quarantine is None else {"quarantine": self.quarantine}
        return {**shown, **extra} if self.allows_null else {**shown, **extra, "allow_null": False}


def contract_of(node: Node) -> Contract | None:
    """Returns the contract of a source, a global table or a sink."""
    contract: Contract | None = getattr(node, "contract", None)
    return contract


def same_contract(a: Contract | None, b: Contract | None) -> bool:
    """Whether two contracts have the same options, and the same conditions."""
    if a is None or b is None:
        return a is b
    conditions = zip(a.rules, b.rules, strict=False)
    return a.plain() == b.plain() and all(x.condition.target is y.condition.target for x, y in conditions)


def quarantine_topics(plan: Plan, config: Mapping[str, Any]) -> set[str]:
    """Returns the quarantine topics of an application."""
    contracts = [contract for node in plan.nodes if (contract := contract_of(node)) is not None]
    return {topic for contract in contracts if (topic := contract.quarantine_topic(config)) is not None}


def mask_key(mask: Mask, config: Mapping[str, Any], contract: str) -> bytes:
    """Returns the key of a mask.

    Raises:
        ConfigError: The configuration does not have it, or it is short.
    """
    name = mask.config_key
    key = reveal(config.get(name))
    where = f"contract {contract!r} masks fields with the tag {mask.tag!r}"
    if not isinstance(key, str) or not key:
        raise ConfigError(
            f"{where}, and the key is missing: {name} is not set",
            hint=f'set it to a secret text: App(…, config={{"{name}": "${{env:MASK_KEY}}"}})',
        )
    if len(key) < _LEAST_KEY:
        raise ConfigError(
            f"{where}, and the key {name} has less than {_LEAST_KEY} characters",
            hint="a short key can be guessed, and then the values, too: take 32 random characters",
        )
    return key.encode()


def check_keys(plan: Plan, config: Mapping[str, Any]) -> None:
    """Checks that the configuration has the keys of all masks.

    Raises:
        ConfigError: A key is missing or short.
    """
    for node in plan.nodes:
        contract = contract_of(node)
        for mask in () if contract is None else contract.masks:
            if mask.key is not None and contract is not None:
                mask_key(mask, config, contract.name)


class Counted(NamedTuple):
    """A counted violation: whether the record went to quarantine, or was dropped; contract, rule and reason."""

    is_quarantined: bool
    contract: str
    rule: str
    reason: str


def counted_as(contract: str, rule: str, reason: Reason, on_violation: OnViolation) -> str:
    """Returns the reason under which a violation is counted among dropped records; `counted` reads it.

    >>> counted_as("orders", "positive", "violated", "quarantine")
    'quarantined by contract orders: positive: violated'
    """
    return f"{_DONE[on_violation]}{contract}: {rule}: {reason}"


def counted(reason: str) -> Counted | None:
    """Returns the violation that was counted under a reason; None if it is another reason.

    >>> counted("dropped by contract orders: positive: null")
    Counted(is_quarantined=False, contract='orders', rule='positive', reason='null')
    >>> counted("null key")
    """
    match = _COUNTED.fullmatch(reason)
    return (
        None
        if match is None
        else Counted(match["done"] == "quarantined", match["contract"], match["rule"], match["reason"])
    )
