"""Clicks, enriched with the profile and the searches of the user.

A click is joined with the current profile of the user; the left join keeps clicks without a profile. Then it is joined
with the searches of the same user in the preceding five seconds: a stream-stream join, whose stores keep both sides
while a matching record may arrive.
"""

from __future__ import annotations

from typing import Any

from millstream import App, join_window

Fields = dict[str, Any]


def with_profile(click: Fields, profile: Fields | None) -> Fields:
    fields = profile or {}
    return {**click, "name": fields.get("name"), "interests": fields.get("interests", [])}


def with_search(click: Fields, search: Fields) -> Fields:
    return {**click, "terms": search["terms"]}


app = App("click-stream")
clicks = app.stream("clicks")
profiles = app.table("profiles", store="profiles")
searches = app.stream("searches")

enriched = clicks.left_join(profiles, with_profile)
enriched.to("enriched-clicks")

after_search = enriched.join(searches, with_search, join_window(before="5s", after=0, grace="5s"))
after_search.to("clicks-after-search")

if __name__ == "__main__":
    app.run()
