"""The view of a conversation, made by its patches."""

from __future__ import annotations

import copy
from typing import Any

# Characters of a running call's output that are kept, about.
MAX_PROGRESS_CHARS = 64 * 1024

# What a patch replaces of a view, and the field that has it.
_REPLACED = {"queue": ("queue", "queued"), "status": ("status", "status"), "agents": ("agents", "agents"),
             "jobs": ("jobs", "jobs"), "checklist": ("checklist", "items")}


def empty_view() -> dict[str, Any]:
    """A view without anything in it."""
    return {"switches": 0, "blocks": [], "cards": [], "queue": [], "status": {"activity": {"doing": "idle"}},
            "agents": [], "jobs": [], "checklist": []}


def apply_patch(view: dict[str, Any], patch: dict[str, Any]) -> None:
    """Makes the change that a patch says, in the view itself."""
    kind, blocks = patch["patch"], view["blocks"]
    if kind == "reset":
        view.clear()
        view.update(empty_view(), **copy.deepcopy(patch["view"]))
    elif kind == "open":
        blocks.append(patch["block"])
    elif kind in ("change", "close"):
        at = _place(blocks, patch["block"]["id"])
        blocks[at:at + 1] = [patch["block"]]
    elif kind == "grow":
        at = _place(blocks, patch["id"])
        for block in blocks[at:at + 1]:
            blocks[at] = _grown(block, patch["delta"])
    elif kind == "remove":
        at = _place(blocks, patch["id"])
        del blocks[at:at + 1]
    elif kind == "ask":
        view["cards"].append(patch["card"])
    elif kind == "answered":
        view["cards"] = [card for card in view["cards"] if card["id"] != patch["id"]]
    elif kind in _REPLACED:
        of_view, of_patch = _REPLACED[kind]
        view[of_view] = patch[of_patch]


def _place(blocks: list[dict[str, Any]], block_id: str) -> int:
    """Index of a block, found from the end; behind the last one where it is not there."""
    found = (at for at in range(len(blocks) - 1, -1, -1) if blocks[at]["id"] == block_id)
    return next(found, len(blocks))


def _grown(block: dict[str, Any], delta: str) -> dict[str, Any]:
    content = dict(block["content"])
    if content["type"] in ("answer", "thinking"):
        content["text"] += delta
    elif content["type"] == "call":
        content["progress"] = (content.get("progress", "") + delta)[-MAX_PROGRESS_CHARS:]
    return {**block, "content": content}
