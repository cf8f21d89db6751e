"""Contracts of topics: conditions that records must meet when they are read or written, and masks of tagged fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from millstream.core.frozen import Frozen
from millstream.core.names import check_name
from millstream.dsl.internals import KEY_VALUE, NodeOutput
from millstream.dsl.suggesting import suggesting
from millstream.errors import TopologyError, suggestion
from millstream.expr import Expr
from millstream.plan.contracts import NULL_RULE, SCHEMA_RULE, Contract, Mask, OnViolation, Rule
from millstream.plan.functions import describe_callable

if TYPE_CHECKING:
    from millstream.plan.builder import Builder
    from millstream.serde import Serde

Condition: TypeAlias = Expr | Callable[..., object]
"""An expression, or a function of the value, or of key and value, that says whether a record is good."""

_CHOICES = get_args(OnViolation)
_LONGEST_NAME = 200


class NamedRule(Frozen):
    """A condition with a name: see `rule`."""

    name: str
    condition: Condition
    on_violation: OnViolation | None = None


class Hmac(Frozen):
    """The masking of values by HMAC-SHA-256: see `hmac`."""

    key: str


class MaskRule(Frozen):
    """The masking of fields with a tag: see `mask`."""

    tag: str
    with_: object


class ContractOption(Frozen):
    """A contract as the user made it: see `contract`."""

    rules: tuple[NamedRule, ...]
    masks: tuple[MaskRule, ...]
    on_violation: OnViolation
    name: str | None
    quarantine: str | None
    tags: tuple[tuple[str, str], ...]
    allow_null: bool


@suggesting
def contract(
    *rules: Condition | NamedRule | MaskRule,
    name: str | None = None,
    on_violation: OnViolation = "fail",
    quarantine: str | None = None,
    tags: Mapping[str, str | Sequence[str]] | None = None,
    allow_null: bool = True,
) -> ContractOption:
    """Makes a contract of a topic: the conditions that records must meet, beside their schema.

    A record that is read or written under the contract meets it if all conditions are true. A condition that is false,
    is null, or raises, is a violation. The first one counts. A record that does not fit its schema violates the
    contract, too, unless ``on_violation`` is ``"fail"``: then the error handlers of the configuration decide.

    Args:
        *rules: The conditions: expressions, functions of the value (or of key and value), or `rule`, which gives one a
            name. The name of an expression is its text, that of a function its name. `mask` masks fields on write.
        name: Name of the contract. Default: the topic.
        on_violation: ``"fail"``: the application stops. ``"drop"``: the record is dropped and counted.
            ``"quarantine"``: the source record is written to the quarantine topic, as it was read.
        quarantine: The quarantine topic. Default: ``errors.dead.letter.queue.topic.name`` of the configuration; without
            it, the name of the contract with ``-quarantine``.
        tags: Tags of fields, for values whose schema does not have them: ``{"customer.email": "pii"}``.
        allow_null: Whether records with a null value pass unchecked. In tables, they delete rows.

    >>> from millstream import App, TestDriver, col, contract
    >>> app = App("shop")
    >>> good = contract(col("amount") > 0, col("currency").is_in("EUR", "USD"), on_violation="quarantine")
    >>> app.stream("orders", contract=good).to("checked")
    >>> with TestDriver(app) as driver:
    ...     driver.input("orders").pipe("a", {"amount": 5, "currency": "EUR"})
    ...     driver.input("orders").pipe("b", {"amount": -5, "currency": "EUR"})
    ...     driver.output("checked").read_values()
    ...     letter = driver.output("orders-quarantine").read()
    ...     letter.key, letter.value, dict(letter.headers)["__millstream.contract.rule"]
    [{'amount': 5, 'currency': 'EUR'}]
    (b'b', b'{"amount":-5,"currency":"EUR"}', b'amount > 0')
    """
    _check_choice("contract", on_violation)
    made: list[NamedRule] = []
    masks: list[MaskRule] = []
    for item in rules:
        if isinstance(item, MaskRule):
            masks.append(item)
        else:
            made.append(item if isinstance(item, NamedRule) else rule(_name_of(item), item))
    names = [NULL_RULE, SCHEMA_RULE]
    for named in made:
        if named.name in names:
            raise TopologyError(
                f"contract: two rules are named {named.name!r}", hint='give them names: rule("positive", …)'
            )
        names.append(named.name)
    if name is not None:
        check_name(name, "contract")
    if quarantine is not None:
        check_name(quarantine, "topic")
    pairs = tuple(_pairs(tags or {}))
    if not made and not masks and not pairs and on_violation == "fail" and allow_null:
        raise TopologyError("contract: it has no rules", hint='give conditions: contract(col("amount") > 0)')
    return ContractOption(tuple(made), tuple(masks), on_violation, name, quarantine, pairs, allow_null)


@suggesting
def rule(name: str, condition: Condition, *, on_violation: OnViolation | None = None) -> NamedRule:
    """Makes a rule of a `contract`: a condition with a name, which errors, metrics and quarantined records have.

    Args:
        name: The name.
        condition: An expression, or a function of the value, or of key and value.
        on_violation: As for `contract`. Default: that of the contract.

    >>> rule("positive amount", lambda order: order["amount"] > 0, on_violation="drop").name
    'positive amount'
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise TopologyError(
            f"rule: {str(name)[:60]!r} is not a name",
            hint=f"a name is a text on one line, with at most {_LONGEST_NAME} characters",
        )
    if on_violation is not None:
        _check_choice(f"rule {name!r}", on_violation)
    if not isinstance(condition, Expr) and not callable(condition):
        raise TopologyError(
            f"rule {name!r}: expected a function or an expression, got {condition!r} ({type(condition).__name__})",
            hint='pass an expression such as col("amount") > 0, or a function of the value',
        )
    return NamedRule(name, condition, on_violation)


@suggesting
def mask(tag: str, *, with_: object) -> MaskRule:
    """Makes a rule of a `contract` that masks the fields with a tag when records are written.

    A list, a map or a record with the tag keeps its form, and the values in it are masked. Null stays null. Functions
    above the sink, conditions of the contract, and the topic function see the values before.

    Args:
        tag: The tag.
        with_: `hmac`, or a constant that replaces the values.

    >>> from millstream import App, TestDriver, contract, mask
    >>> app = App("crm")
    >>> masked = contract(mask("pii", with_="***"), tags={"contact.email": "pii"})
    >>> app.stream("customers").to("shared", contract=masked)
    >>> with TestDriver(app) as driver:
    ...     driver.input("customers").pipe({"id": 1, "contact": {"email": "anna@example.com"}})
    ...     driver.output("shared").read_values()
    [{'id': 1, 'contact': {'email': '***'}}]
    """
    if not isinstance(tag, str) or not tag:
        raise TopologyError(f"mask: {tag!r} is not a tag", hint='write mask("pii", with_="***")')
    if callable(with_):
        raise TopologyError(f"mask: {with_!r} is a function", hint="give a constant, or hmac(…)")
    return MaskRule(tag, with_)


def hmac(key: str) -> Hmac:
    """Masks texts and bytes by HMAC-SHA-256 with a secret key.

    Equal values have equal masks, and values cannot be guessed from masks without the key. A text becomes 64
    hexadecimal digits, bytes become 32 bytes. In values without a type, numbers become texts, too.

    Args:
        key: Name of the key. The secret itself is in the configuration, under ``mask.key.NAME``: a text of at least 16
            characters. An application without it does not start.

    >>> hmac("customers")
    Hmac(key='customers')
    """
    check_name(key, "key")
    return Hmac(key)


def _check_choice(what: str, on_violation: object) -> None:
    if on_violation not in _CHOICES:
        hint = suggestion(str(on_violation), _CHOICES) or "use 'fail', 'drop' or 'quarantine'"
        raise TopologyError(f"{what}: unknown on_violation {on_violation!r}", hint=hint)


def _name_of(condition: object) -> str:
    """The name of a condition without one: the text of an expression, or the name of a function."""
    if isinstance(condition, Expr):
        text = str(condition)
        return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
    name = getattr(condition, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else describe_callable(condition)


def _pairs(tags: Mapping[str, str | Sequence[str]]) -> list[tuple[str, str]]:
    pairs = []
    for path, given in tags.items():
        names = [given] if isinstance(given, str) else list(given)
        if not isinstance(path, str) or not all(path.split(".")) or not all(isinstance(n, str) and n for n in names):
            raise TopologyError(
                f"contract: {path!r}: {given!r} is not a field with its tags", hint='tags={"customer.email": "pii"}'
            )
        pairs += [(path, name) for name in names]
    return pairs


# ----- the contract of an operator -----------------------------------------------------------------------------------


def contract_on_read(
    builder: Builder, option: ContractOption | None, topic: str, key: Serde[Any], value: Serde[Any]
) -> Contract | None:
    """Returns the contract of a source or a global table."""
    if option is None:
        return None
    made = _made(builder, option, topic, key, value)
    if made.masks:
        raise TopologyError(
            f"contract {made.name!r}: masks are for records that are written",
            hint="give the contract to .to(…, contract=…); here, change values with map_values",
        )
    return made


def contract_on_write(output: NodeOutput, option: ContractOption | None, topic: str) -> Contract | None:
    """Returns the contract of a sink."""
    if option is None:
        return None
    made = _made(output.builder, option, topic, output.key_serde, output.value_serde)
    _check_masks(made, output.value_serde)
    return made


def _made(builder: Builder, option: ContractOption, topic: str, key: Serde[Any], value: Serde[Any]) -> Contract:
    if not isinstance(option, ContractOption):
        raise TopologyError(
            f"contract: expected a contract, got {option!r}", hint='write contract=contract(col("amount") > 0)'
        )
    name = option.name or topic
    rules = tuple(
        Rule(
            named.name,
            builder.condition(
                named.condition, KEY_VALUE, f"contract {name!r}, rule {named.name!r}", key=key, value=value
            ),
            named.on_violation or option.on_violation,
        )
        for named in option.rules
    )
    masks = tuple(
        Mask(item.tag, item.with_.key) if isinstance(item.with_, Hmac) else Mask(item.tag, None, item.with_)
        for item in option.masks
    )
    made = Contract(name, rules, option.on_violation, masks, option.quarantine, option.tags, option.allow_null)
    topic_of_letters = made.quarantine_topic(builder.config)
    if topic_of_letters is not None:
        check_name(topic_of_letters, "quarantine topic")
        if topic_of_letters == topic:
            raise TopologyError(
                f"contract {name!r}: {topic!r} cannot be its own quarantine", hint='quarantine="…" names another topic'
            )
    if made.tags:
        from millstream.schemas.tags import fields_of  # noqa: PLC0415  (only contracts with tags need it)

        fields_of(value, made.tags)
    return made


def _check_masks(made: Contract, value: Serde[Any]) -> None:
    """Refuses masks without fields, and masks that do not fit the types of their fields."""
    from millstream.schemas.tags import fields_of, kinds, tagged_fields  # noqa: PLC0415  (as above)

    if not made.masks:
        return
    root = fields_of(value, made.tags)
    if value.name == "protobuf" and not root.closed:
        raise TopologyError(
            f"contract {made.name!r}: messages of Protobuf cannot be masked",
            hint="convert them to a type before: map_values(…), and .to(…, value=protobuf(Customer))",
        )
    fields = [*tagged_fields(root)]
    for item in made.masks:
        what = f"contract {made.name!r}, mask {item.tag!r}"
        tagged = [(path, field) for path, field in fields if item.tag in field.tags]
        if not tagged:
            known = sorted({tag for _path, field in fields for tag in field.tags})
            hint = suggestion(item.tag, known) or 'tag fields: Annotated[str, Tags("pii")], or tags={"email": "pii"}'
            raise TopologyError(f"{what}: no field has this tag", hint=hint)
        for path, field in tagged:
            for kind in kinds(field) - {None}:
                _check_mask(item, kind, f"{what}: the field {path or 'itself'}")


def _check_mask(item: Mask, kind: Any, what: str) -> None:
    if item.key is not None and kind not in {str, bytes}:
        raise TopologyError(
            f"{what} is neither text nor bytes, and HMAC returns one of them",
            hint='mask it with a constant: with_=0, with_="***"',
        )
    if item.key is None and kind in {str, bytes, int, float, bool} and not isinstance(item.constant, kind):
        raise TopologyError(f"{what} is of type {kind.__name__}, and the constant is {item.constant!r}")
