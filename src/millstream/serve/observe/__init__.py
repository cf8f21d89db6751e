"""Observes applications: reports, metrics over time, and alerts."""
