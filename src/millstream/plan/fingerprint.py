"""A plan as plain data, and a digest of it: what a later topology is compared with before it takes over the state.

The data holds what state depends on: operators with their options, windows, serdes, the fields of types, expressions
and stores. What a Python function does cannot be seen. The digest of its code is kept beside the rest, to tell that it
changed, and has no part in the fingerprint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from millstream.core.frozen import Frozen, defaults, fields
from millstream.expr import Expr
from millstream.plan.analysis import Facts
from millstream.plan.code import code_digest
from millstream.plan.functions import Function, describe_callable
from millstream.plan.joins import ForeignKeyResolve
from millstream.plan.node import Node, Plan
from millstream.plan.process import Store
from millstream.plan.shapes import shape_of
from millstream.plan.sources import ToTable
from millstream.plan.stateless import Repartition
from millstream.plan.tables import Suppress
from millstream.plan.walk import functions_of
from millstream.serde import Serde
from millstream.state.spec import StoreSpec

PlainPlan: TypeAlias = dict[str, Any]

FORMAT = 2
"""The version of what `to_dict` gives."""

_DIGITS = 16
# Names and lines are no options. Who may query a store, and what the optimizer may do, leave the state as it is.
_ASIDE = frozenset({"name", "at", "mergeable", "named"})


def fingerprint(plan: Plan) -> str:
    """Returns a short digest of everything that the state of an application depends on.

    It is the same for the same topology built again, whatever the order of independent calls, the lines of the source
    and the names of Python functions; a changed operator, option, window, serde, expression or store changes it. The
    application's id is no part of it. Equal digests mean that state can be taken over as it is; if they differ,
    `millstream.plan.compare.compare` tells what that means for each store.

    >>> from millstream import App
    >>> def topology(size: str) -> App:
    ...     app = App("word-count")
    ...     app.stream(f"{size}-lines", value=str).group_by(lambda line: line).count(store="counts")
    ...     return app
    >>> fingerprint(topology("short").plan()) == fingerprint(topology("short").plan())
    True
    >>> fingerprint(topology("short").plan()) == fingerprint(topology("long").plan())
    False
    """
    import hashlib  # noqa: PLC0415  (few programs ask)
    import json  # noqa: PLC0415

    data = essence(to_dict(plan))
    del data["application_id"]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def essence(data: PlainPlan) -> PlainPlan:
    """Returns what state depends on: the data of a plan without the code of functions and without who named stores."""
    return {name: part for name, part in data.items() if name not in {"functions", "named"}}


def to_dict(plan: Plan) -> PlainPlan:
    """Returns a plan as plain data that JSON can hold, for `fingerprint` and `millstream.plan.compare.compare`.

    - ``format``: the version of this layout.
    - ``application_id``
    - ``operators``: by name, each with its ``kind``, the names of its ``parents`` (left to right) and its ``options``.
      An option that has its default value is left out, so that an option that a later version brings changes nothing
      for those who do not use it. A serde is its name, an expression its tree, and any other function is
      ``{"callable": true}``.
    - ``stores``: by name, each with its ``operator`` and the fields of its specification. Only stores that are kept.
      ``key_type`` and ``value_type`` are the fields of typed keys and values.
    - ``named``: the stores that the user named.
    - ``functions``: the version of ``python``, and by operator and option the digest and place of Python functions.

    >>> from millstream import App
    >>> app = App("totals")
    >>> app.stream("orders", key=str, value=int).group_by_key().count(store="counts")
    Table(orders-count)
    >>> data = to_dict(app.plan())
    >>> data["operators"]["orders-count"]
    {'kind': 'aggregate', 'parents': ['orders-source'], 'options': {'aggregation': {'kind': 'count'}}}
    >>> data["stores"]
    {'counts': {'operator': 'orders-count', 'kind': 'key-value', 'key': 'string', 'value': 'long', 'timestamped': True}}
    """
    kept = kept_stores(plan, Facts(plan))
    return {
        "format": FORMAT,
        "application_id": plan.application_id,
        "operators": {node.name: _operator(node) for node in plan.nodes},
        "stores": {
            spec.name: {"operator": node.name, **_options(spec), **_types(spec)}
            for node, specs in kept.items()
            for spec in specs
        },
        "named": sorted(spec.name for specs in kept.values() for spec in specs if spec.named),
        "functions": {
            "python": "{}.{}".format(*sys.version_info),
            "operators": {node.name: digests for node in plan.nodes if (digests := dict(_digests(node)))},
        },
    }


def _types(item: Any) -> PlainPlan:
    """The fields of the typed keys and values of a store or a repartition topic."""
    shapes = {f"{part}_type": shape_of(getattr(item, part)) for part in ("key", "value")}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _digests(node: Node) -> Iterator[tuple[str, list[str]]]:
    """The Python functions of an operator, by option: a digest of the code, and where it is."""
    for option, target in functions_of(node):
        digest = None if isinstance(target, Expr) else code_digest(target)
        if digest is not None:
            yield option, [digest, describe_callable(target)]


def kept_stores(plan: Plan, facts: Facts) -> dict[Node, tuple[StoreSpec, ...]]:
    """Returns the stores that exist when the plan runs, by the node that owns them.

    A table over a topic, or the result of a foreign-key join, is kept only if something looks its rows up or the user
    named its store; what suppress last sent, only if something below needs old values; a store that the user added,
    only if a processor uses it.
    """
    used = {name for node in plan.nodes for name in node.reads_stores}
    found: dict[Node, tuple[StoreSpec, ...]] = {}
    for node in plan.nodes:
        stores = node.stores
        if (isinstance(node, ToTable | ForeignKeyResolve) and node not in facts.kept) or (
            isinstance(node, Store) and node.store.name not in used
        ):
            stores = ()
        elif isinstance(node, Suppress) and node not in facts.sends_old:
            stores = (node.store,)
        if stores:
            found[node] = stores
    return found


def _operator(node: Node) -> PlainPlan:
    types = _types(node) if isinstance(node, Repartition) else {}
    return {
        "kind": node.kind,
        "parents": [parent.name for parent in node.parents],
        "options": _options(node, above=node.parents) | types,
    }


def _options(item: Any, above: tuple[Node, ...] = ()) -> PlainPlan:
    """The fields that differ from their defaults; those that only refer to nodes above are left out."""
    is_node = isinstance(item, Node)
    found: PlainPlan = {}
    usual = defaults(item)
    for field in fields(item):
        value = getattr(item, field)
        if is_node and (field in _ASIDE or isinstance(value, StoreSpec) or _refers_to(value, above)):
            continue
        if field in {"name", "named"} or (
            field in usual and type(value) is type(usual[field]) and value == usual[field]
        ):
            continue
        found[field] = _plain(value)
    return found


def _refers_to(value: Any, above: tuple[Node, ...]) -> bool:
    nodes = value if isinstance(value, tuple) else (value,)
    return bool(nodes) and all(any(node is parent for parent in above) for node in nodes)


def _plain(value: Any) -> Any:
    """Turns an option into plain data."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Node):
        return value.name
    if isinstance(value, Serde):
        return value.name
    if isinstance(value, Function):
        expression = value.fingerprint()
        return {"callable": True} if expression is None else expression
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if callable(value):  # a processor's supplier, which may well be a dataclass
        return {"callable": True}
    if isinstance(value, Frozen):
        return _frozen(value)
    raise TypeError(f"a plan cannot hold {value!r} ({type(value).__name__})")


def _frozen(value: Frozen) -> PlainPlan:
    """A window, an aggregation or the like; a window says which one it is, as its fields may not tell."""
    kind = "".join(f"-{c.lower()}" if c.isupper() else c for c in type(value).__name__).lstrip("-")
    return {"type": kind, **_options(value)} if kind.endswith("-window") else _options(value)
