"""Alerts: rules on the samples of applications, their states, and their delivery."""
