"""Value types of every kind that has a serde, with records that can be read, one that cannot, and a function.

`test_value_types` and the test on Spark copy this file: into a script, beside it, and into an installed package.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Self,
    TypedDict,
    TypeVar,
)

import msgspec
import pydantic

T = TypeVar("T")
Sku = NewType("Sku", str)


class Kind(NamedTuple):
    type: Any
    records: list[bytes]
    invalid: bytes
    change: Callable[[Any], Any]


KINDS: dict[str, Kind] = {}


def kind(name: str, value_type: Any, invalid: bytes, *records: bytes) -> Callable[[Callable[[Any], Any]], Any]:
    def add(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
        KINDS[name] = Kind(value_type, list(records), invalid, change)
        return change

    return add


# ----- dataclasses ----------------------------------------------------------------------------------------------------


class Status(enum.Enum):
    NEW = "new"
    PAID = "paid"
    SETTLED = "paid"  # noqa: PIE796  (an alias)


@dataclass(frozen=True)
class Line:
    sku: Sku
    quantity: int = 1


@dataclass
class Order:
    id: str
    lines: list[Line] = field(default_factory=list)
    note: str | None = None
    _: KW_ONLY
    status: Status = Status.NEW
    seen: ClassVar[int] = 0


@kind("dataclass", Order, b'{"note":"no id"}', b'{"id":"1"}', b'{"id":"2","lines":[{"sku":"a"}],"status":"paid"}')
def add_line(order: Order) -> Order:
    assert isinstance(order, Order)
    assert isinstance(order.status, Status)
    assert all(isinstance(line, Line) for line in order.lines)
    assert next(field for field in dataclasses.fields(Order) if field.name == "id").default is dataclasses.MISSING
    status = Status["SETTLED"] if order.status is Status.NEW else Status.NEW
    return dataclasses.replace(order, lines=[*order.lines, Line(Sku("b"), quantity=2)], status=status)


@dataclass(kw_only=True, slots=True)
class Measured:
    unit: str = "mm"
    at: datetime | None = None


@dataclass(kw_only=True, slots=True, order=True)
class Rain(Measured):
    amount: Decimal
    tags: dict[str, list[int]] = field(default_factory=lambda: {"a": []})

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("rain falls")

    def more(self) -> Rain:
        return Rain(amount=self.amount + 1, unit=self.unit, at=self.at, tags={**self.tags, "b": [1]})


@kind("dataclass-with-slots", Rain, b'{"unit":"mm"}', b'{"amount":"1.5"}', b'{"amount":2,"at":"2024-01-02T03:04:05Z"}')
def more_rain(rain: Rain) -> Rain:
    with_typo: Any = rain
    try:
        with_typo.amuont = 1
    except AttributeError:
        return rain.more()
    raise AssertionError("the class has no slots")


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


@kind("recursive-dataclass", Node, b'{"name":"a","children":[{}]}', b'{"name":"a","children":[{"name":"b"}]}')
def grow(node: Node) -> Node:
    return Node(node.name, [*node.children, Node("leaf")])


@dataclass
class Box(Generic[T]):
    item: T
    others: list[T] = field(default_factory=list)


@kind("generic-dataclass", Box[Line], b'{"item":{}}', b'{"item":{"sku":"a"}}')
def refill(box: Box[Line]) -> Box[Line]:
    assert isinstance(box.item, Line)
    return Box(Line(Sku("c")), [*box.others, box.item])


def make_local() -> Any:
    @dataclass(frozen=True)
    class Local:
        a: int
        b: tuple[int, ...] = ()

        def next(self) -> Local:
            return Local(self.a + 1, (*self.b, self.a))

    return Local


LOCAL = make_local()


@kind("dataclass-of-a-function", LOCAL, b'{"b":[]}', b'{"a":1}', b'{"a":1,"b":[3]}')
def next_local(value: Any) -> Any:
    assert isinstance(value, LOCAL)
    return value.next()


# ----- msgspec's Structs ----------------------------------------------------------------------------------------------


class Entity(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    entity_id: str
    labels: list[str] = []
    changed: int | msgspec.UnsetType = msgspec.UNSET


class Payment(Entity, forbid_unknown_fields=True, order=True):
    total_amount: float
    paid_lines: dict[str, Line] = msgspec.field(default_factory=dict, name="LINES")
    history: list[Payment] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.total_amount < 0:
            raise ValueError("nobody pays that")

    def doubled(self) -> Payment:
        assert super().__repr__().startswith("Payment(")
        return msgspec.structs.replace(self, total_amount=2 * self.total_amount)


@kind("struct", Payment, b'{"entityId":"1"}', b'{"entityId":"1","totalAmount":1.5}',
      b'{"entityId":"2","totalAmount":1,"labels":["x"],"changed":4,"LINES":{"a":{"sku":"s"}}}')  # fmt: skip
def pay(payment: Payment) -> Payment:
    assert isinstance(payment, Payment)
    assert isinstance(payment, Entity)
    assert payment.changed is msgspec.UNSET or payment.changed > 0
    return msgspec.structs.replace(payment.doubled(), labels=[*payment.labels, type(payment).__qualname__])


class Shape(msgspec.Struct, tag=str.lower, tag_field="shape", frozen=True):
    name: str


class Circle(Shape, frozen=True):
    radius: float = 1.0


class Square(Shape, frozen=True, array_like=True, tag="sq"):
    side: float


@kind("tagged-structs", Circle | Shape, b'{"shape":"line","name":"c"}', b'{"shape":"circle","name":"c","radius":2}',
      b'{"shape":"circle","name":"d"}', b'{"shape":"shape","name":"e"}')  # fmt: skip
def next_shape(shape: Circle | Shape) -> Circle | Shape:
    try:
        shape.name = "other"  # type: ignore[misc]
    except AttributeError:
        return Shape(name=shape.name) if isinstance(shape, Circle) else Circle(name=shape.name, radius=3.0)
    raise AssertionError("the struct is not frozen")


@kind("array-like-struct", Square, b'["sq","s"]', b'["sq","s",2]')
def next_square(square: Square) -> Square:
    return Square(square.name, square.side + 1)


class Pair(msgspec.Struct, Generic[T], kw_only=True, eq=True):
    left: T
    right: T | None = None


@kind("generic-struct", Pair[Line], b'{"right":{"sku":"a"}}', b'{"left":{"sku":"a"}}')
def turn(pair: Pair[Line]) -> Pair[Line]:
    return Pair(left=pair.right or Line(Sku("z")), right=pair.left)


# ----- typed dicts, named tuples, enums -------------------------------------------------------------------------------


class Person(TypedDict):
    name: str
    address: NotRequired[Address]


class Address(TypedDict, total=False):
    street: str


@kind("typed-dict", Person, b'{"address":{}}', b'{"name":"Ann"}', b'{"name":"Bob","address":{"street":"s"}}')
def move(person: Person) -> Person:
    return Person(name=person["name"], address=Address(street=person.get("address", {}).get("street", "") + "!"))


class Point(NamedTuple):
    x: int
    y: int = 7
    line: Line | None = None

    def right(self) -> Point:
        return self._replace(x=self.x + 1, line=Line(Sku("p")))


@kind("named-tuple", Point, b'["a"]', b"[1]", b"[1,2]")
def go_right(point: Point) -> Point:
    assert isinstance(point, Point)
    return point.right()


class Planet(enum.Enum):
    EARTH = ("e", 1.0)
    MARS = ("m", 0.4)
    TERRA = ("e", 1.0)  # noqa: PIE796  (likewise)

    def __new__(cls, letter: str, gravity: float) -> Self:
        member = object.__new__(cls)
        member._value_ = letter
        return member

    def __init__(self, _letter: str, gravity: float) -> None:
        self.gravity = gravity

    @property
    def other(self) -> Planet:
        return Planet.MARS if self.gravity == 1.0 else Planet["TERRA"]


@kind("enum", Planet, b'"x"', b'"e"', b'"m"')
def other_planet(planet: Planet) -> Planet:
    assert planet in Planet
    assert [member.name for member in Planet] == ["EARTH", "MARS"]
    return planet.other


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Colour(enum.StrEnum):
    RED = enum.auto()
    GREEN = enum.auto()


class Painted(NamedTuple):
    colour: Colour
    level: Level = Level.LOW
    kind: Literal["wall", "door"] = "wall"


@kind("enums-with-a-data-type", Painted, b'["blue"]', b'["red"]', b'["green",2,"door"]')
def paint(painted: Painted) -> Painted:
    assert painted.colour == painted.colour.value
    return Painted(Colour.GREEN if painted.colour is Colour.RED else Colour.RED, Level(3 - painted.level), painted.kind)


# ----- pydantic's models ----------------------------------------------------------------------------------------------


class Item(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)

    sku: Sku
    price: Annotated[Decimal, pydantic.Field(gt=0)] = Decimal(1)


class Cart(pydantic.BaseModel):
    cart_id: str = pydantic.Field(alias="cartId")
    items: list[Item] = pydantic.Field(default_factory=list)
    status: Status = Status.NEW
    carts: list[Cart] = []

    @pydantic.field_validator("cart_id")
    @classmethod
    def is_upper(cls, value: str) -> str:
        return value.upper()


@kind("pydantic-model", Cart, b'{"items":[]}', b'{"cartId":"a"}',
      b'{"cartId":"b","items":[{"sku":"s","price":"1.5"}],"status":"paid"}')  # fmt: skip
def fill(cart: Cart) -> Cart:
    assert isinstance(cart, Cart)
    assert all(isinstance(item, Item) for item in cart.items)
    assert cart.status in Status
    return cart.model_copy(update={"items": [*cart.items, Item(sku=Sku("t"))], "status": Status.SETTLED})


class Page(pydantic.BaseModel, Generic[T]):
    rows: list[T]


@kind("generic-pydantic-model", Page[Item], b'{"rows":[{}]}', b'{"rows":[{"sku":"a"}]}')
def turn_page(page: Page[Item]) -> Page[Item]:
    assert isinstance(page, Page)
    return Page[Item](rows=[*page.rows, *page.rows])


@kind("list-of-pydantic-models", list[Item], b'[{"price":2}]', b'[{"sku":"a"}]')
def more_items(items: list[Item]) -> list[Item]:
    assert all(isinstance(item, Item) for item in items)
    return [*items, Item(sku=Sku("u"), price=Decimal(2))]


# ----- nested types ---------------------------------------------------------------------------------------------------


@dataclass
class Parcel:
    order: Order
    item: Item | None = None
    payments: list[Payment] = field(default_factory=list)
    place: Point = Point(0)  # noqa: RUF009  (it cannot be changed)
    owner: Person | None = None
    planets: dict[str, Planet] = field(default_factory=dict)


@kind("nested", Parcel, b'{"order":{}}', b'{"order":{"id":"1"}}',
      b'{"order":{"id":"1"},"item":{"sku":"i"},"payments":[{"entityId":"1","totalAmount":1}],"place":[1],'
      b'"owner":{"name":"Ann"},"planets":{"p":"e"}}')  # fmt: skip
def send(parcel: Parcel) -> Parcel:
    assert parcel.item is None or isinstance(parcel.item, Item)
    return Parcel(
        add_line(parcel.order), parcel.item or Item(sku=Sku("v")), [pay(payment) for payment in parcel.payments],
        parcel.place.right(), planets={name: planet.other for name, planet in parcel.planets.items()},
    )  # fmt: skip
