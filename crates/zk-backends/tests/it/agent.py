"""An agent that speaks the Agent Client Protocol and does what the text of a prompt says."""
import json
import os
import sys
import threading
import time

ASKED, LOCK, CANCELLED = {}, threading.Lock(), threading.Event()
NEXT = [1000]
VERSION = int(os.environ.get("AGENT_VERSION", "1"))
STORE = os.environ.get("AGENT_STORE")


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def log(line):
    if STORE:
        with open(STORE, "a") as file:
            file.write(line + "\n")


def ask(method, params):
    with LOCK:
        NEXT[0] += 1
        id = NEXT[0]
    done, answer = threading.Event(), {}
    ASKED[id] = (done, answer)
    send({"id": id, "method": method, "params": params})
    done.wait()
    return answer


def update(session, **fields):
    send({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def say(session, text, kind="agent_message_chunk"):
    update(session, sessionUpdate=kind, content={"type": "text", "text": text})


def permission(session, call):
    options = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    answer = ask("session/request_permission", {"sessionId": session, "toolCall": call, "options": options})
    outcome = answer.get("result", {}).get("outcome", {})
    log("permission " + json.dumps(outcome))
    return outcome.get("optionId")


def edit(session, cwd):
    path, call = os.path.join(cwd, "cart.py"), "e1"
    old = open(path).read()
    new = old.replace("b = 2", "b = 3")
    content = [{"type": "diff", "path": path, "oldText": old, "newText": new}]
    body = {"toolCallId": call, "title": "edit cart.py", "kind": "edit", "content": content,
            "locations": [{"path": path}]}
    update(session, sessionUpdate="tool_call", status="pending", **body)
    if permission(session, body) == "yes":
        open(path, "w").write(new)
        update(session, sessionUpdate="tool_call_update", toolCallId=call, status="completed")
        return True
    update(session, sessionUpdate="tool_call_update", toolCallId=call, status="failed",
           content=[{"type": "content", "content": {"type": "text", "text": "not allowed"}}])
    return False


def work(session, cwd, text):
    if "whole" in text:
        say(session, "I look at ", "agent_thought_chunk")
        say(session, "the cart.", "agent_thought_chunk")
        plan = [{"content": "change the cart", "status": "in_progress"}, {"content": "run it", "status": "pending"}]
        update(session, sessionUpdate="plan", entries=plan)
        say(session, "I change it.")
        done = edit(session, cwd)
        say(session, "It is changed." if done else "It stays as it is.")
    elif "command" in text:
        call = {"toolCallId": "x1", "title": "`touch made`", "kind": "execute", "rawInput": {"command": "touch made"}}
        update(session, sessionUpdate="tool_call", status="pending", **call)
        answer = permission(session, call)
        ok = answer == "yes"
        update(session, sessionUpdate="tool_call_update", toolCallId="x1", status="completed" if ok else "failed",
               content=[{"type": "content", "content": {"type": "text", "text": f"answer {answer}"}}])
        say(session, f"The answer was {answer}.")
    elif "files" in text:
        read = ask("fs/read_text_file", {"sessionId": session, "path": os.path.join(cwd, "cart.py"), "line": 2, "limit": 1})
        wrote = ask("fs/write_text_file", {"sessionId": session, "path": os.path.join(cwd, "new.txt"), "content": "n\n"})
        out = ask("fs/read_text_file", {"sessionId": session, "path": "/etc/hostname"})
        say(session, json.dumps([read.get("result"), "error" in wrote, "error" in out]))
    elif "write" in text:
        call = {"toolCallId": "f1", "title": "Write", "kind": "edit", "rawInput": {"content": "by permission\n"},
                "content": [{"type": "diff", "path": os.path.join(cwd, "asked.txt"), "newText": "by permission\n"}]}
        update(session, sessionUpdate="tool_call", status="pending", **call)
        answer = permission(session, call)
        update(session, sessionUpdate="tool_call_update", toolCallId="f1", status="completed")
        wrote = ask("fs/write_text_file", {"sessionId": session, "path": os.path.join(cwd, "new.txt"), "content": "n\n"})
        say(session, json.dumps([answer, "error" not in wrote]))
    elif "terminal" in text:
        made = ask("terminal/create", {"sessionId": session, "command": "echo", "args": ["it's", "$HOME"]})
        if "error" in made:
            say(session, "refused: " + made["error"]["message"])
            return
        ids = {"sessionId": session, "terminalId": made["result"]["terminalId"]}
        exit = ask("terminal/wait_for_exit", ids)["result"]
        output = ask("terminal/output", ids)["result"]
        ask("terminal/release", ids)
        gone = ask("terminal/output", ids)
        say(session, json.dumps([exit.get("exitCode"), output["output"], "error" in gone]))
    elif "children" in text:
        import subprocess
        child = subprocess.Popen(["sleep", "1000"])
        say(session, f"child {child.pid}")
    elif "hang" in text:
        say(session, "I hang.")
        time.sleep(1000)
    elif "wait" in text:
        update(session, sessionUpdate="tool_call", toolCallId="w1", title="wait for you", kind="other", status="in_progress")
        CANCELLED.wait()
    elif "double" in text:
        update(session, sessionUpdate="tool_call", toolCallId="t1", title="the first step", kind="other", status="in_progress")
        while not os.path.exists(os.path.join(cwd, "go")):
            time.sleep(0.01)
        update(session, sessionUpdate="tool_call_update", toolCallId="t1", status="completed")
        CANCELLED.wait()
    elif "late" in text:
        say(session, "I go on.")
        CANCELLED.wait()
        log("late " + str(permission(session, {"toolCallId": "l1", "title": "later", "kind": "execute",
                                               "rawInput": {"command": "touch late"}})))
    elif "die" in text:
        say(session, "I die.")
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)
    elif "garbage" in text:
        with LOCK:
            for n in range(1000):
                sys.stdout.write(f"garbage {n}\n")
            sys.stdout.flush()
        time.sleep(1000)
    elif "flood" in text:
        update(session, sessionUpdate="tool_call", toolCallId="f1", title="flood", kind="other", status="in_progress")
        for _ in range(1000):
            say(session, "x" * 20000)
        time.sleep(1000)
    elif "huge" in text:
        with LOCK:
            for _ in range(40):
                sys.stdout.write("x" * (1 << 20))
            sys.stdout.flush()
        time.sleep(1000)
    else:
        say(session, f"You said: {text}")


def prompt(id, params):
    session = params["sessionId"]
    text = "\n".join(block.get("text", block["type"]) for block in params["prompt"])
    log("prompt " + json.dumps(text))
    CANCELLED.clear()
    work(session, SESSIONS.get(session, "."), text)
    send({"id": id, "result": {"stopReason": "cancelled" if CANCELLED.is_set() else "end_turn"}})


SESSIONS = {}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method is None:
            done, answer = ASKED[id]
            answer.update(message)
            done.set()
            continue
        log(method)
        if method == "initialize":
            if os.environ.get("AGENT_SILENT"):
                time.sleep(1000)
            send({"id": id, "result": {
                "protocolVersion": VERSION, "agentInfo": {"name": "tester", "version": "1.0"},
                "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True}},
                "authMethods": [{"id": "browser", "name": "In the browser"}]}})
        elif method == "session/new":
            if os.environ.get("AGENT_SIGN_IN"):
                send({"id": id, "error": {"code": -32000, "message": "Authentication required"}})
                continue
            name = f"s{os.getpid()}-{len(SESSIONS)}"
            SESSIONS[name] = params["cwd"]
            send({"id": id, "result": {"sessionId": name, "configOptions": [
                {"id": "model", "category": "model", "type": "select", "currentValue": "small",
                 "options": [{"value": "small", "name": "S"}, {"value": "large", "name": "L"}]}]}})
        elif method == "session/load":
            SESSIONS[params["sessionId"]] = params["cwd"]
            say(params["sessionId"], "replayed")
            send({"id": id, "result": {}})
        elif method == "session/prompt":
            threading.Thread(target=prompt, args=(id, params), daemon=True).start()
        elif method == "session/cancel":
            CANCELLED.set()
        elif id is not None:
            send({"id": id, "result": {}})


main()
