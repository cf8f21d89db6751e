"""The parser of types."""

from __future__ import annotations

from millstream.errors import SqlSyntaxError
from millstream.sql.syntax.cursor import Cursor
from millstream.sql.syntax.preparation import PreparationError
from millstream.sql.syntax.tokens import Kind, Token
from millstream.sql.syntax.tree import (
    ArrayTypeRef,
    KnownType,
    MapTypeRef,
    NamedType,
    Position,
    StructTypeRef,
    TypeRef,
)
from millstream.sql.types import PRIMITIVES, ArrayType, DecimalType, MapType, StructType


class TypeParser(Cursor):
    """Parses types. A type without names of user types becomes a `KnownType` at once."""

    def type(self) -> TypeRef:
        """Takes a type. ``T ARRAY`` is another way to write ``ARRAY<T>``."""
        self.enter()
        type_ = self._plain_type()
        levels = self.depth
        while self.next.word == "ARRAY":
            self.enter()
            at = self.take().at
            type_ = _array(at, type_)
        self.depth = levels - 1
        return type_

    def _plain_type(self) -> TypeRef:
        token, after = self.next, self.ahead(1).word
        if token.word == "ARRAY" and after == "<":
            self.expect("ARRAY", "<")
            element = self.type()
            self.expect(">")
            return _array(token.at, element)
        if token.word == "MAP" and after == "<":
            self.expect("MAP", "<")
            key = self.type()
            self.expect(",")
            value = self.type()
            self.expect(">")
            if isinstance(key, KnownType) and isinstance(value, KnownType):
                return KnownType(at=token.at, type=MapType(key.type, value.type))
            return MapTypeRef(at=token.at, key=key, value=value)
        if token.word == "STRUCT" and after in {"<", "<>"}:
            return self._struct()
        if token.word == "DECIMAL":
            return self._decimal()
        return self._named(token)

    def _struct(self) -> TypeRef:
        at = self.expect("STRUCT").at
        fields: tuple[tuple[str, TypeRef], ...] = ()
        if not self.accept("<>"):
            self.expect("<")
            if self.next.word != ">":
                fields = self.listed(self._field, "fields")
            self.expect(">")
        names = [name for name, _type in fields]
        if len(set(names)) < len(names):
            raise PreparationError("Duplicate field names found in STRUCT: each field has a name of its own", at=at)
        known = tuple((name, type_.type) for name, type_ in fields if isinstance(type_, KnownType))
        if len(known) == len(fields):
            return KnownType(at=at, type=StructType(known))
        return StructTypeRef(at=at, fields=fields)

    def _field(self) -> tuple[str, TypeRef]:
        return self.identifier("the name (an identifier) of a field"), self.type()

    def _decimal(self) -> TypeRef:
        at = self.expect("DECIMAL").at
        self.expect("(")
        precision = self.number("the precision")
        self.expect(",")
        scale = self.number("the scale")
        self.expect(")")
        if precision < 1:
            raise SqlSyntaxError(f"DECIMAL precision must be >= 1: DECIMAL({precision},{scale})", at=at)
        if scale < 0:
            raise SqlSyntaxError(f"DECIMAL scale must be >= 0: DECIMAL({precision},{scale})", at=at)
        if precision < scale:
            raise SqlSyntaxError(f"DECIMAL precision must be >= scale: DECIMAL({precision},{scale})", at=at)
        return KnownType(at=at, type=DecimalType(precision, scale))

    def _named(self, token: Token) -> TypeRef:
        name = self.identifier("a type (an identifier, ARRAY<…>, MAP<…>, STRUCT<…> or DECIMAL(…))")
        if self.accept("("):  # VARCHAR(10): ksqlDB takes parameters and ignores them
            self.listed(self._parameter)
            self.expect(")")
        primitive = PRIMITIVES.get(name.upper())
        if primitive is not None:
            return KnownType(at=token.at, type=primitive)
        return NamedType(at=token.at, name=name)

    def _parameter(self) -> None:
        if self.next.kind is not Kind.INTEGER and self.next.word != "STRING":
            self.fail((), "an integer or STRING as the parameter of a type")
        self.take()


def _array(at: Position, element: TypeRef) -> TypeRef:
    if isinstance(element, KnownType):
        return KnownType(at=at, type=ArrayType(element.type))
    return ArrayTypeRef(at=at, element=element)
