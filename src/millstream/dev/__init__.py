"""Servers for development and tests: a Kafka broker on this machine."""
