"""Clicks, enriched with who clicked and what they had searched for.

A click is joined with the profile that the user has at that moment; a visitor without a profile is kept, too. Then it
is joined with the searches of the same user in the five seconds before: a stream with a stream, so both sides are kept
for as long as a partner may come.
"""

from __future__ import annotations

from typing import Any

from millstream import App, join_window

Fields = dict[str, Any]


def with_profile(click: Fields, profile: Fields | None) -> Fields:
    known = profile or {}
    return {**click, "name": known.get("name"), "interests": known.get("interests", [])}


def with_search(click: Fields, search: Fields) -> Fields:
    return {**click, "terms": search["terms"]}


app = App("click-stream")
clicks = app.stream("clicks")
profiles = app.table("profiles", store="profiles")
searches = app.stream("searches")

enriched = clicks.left_join(profiles, with_profile)
enriched.to("enriched-clicks")

found = enriched.join(searches, with_search, join_window(before="5s", after=0, grace="5s"))
found.to("clicks-after-search")

if __name__ == "__main__":
    app.run()
