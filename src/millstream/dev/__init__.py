"""Servers for development and tests: a Kafka broker and a schema registry on this machine."""
