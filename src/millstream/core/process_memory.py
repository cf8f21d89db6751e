"""The memory that this process takes."""

from __future__ import annotations

import os
import resource
import sys

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Returns the resident memory of this process, in bytes. Where the system does not tell it, the greatest so far.

    >>> resident_bytes() > 1_000_000
    True
    """
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123  (it is read often)
            return int(statm.read().split()[1]) * _PAGE
    except OSError:
        greatest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return greatest if sys.platform == "darwin" else greatest * 1024
