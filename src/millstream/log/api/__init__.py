"""The interface of a log. The embedded log and the Kafka log implement the same protocols.

`Log` combines the operations that people use: `Topics`, `Records` and `Groups`. The runtime also uses its parts
`applications`, `views` and `cleanup`. A function that needs one of these protocols takes that one as its argument.
"""

from __future__ import annotations

from millstream.log.api.applications import Applications, Fingerprints, Publication, Published, Scope
from millstream.log.api.changes import Changes
from millstream.log.api.cleanup import Cleanup, Removed
from millstream.log.api.following import Fetched, Follower
from millstream.log.api.groups import Groups
from millstream.log.api.log import Log
from millstream.log.api.records import SCHEMA, Append, Produced, ProducerRecord, Records, Stored
from millstream.log.api.topics import Offsets, Ranges, Topic, TopicPartition, Topics, check_partition
from millstream.log.api.views import ChangesOf, FollowingViews, ViewStorage

__all__ = [
    "SCHEMA",
    "Append",
    "Applications",
    "Changes",
    "ChangesOf",
    "Cleanup",
    "Fetched",
    "Fingerprints",
    "FollowingViews",
    "Follower",
    "Groups",
    "Log",
    "Offsets",
    "Produced",
    "ProducerRecord",
    "Publication",
    "Published",
    "Ranges",
    "Records",
    "Removed",
    "Scope",
    "Stored",
    "Topic",
    "TopicPartition",
    "Topics",
    "ViewStorage",
    "check_partition",
]
