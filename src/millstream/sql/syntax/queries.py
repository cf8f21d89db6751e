"""The parser of queries."""

from __future__ import annotations

from millstream.errors import SqlStatementError, SqlSyntaxError
from millstream.sql.syntax.expressions import ExpressionParser
from millstream.sql.syntax.tokens import Kind
from millstream.sql.syntax.tree import Expression, Join, Query, Relation, SelectItem, Star, StructStar, Window, Within

_CLAUSES = ("WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "EMIT", "LIMIT")
_CLAUSE_ORDER = "the order of the clauses is SELECT, FROM, WINDOW, WHERE, GROUP BY, PARTITION BY, HAVING, EMIT, LIMIT"
_CONTINUES = frozenset({"+", "-", "*", "/", "%", "||", "[", "->"})


class QueryParser(ExpressionParser):
    """Parses SELECT."""

    def query(self) -> Query:
        """Takes a query. Its clauses have a fixed order."""
        at = self.expect("SELECT").at
        if self.next.word == "DISTINCT":
            raise SqlSyntaxError("the dialect has no SELECT DISTINCT", at=self.next.at, hint="use GROUP BY")
        select = self.listed(self._select_item, "items in SELECT")
        if self.next.word != "FROM":
            self.fail((",", "FROM"))
        self.take()
        relation = self._relation()
        joins = []
        while self.next.word in {"JOIN", "INNER", "LEFT", "RIGHT", "FULL"}:
            joins.append(self._join())
        window = self._window() if self.accept("WINDOW") else None
        where = self.whole_expression() if self.accept("WHERE") else None
        group_by = self._grouping("GROUP BY") if self.accept("GROUP", "BY") else ()
        partition_by = self._grouping("PARTITION BY") if self.accept("PARTITION", "BY") else ()
        having = self.whole_expression() if self.accept("HAVING") else None
        emit = self.one_of("CHANGES", "FINAL") if self.accept("EMIT") else None
        limit = self._limit()
        if self.next.word in _CLAUSES:
            raise SqlSyntaxError(f"{self.next.word} is not allowed here", at=self.next.at, hint=_CLAUSE_ORDER)
        return Query(
            at=at,
            select=select,
            relation=relation,
            joins=tuple(joins),
            window=window,
            where=where,
            group_by=group_by,
            partition_by=partition_by,
            having=having,
            emit=emit,
            limit=limit,
        )

    def _select_item(self) -> SelectItem:
        token = self.next
        if token.word == "*":
            self.take()
            return SelectItem(at=token.at, expression=Star(at=token.at))
        if self.is_identifier(token) and self.ahead(1).word == "." and self.ahead(2).word == "*":
            source = self.identifier()
            self.expect(".", "*")
            return SelectItem(at=token.at, expression=Star(at=token.at, source=source))
        expression = self.whole_expression()
        if self.next.word == "->" and expression is self.last_primary:
            self.expect("->", "*")
            return SelectItem(at=token.at, expression=StructStar(at=token.at, base=expression))
        alias = None
        if self.accept("AS") or self.is_identifier(self.next):
            alias = self.identifier("an alias (an identifier)")
        return SelectItem(at=token.at, expression=expression, alias=alias)

    def _relation(self) -> Relation:
        at = self.next.at
        if self.next.word == "(":
            raise SqlSyntaxError("the dialect has no subqueries", at=at, hint="create a stream or table with the query")
        source = alias = self.source_name("the name (an identifier) of a stream or table")
        if self.next.word == "(":
            raise SqlSyntaxError("a table function cannot be in FROM", at=at, hint=f"call {source} in SELECT")
        if self.accept("AS") or (self.is_identifier(self.next) and not self._clause_ahead()):
            alias = self.source_name("an alias (an identifier)")
        return Relation(at=at, source=source, alias=alias)

    def _clause_ahead(self) -> bool:
        """Whether the next word starts a clause: EMIT and PARTITION are not reserved, and so could be aliases."""
        after = self.ahead(1).word
        return (self.next.word == "EMIT" and after in {"CHANGES", "FINAL"}) or (
            self.next.word == "PARTITION" and after == "BY"
        )

    def _join(self) -> Join:
        at = self.next.at
        kind = "INNER"
        if not self.accept("INNER") and self.next.word != "JOIN":
            kind = self.take().word
            self.accept("OUTER")
        self.expect("JOIN")
        relation = self._relation()
        within = self._within() if self.next.word == "WITHIN" else None
        if self.next.word != "ON":
            self.fail(("ON",) if within else ("WITHIN", "ON"))
        self.take()
        return Join(at=at, kind=kind, relation=relation, condition=self.whole_expression(), within=within)

    def _within(self) -> Within:
        at = self.expect("WITHIN").at
        if self.accept("("):
            before = self.duration()
            self.expect(",")
            after = self.duration()
            self.expect(")")
        else:
            before = after = self.duration()
        grace = self.duration() if self.accept("GRACE", "PERIOD") else None
        return Within(at=at, before=before, after=after, grace=grace)

    def _window(self) -> Window:
        if self.next.kind is Kind.WORD and self.next.word not in _WINDOWS and self.ahead(1).word in _WINDOWS:
            self.identifier()  # ksqlDB takes a name for a window, and ignores it
        at = self.next.at
        kind = self.one_of(*_WINDOWS)
        self.expect("(")
        if kind != "SESSION":
            self.expect("SIZE")
        size = self.duration()
        advance = None
        if kind == "HOPPING":
            self.expect(",", "ADVANCE", "BY")
            advance = self.duration()
        retention = self.duration() if self.accept(",", "RETENTION") else None
        grace = self.duration() if self.accept(",", "GRACE", "PERIOD") else None
        if self.next.word == "," and self.ahead(1).word in {"SIZE", "ADVANCE", "RETENTION"}:
            raise SqlSyntaxError(
                f"{self.ahead(1).word} is not allowed here",
                at=self.ahead(1).at,
                hint="the order in a window is SIZE, ADVANCE BY (only HOPPING), RETENTION, GRACE PERIOD",
            )
        self.expect(")")
        return Window(at=at, kind=kind, size=size, advance=advance, retention=retention, grace=grace)

    def _grouping(self, clause: str) -> tuple[Expression, ...]:
        """Takes a list of expressions, or one list in parentheses."""
        if self.next.word == "(":
            start = self.index
            self.take()
            if self.next.word == ")":
                raise SqlStatementError(f"{clause} requires at least one expression", at=self.next.at)
            first = self.whole_expression()
            items = (first, *self.listed(self.whole_value)) if self.accept(",") else (first,)
            self.expect(")")
            if self.next.word == ",":
                raise SqlSyntaxError(
                    f"{clause} takes one list", at=self.next.at, hint=f"write {clause} a, b or {clause} (a, b)"
                )
            if self.next.word not in _CONTINUES:
                return items
            self.go_to(start)  # (a + b) * 2: the parentheses belong to an expression
        return self.listed(self.whole_value)

    def _limit(self) -> int | None:
        return self.number("LIMIT") if self.accept("LIMIT") else None


_WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
