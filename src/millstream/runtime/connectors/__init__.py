"""Runs the connectors of an application beside its topology."""
