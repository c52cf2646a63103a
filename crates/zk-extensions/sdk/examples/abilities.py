#!/usr/bin/env python3
"""The eight abilities of a plugin, as an extension of zk."""
from zk_extension import Extension

ext = Extension("abilities", "1.0")

# 1. Refuse a call.
@ext.gate
def no_force_push(call):
    if "push --force" in str(call.args.get("command", "")):
        return "no force push here"

# 2. Correct the arguments of a call, before anybody judges it.
@ext.on("tool:prepare")
def plain_paths(call):
    path = call.args.get("path")
    if isinstance(path, str) and path.startswith("file://"):
        return {**call.args, "path": path[len("file://"):]}

# 3. A tool.
@ext.tool("roll", "Rolls dice.", {"dice": int}, effects={})
def roll(dice):
    ext.progress("rolling …")
    return f"{dice} dice: all ones"

# 4. Change a result before the model sees it.
@ext.on("tool:transform")
def shorter(result):
    if result.tool == "roll":
        return {"content": "three ones"}

# 5. A command, with completion.
@ext.command("goal", "keeps a goal", arguments="TEXT", complete=lambda before: ["ship it", "rest"])
def goal(args):
    if args and not ext.confirm(f"Keep “{args}”?"):
        return "not kept"
    if args:
        ext.append("goal", args)
    return "\n".join(entry["data"] for entry in ext.entries("goal")) or "no goal"

# 6. Tell the model something: in the system prompt, and about what holds now.
ext.section("house-rules", "Write tests first.")
ext.context("freeze")(lambda: "the release is frozen" if ext.settings.get("frozen") else None)

# 7. Watch what happens, and show it.
@ext.tell("tool:after")
def count(event):
    ext.notify(f"{event.tool or 'a call'} is done")

# 8. Draw a kind of text.
ext.renderer("fence:log", [{"matches": "ERROR.*", "role": "bad", "bold": True}])

ext.run()
