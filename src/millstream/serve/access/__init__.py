"""Decides which requests the server answers: tokens, sessions, roles, limits, and the audit log."""
