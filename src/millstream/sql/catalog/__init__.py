"""The catalog of a session: streams, tables, types and queries."""
