"""Pages, and the time segments that contain them. The pages of a segment are the buckets of a linear hash table."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.state.paged.format import Numbers, SegmentManifest, page_key

if TYPE_CHECKING:
    from millstream.state.paged.pager import Pager


def bucket_of(value: int, buckets: int) -> int:
    """Returns the bucket of a hash value, by linear hashing.

    With one bucket more, only values of one bucket move, and only to the new one.

    >>> [bucket_of(7, buckets) for buckets in range(1, 10)]
    [0, 1, 1, 3, 3, 3, 3, 7, 7]
    """
    mask = (1 << (buckets - 1).bit_length()) - 1
    bucket = value & mask
    return bucket if bucket < buckets else bucket & (mask >> 1)


class Page:
    """The rows of one bucket: in memory if it has ``members``, else in the remote map and the overlay.

    Attributes:
        members: Find the rows of the page in the store, with repetitions; None if the rows are not in memory.
        overlay: The changes since the remote page was written, if the page is not in memory.
        stored: The bytes of the remote page, as far as known.
        stored_rows: The rows of the remote page.
        pending: The bytes of the changes in the log since the remote page was written.
        records: The number of these changes.
        dirty: The first log segment that the page needs; 0 if the page is clean.
        charge: The estimated memory of the page.
    """

    __slots__ = (
        "bucket", "charge", "dirty", "members", "overlay", "pending", "records", "segment", "stored", "stored_rows",
    )  # fmt: skip

    def __init__(self, segment: Segment, bucket: int) -> None:
        self.segment = segment
        self.bucket = bucket
        self.members: Any = None
        self.overlay: dict[Any, Any] | None = None
        self.stored = 0
        self.stored_rows = 0
        self.pending = 0
        self.records = 0
        self.dirty = 0
        self.charge = 0

    @property
    def key(self) -> bytes:
        """The key of the page in the remote map."""
        return page_key(self.segment.pager.id, self.segment.number, self.bucket)


class Segment:
    """The pages of a time range, in buckets by the hash of the key.

    Until its first page is written, pages that are not in ``pages`` are empty and count as in memory.

    Attributes:
        pages: The pages that are in memory or have an overlay.
        resident: The number of pages in memory.
        pending: The bytes of the changes in the log for its pages.
        checked: The value of ``pending`` when the number of buckets was last checked, while no page is written.
        low: The first time of the segment.
        high: The last time of the segment.
    """

    __slots__ = (
        "buckets", "bytes", "checked", "high", "low", "mask", "number", "pager", "pages", "pending", "resident", "rows",
        "since",
    )  # fmt: skip

    def __init__(self, pager: Pager, entry: SegmentManifest) -> None:
        self.pager = pager
        self.number = entry.number
        self.rows = entry.rows
        self.bytes = entry.bytes
        self.since = entry.since
        self.low = entry.number * pager.width
        self.high = self.low + pager.width - 1
        self.pages: dict[int, Page] = {}
        self.resident = 0 if entry.bytes else entry.buckets
        self.pending = 0
        self.checked = 0
        self.resize(entry.buckets)

    def resize(self, buckets: int) -> None:
        """Sets the number of buckets."""
        self.buckets = buckets
        self.mask = (1 << (buckets - 1).bit_length()) - 1

    def manifest(self) -> SegmentManifest:
        """Returns the entry of the segment in the manifest."""
        return SegmentManifest(self.number, self.buckets, self.rows, self.bytes, self.since)

    def buckets_of(self, values: Numbers) -> Numbers:
        """Returns the buckets of hash values."""
        buckets = values & self.mask
        return np.where(buckets < self.buckets, buckets, buckets & (self.mask >> 1))

    def page_of(self, value: int) -> Page:
        """Returns the page of a hash value."""
        bucket = value & self.mask
        return self.page(bucket if bucket < self.buckets else bucket & (self.mask >> 1))

    def page(self, bucket: int) -> Page:
        """Returns the page of a bucket."""
        page = self.pages.get(bucket)
        if page is None:
            page = self.pages[bucket] = Page(self, bucket)
            if not self.bytes:
                page.members = self.pager.store.members((), ())
        return page

    def moved_by(self, buckets: int) -> Collection[int]:
        """Returns the buckets some of whose rows move if the number of buckets changes to this one."""
        now = self.buckets
        if buckets > now:
            return {bucket_of(bucket, now) for bucket in range(now, buckets)}
        return {bucket_of(bucket, buckets) for bucket in range(buckets, now)}.union(range(buckets, now))
