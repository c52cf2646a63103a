"""Extensions of zk in Python: tools, commands, gates and more. Standard library only.

    from zk_extension import Extension

    ext = Extension("notes", "1.0")

    @ext.tool("word_count", "Counts the words of a text.", {"text": str}, effects={})
    def word_count(text):
        return str(len(text.split()))

    ext.run()

Handlers run in threads, so they may call the methods of the extension and wait for their answers. Whatever they print
goes to standard error, which `zk ext logs` shows.
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

PROTOCOL = "1.1"
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


class RequestError(Exception):
    """A request to zk that failed, or an error to give zk."""

    def __init__(self, message, code=-32000):
        super().__init__(message)
        self.code = code


class Event(dict):
    """Data of an event; `name` and `run` beside it, and for calls `tool` and `args`."""

    def __init__(self, params):
        super().__init__(params.get("data") or {})
        self.name, self.run = params.get("event"), params.get("run")
        self.tool, self.args = (self.get("call") or {}).get("name"), self.get("args") or {}


class Extension:
    """One extension. Register with its decorators, then `run()`."""

    def __init__(self, name, version="0.0.0"):
        self.name, self.version = name, version
        self.hello, self.settings, self.cwd, self.project = {}, {}, None, None
        self._lists = {key: [] for key in
                       ("tools", "commands", "asks", "tells", "sections", "contexts", "renderers", "backends")}
        self._tools, self._previews, self._commands, self._completions = {}, {}, {}, {}
        self._asks, self._tells, self._sections, self._contexts, self._starts = {}, {}, {}, {}, []
        self._backends = {}
        self._greeted, self._last_id, self._waiting, self._cancelled = False, 0, {}, {}
        self._lock, self._here = threading.Lock(), threading.local()
        self._pool = ThreadPoolExecutor(32)
        self._in, self._out = sys.stdin.buffer, sys.stdout.buffer
        sys.stdout = sys.stderr

    # Registrations. Those made while the extension runs are sent to zk at once.

    def tool(self, name, description, params=None, effects=None, preview=None, required=None, **more):
        """A tool of the model. `params` is a JSON Schema, or a dict of names and types or schemas. `effects` says what a
        call does (`{}` nothing, `{"reads": ["$path"]}` …); without it zk asks about each call."""
        schema = params or {}
        if schema.get("type") != "object":
            props = {key: value if isinstance(value, dict) else {"type": _TYPES[value]} for key, value in schema.items()}
            schema = {"type": "object", "properties": props, "required": list(props) if required is None else required}
        entry = {"name": name, "description": description, "schema": schema, "preview": preview is not None, **more}
        if effects is not None:
            entry["effects"] = effects
        self._previews[name] = preview
        return self._registering("tools", self._tools, name, entry)

    def command(self, name, help="", arguments=None, complete=None):
        """A command `/name` of the person: gets the text behind it, returns a text to show, or a reply."""
        self._completions[name] = complete
        entry = {"name": name, "help": help, "completes": complete is not None}
        if arguments:
            entry["arguments"] = arguments
        return self._registering("commands", self._commands, name, entry)

    def on(self, event, stage="consumer"):
        """Asks the function about an event; it returns the reply of the event, or None."""
        return self._registering("asks", self._asks, event, {"event": event, "stage": stage})

    def gate(self, function):
        """Asks the function about each call of a tool; a text that it returns refuses the call."""
        def judge(event):
            reply = function(event)
            return {"decision": "refuse", "reason": reply} if isinstance(reply, str) else reply
        self.on("tool:gate")(judge)
        return function

    def tell(self, event):
        """Tells the function about an event, without waiting for it."""
        return self._registering("tells", self._tells, event, event)

    def section(self, id, text=None, order=500):
        """A section of the system prompt: its text, or a function that gives it at the start of each run."""
        entry = {"id": id, "order": order}
        if text is not None:
            self._register("sections", {**entry, "text": text})
            return None
        return self._registering("sections", self._sections, id, entry)

    def context(self, name, when="prompt"):
        """Text for the model about what holds now, with each prompt or each `request`."""
        return self._registering("contexts", self._contexts, name, {"name": name, "when": when})

    def renderer(self, name, rules):
        """Rules that colour lines of `fence:LANGUAGE` or `block:KIND`: `{"matches": REGEX, "role": "bad"}`."""
        self._register("renderers", {"name": name, "rules": rules})

    def backend(self, name, description="", models=()):
        """An agent that answers prompts once the person chose it with `/backend NAME`. The function gets a turn: `prompt`,
        `results` of the calls before (`text`, `failed`), `messages`, `model`, `tools`, `system`, `session`, `cwd`. It
        returns its answer, behind what `say` sent, or a list of calls of zk's tools: `{"tool": NAME, "args": {…}}`."""
        entry = {"name": name, "description": description, "models": list(models)}
        return self._registering("backends", self._backends, name, entry)

    def start(self, function):
        """Runs the function in a thread of its own once zk has said hello."""
        self._starts.append(function)
        return function

    def _registering(self, key, functions, name, entry):
        def decorate(function):
            functions[name] = function
            self._register(key, entry)
            return function
        return decorate

    def _register(self, key, entry):
        if self._greeted:
            return self.request("register", {key: [entry]})
        return self._lists[key].append(entry)

    def unregister(self, **names):
        """Removes registrations: `unregister(tools=["name"])`."""
        return self.request("unregister", names)

    # Requests to zk.

    def request(self, method, params=None):
        """Sends a request, and waits for its result."""
        done = threading.Event()
        with self._lock:
            self._last_id += 1
            id, slot = self._last_id, [done, None]
            self._waiting[id] = slot
        self._send({"id": id, "method": method, "params": params or {}})
        done.wait()
        if "error" in slot[1]:
            raise RequestError(slot[1]["error"].get("message", "failed"))
        return slot[1].get("result")

    def notify(self, text):
        """Shows the person a line."""
        self._send({"method": "notify", "params": {"text": text}})

    def show(self, key, title, body, kind="", last=False):
        """Shows a block in the conversation; a later one with the same key replaces it."""
        body = {"kind": "lines", "lines": body} if isinstance(body, list) else body
        self._send({"method": "show", "params": {"key": key, "title": title, "body": body, "kind": kind, "last": last}})

    def progress(self, text):
        """Shows output of the call of a tool that is being worked on."""
        self._send({"method": "tool/progress", "params": {"call": self._here.call, "text": text}})

    def say(self, text, thought=False):
        """Sends the next piece of the answer of the turn that is being worked on."""
        self._send({"method": "backend/text", "params": {"turn": self._here.turn, "text": text, "thought": thought}})

    def confirm(self, text, **more):
        """Asks the person for yes or no; False without an answer."""
        return self.request("ask", {"form": "confirm", "text": text, **more})["answer"] == "yes"

    def select(self, text, options, **more):
        """Asks the person for one of several; None without an answer."""
        answer = self.request("ask", {"form": "select", "text": text, "options": options, **more})
        return options[answer["index"]] if answer["answer"] == "choice" else answer.get("text")

    def input(self, text, **more):
        """Asks the person for a line of text; None without an answer."""
        return self.request("ask", {"form": "input", "text": text, **more}).get("text")

    def append(self, kind, data, version=1, audience="hidden"):
        """Keeps an entry of its own in the session."""
        return self.request("session/append", {"kind": kind, "version": version, "data": data, "audience": audience})["id"]

    def entries(self, kind=None):
        """The entries of its own on the current branch, oldest first."""
        return self.request("session/entries", {"kind": kind})

    def side_call(self, purpose, prompt, **more):
        """Asks the model of the run something beside the conversation."""
        return self.request("side_call", {"purpose": purpose, "prompt": prompt, **more})["text"]

    def steer(self, text, run=None):
        """Interrupts the run with a message to the model."""
        return self.request("run/steer", {"text": text, "run": run})

    def deliver(self, text, when="follow_up"):
        """Sends a message to the conversation, which begins a run if none is active."""
        return self.request("deliver", {"text": text, "when": when})

    def is_cancelled(self):
        """Whether nobody waits any more for what this thread works on."""
        flag = getattr(self._here, "cancelled", None)
        return flag is not None and flag.is_set()

    # The loop.

    def run(self):
        """Serves zk until it ends the extension."""
        for line in self._in:
            if line.strip():
                self._receive(json.loads(line))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _receive(self, message):
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            slot = self._waiting.pop(id, None)
            if slot:
                slot[1] = message
                slot[0].set()
        elif method == "cancel":
            flag = self._cancelled.get(params.get("id"))
            if flag:
                flag.set()
        elif id is None:
            self._pool.submit(self._told, method, params)
        else:
            self._cancelled[id] = threading.Event()
            self._pool.submit(self._answer, id, method, params)

    def _told(self, method, params):
        function = self._tells.get(params.get("event")) if method == "event/tell" else None
        if function:
            function(Event(params))

    def _answer(self, id, method, params):
        self._here.cancelled, self._here.call = self._cancelled.get(id), params.get("call")
        self._here.turn = params.get("turn")
        try:
            reply = {"id": id, "result": self._work(method, params)}
        except Exception as error:  # The caller gets every failure.
            reply = {"id": id, "error": {"code": getattr(error, "code", -32000), "message": str(error) or repr(error)}}
        self._cancelled.pop(id, None)
        self._send(reply)
        if method == "hello":
            for function in self._starts:
                threading.Thread(target=function, daemon=True).start()

    def _work(self, method, params):
        if method == "hello":
            self.hello, self.settings = params, params.get("settings") or {}
            self.cwd, self.project, self._greeted = params.get("cwd"), params.get("project"), True
            return {"protocol": PROTOCOL, "name": self.name, "version": self.version, "register": self._lists}
        if method == "event/ask":
            return self._asks[params["event"]](Event(params))
        if method == "tool/call":
            result = self._tools[params["tool"]](**(params.get("args") or {}))
            return result if isinstance(result, dict) and "content" in result else {"content": str(result)}
        if method == "tool/preview":
            return self._previews[params["tool"]](**(params.get("args") or {}))
        if method == "command/run":
            result = self._commands[params["name"]](params.get("args", ""))
            return {"show": result} if isinstance(result, str) else result
        if method == "command/complete":
            choices = self._completions[params["name"]](params.get("before", ""))
            return [{"value": choice} if isinstance(choice, str) else choice for choice in choices]
        if method == "section/text":
            return self._sections[params["id"]]()
        if method == "context/text":
            return self._contexts[params["name"]]()
        if method == "backend/turn":
            reply = self._backends[params["backend"]](SimpleNamespace(**params, results=_results(params["messages"])))
            return reply if isinstance(reply, dict) else {"calls": reply} if isinstance(reply, list) else {"text": reply or ""}
        raise RequestError(f"this extension knows no method {method}", -32601)

    def _send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()


def _results(messages):
    """Results of the calls of the last answer."""
    blocks = messages[-1]["content"] if messages and messages[-1]["role"] == "user" else []
    results = [block for block in blocks if block["type"] == "tool_result"]
    return [SimpleNamespace(text=_text(one["content"]), failed=one.get("is_error", False)) for one in results]


def _text(content):
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)
