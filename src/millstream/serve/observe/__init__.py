"""What the server knows of applications: their reports, metrics over time, and alerts."""
