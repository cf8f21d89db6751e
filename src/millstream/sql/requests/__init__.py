"""Requests of ksqlDB's API, without a web framework: text and properties in, entities and rows out."""
