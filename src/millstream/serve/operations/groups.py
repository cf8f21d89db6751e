"""Routes of consumer groups: their offsets and their lag."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path

from millstream.errors import UnknownGroupError, suggestion
from millstream.serve.access.authorization import require
from millstream.serve.access.roles import Principal, Role
from millstream.serve.data import ServedData
from millstream.serve.operations.applications import data_of

router = APIRouter(prefix="/api/v1/groups", tags=["topics"])

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Data = Annotated[ServedData, Depends(data_of)]


@router.get("", summary="All consumer groups")
def list_groups(data: Data, _principal: Viewer) -> dict[str, Any]:
    """Returns the consumer groups. That of an application has its id as name."""
    return {"groups": sorted(data.log.groups())}


@router.get("/{group}", summary="The lag of a consumer group")
def show(
    group: Annotated[str, Path(description="The consumer group.", max_length=300)], data: Data, _principal: Viewer
) -> dict[str, Any]:
    """Returns the committed offsets of a group, and how many offsets it is behind the end of each partition.

    A partition from which nothing was committed has the offset null, and is behind by all that it has.
    """
    groups = data.log.groups()
    if group not in groups:
        hint = suggestion(group, groups) or f"the groups are: {', '.join(groups) or 'none'}"
        raise UnknownGroupError(f"there is no consumer group {group!r}", hint=hint)
    committed = data.log.committed(group)
    existing = {topic.name for topic in data.log.topics()}
    topics = sorted({topic for topic, _partition in committed} & existing)
    starts, ends = (data.log.starts(topics), data.log.ends(topics)) if topics else ({}, {})
    offsets = []
    for topic in topics:
        for partition, (start, end) in enumerate(zip(starts[topic], ends[topic], strict=True)):
            offset = committed.get((topic, partition))
            lag = max(0, end - (start if offset is None else offset))
            offsets.append({"topic": topic, "partition": partition, "offset": offset, "end": end, "lag": lag})
    return {"group": group, "lag": sum(each["lag"] for each in offsets), "offsets": offsets}
