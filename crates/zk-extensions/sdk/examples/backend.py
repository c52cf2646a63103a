#!/usr/bin/env python3
"""An agent of its own, as an extension of zk: it counts the lines of the file that a prompt ends with."""
import shlex

from zk_extension import Extension

ext = Extension("counter", "1.0")


@ext.backend("counter", "counts lines of files", models=["lines", "words"])
def counter(turn):
    if turn.results:
        result = turn.results[-1]
        return f"It cannot be counted: {result.text}" if result.failed else f"Counted: {result.text.split()[0]}"
    ext.say("A file to count.", thought=True)
    ext.say("I count with zk's shell, ")
    ext.say("which asks you where it has to.")
    path = shlex.quote(turn.prompt.split()[-1])
    return [{"tool": "shell", "args": {"command": f"wc {'-l' if turn.model == 'lines' else '-w'} {path}"}}]


ext.run()
