"""The program: the application in the form in which the driver sends it to other processes."""

from __future__ import annotations
