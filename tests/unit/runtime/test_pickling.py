"""Classes of a script that are sent by value behave in another process as in the script."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.unit.runtime.sending import Project, received

CLASSES = """
import dataclasses, enum, functools
from collections import namedtuple
from dataclasses import dataclass, field, fields, make_dataclass
from typing import *
import msgspec, pydantic
from millstream.serde import json_of

T = TypeVar("T")
U = TypeVar("U")
UserId = NewType("UserId", str)

class Base(msgspec.Struct, frozen=True, cache_hash=True, weakref=True, dict=True, tag=True):
    limit: ClassVar[int] = 5
    a: Annotated[int, msgspec.Meta(ge=0)]
    @classmethod
    def make(cls, a): return cls(a)
    @staticmethod
    def fixed(): return "fixed"
    @property
    def double(self): return self.a * 2
    @functools.cached_property
    def triple(self): return self.a * 3

class Kid(Base, frozen=True):
    b: "Flat | None" = None

class Grand(Kid, frozen=True, kw_only=True, omit_defaults=True):
    c: int
    d: int = 4

@dataclass
class Flat:
    x: int = 0
    kid: "Kid | None" = None
    @functools.cached_property
    def cached(self): return self.x + 1

@dataclass(frozen=True)
class Small:
    v: int = 1

class Light(msgspec.Struct, gc=False, order=True, eq=True, repr_omit_defaults=True, array_like=True):
    v: int = 1

class Holder(msgspec.Struct):
    small: Small = Small(3)
    other: "Holder | None" = None
    def again(self): return Holder(self.small, self)

class Checked(msgspec.Struct):
    a: int
    def __post_init__(self):
        self.a += len([Checked])

class Box(msgspec.Struct, Generic[T]):
    item: T

class IntBox(Box[int]):
    n: int = 0

class Two(msgspec.Struct, Generic[T, U]):
    t: T
    u: U

Defined = msgspec.defstruct("Other", [("a", int), ("b", list, msgspec.field(default_factory=list))])
Made = make_dataclass("Made", [("a", UserId), ("b", list, field(default_factory=list))])
Pair = namedtuple("Pair", "a b", defaults=[3])

class Permission(enum.Flag):
    R = 1
    W = 2
    RW = 3

class Coordinate(bytes, enum.Enum):
    def __new__(cls, value, label):
        member = bytes.__new__(cls, [value])
        member._value_ = value
        member.label = label
        return member
    PX = (0, "P.X")
    PY = (1, "P.Y")

class Odd(enum.Enum):
    LIST = [1, 2]
    TEXT = "m"
    @classmethod
    def _missing_(cls, value): return cls.TEXT

class Missing:
    pass

MISSING = Missing()

@dataclass
class WithSentinel:
    note: Any = MISSING

class Root(pydantic.RootModel[list[int]]):
    pass

class Cat(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    kind: Literal["cat"] = "cat"
    lives: int = 9
    _private: int = pydantic.PrivateAttr(default=7)
    @pydantic.computed_field
    @property
    def twice(self) -> int: return self.lives * 2

class Kitten(Cat):
    def model_post_init(self, context): self._private = 8

class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    parts: list["Part"] = []
    @pydantic.model_validator(mode="after")
    def copy_parts(self):
        self.parts = [*self.parts]
        return self
    @pydantic.field_serializer("kind")
    def shout(self, kind): return kind.upper()

class Part(pydantic.BaseModel):
    dog: Dog | None = None
    def to_dog(self): return Dog(parts=[self])

class Zoo(pydantic.BaseModel):
    animals: list[Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]]

@pydantic.dataclasses.dataclass
class Validated:
    a: int
    b: list[int] = pydantic.Field(default_factory=list)

class Page(pydantic.BaseModel, Generic[T]):
    x: T

class IntPage(Page[int]):
    pass

def read(cls, data): return json_of(cls).deserialize(data)

def written(value): return json_of(type(value)).serialize(value)

CHECKS = {
    "methods of a struct": lambda: (Base.make(2).double, Base.fixed(), Base.limit, Base(1).triple, hash(Base(1)) != 0),
    "tag": lambda: written(Base(1)),
    "constraint": lambda: read(Base, b'{"type":"Base","a":-1}'),
    "inherited struct": lambda: (Grand(1, None, c=3), written(Grand(1, c=2)), Grand.__match_args__, Kid.__match_args__),
    "positional arguments": lambda: Grand(1, None, 3),
    "classes that name each other": lambda: read(Flat, b'{"x":1,"kid":{"type":"Kid","a":1,"b":{"x":2}}}'),
    "cached property of a dataclass": lambda: Flat(2).cached,
    "options of a struct": lambda: (Light(), Light(2) > Light(), written(Light(2)), Light.__struct_config__.gc),
    "default of another class": lambda: (Holder().again(), Holder().small is Holder().small),
    "post init": lambda: (Checked(1), read(Checked, b'{"a":1}')),
    "generic struct": lambda: (IntBox(1, 2), read(IntBox, b'{"item":1}'), read(Two[int, str], b'{"t":1,"u":"x"}')),
    "type of a generic": lambda: read(Two[int, str], b'{"t":1,"u":2}'),
    "made by functions": lambda: (Defined(1), Made("a"), Pair(1), Made.__annotations__["a"] is UserId),
    "flag": lambda: (Permission(3), Permission["RW"], ~Permission.R, list(Permission)),
    "enum with a new": lambda: (Coordinate(1).name, bytes(Coordinate.PY), Coordinate.PY.label, Coordinate.PX == b"\\0"),
    "enum without a hash": lambda: (Odd([1, 2]), Odd("?")),
    "sentinel": lambda: (WithSentinel().note is MISSING, fields(WithSentinel)[0].default is MISSING),
    "missing": lambda: fields(Made)[0].default is dataclasses.MISSING,
    "root model": lambda: read(Root, b"[1]"),
    "private attribute": lambda: (Cat()._private, Kitten()._private, Cat().twice, written(Kitten())),
    "strict model": lambda: read(Cat, b'{"lives":"1"}'),
    "forbidden field": lambda: read(Cat, b'{"other":1}'),
    "models that name each other": lambda: read(Zoo, b'{"animals":[{"kind":"dog","parts":[{"dog":{}}]}]}'),
    "serializer": lambda: written(Part().to_dog()),
    "pydantic dataclass": lambda: (Validated("1"), read(Validated, b'{"a":"2"}')),
    "invalid pydantic dataclass": lambda: read(Validated, b'{"a":"x"}'),
    "generic model": lambda: (IntPage(x=1), Page[int](x="1"), isinstance(IntPage(x=1), Page[int])),
}
"""

SCRIPT = (
    CLASSES
    + '''
def checks():
    """What each check gives, or how it fails."""
    outcomes = {}
    for name, check in CHECKS.items():
        try:
            outcomes[name] = repr(check())
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"
    return outcomes

if __name__ == "__main__":
    pack(checks)
    HERE.write_text(repr(checks()))
'''
)
NAMES = re.findall(r'^    "(.*)": lambda', CLASSES, re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """In the script, and in another process."""
    folder: Path = tmp_path_factory.mktemp("classes")
    here = folder / "here"
    packed = Project(folder / "project").pack(SCRIPT.replace("HERE", f"Path({str(here)!r})"))
    (there,) = received(packed)
    return ast.literal_eval(here.read_text(encoding="utf-8")), ast.literal_eval(there)


@pytest.mark.parametrize("name", NAMES)
def test_classes_of_a_script_behave_the_same_in_another_process(
    outcomes: tuple[dict[str, str], dict[str, str]], name: str
) -> None:
    here, there = outcomes
    assert there[name] == here[name]


FAILING = {
    "constraint",
    "positional arguments",
    "type of a generic",
    "strict model",
    "forbidden field",
    "invalid pydantic dataclass",
}


def test_checks_fail_only_where_expected(outcomes: tuple[dict[str, str], dict[str, str]]) -> None:
    failed = {name for name, outcome in outcomes[0].items() if re.match(r"\w+Error: ", outcome)}
    assert failed == FAILING
    assert set(outcomes[0]) == set(NAMES)
