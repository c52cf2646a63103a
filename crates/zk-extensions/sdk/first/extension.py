#!/usr/bin/env python3
"""An extension of zk: a tool, a gate and a command."""
from zk_extension import Extension

ext = Extension("NAME", "0.1.0")


@ext.tool("word_count", "Counts the words of a text.", {"text": str}, effects={})
def word_count(text):
    return f"{len(text.split())} words"


@ext.gate
def no_force_push(call):
    if "push --force" in str(call.args.get("command", "")):
        return "no force push here"


@ext.command("shout", "says it louder", arguments="TEXT")
def shout(args):
    return args.upper() + "!"


ext.run()
