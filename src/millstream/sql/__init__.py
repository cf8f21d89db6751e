"""Streaming SQL in ksqlDB's dialect: text, syntax tree, bound tree, plan."""
