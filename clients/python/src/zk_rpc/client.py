"""Connections, requests and conversations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from .view import apply_patch, empty_view

# Version of the protocol that this client was made for.
PROTOCOL_VERSION = "1.4"

# Most bytes of a line that is read.
MAX_LINE_BYTES = 256 << 20


class RpcError(Exception):
    """Error that answers a request."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data") or {}


class Client:
    """Connection to a server: requests, and notifications to whoever listens."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any, process: Any = None) -> None:
        self._reader, self._writer, self._process = reader, writer, process
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listeners: list[Callable[[str, dict[str, Any]], None]] = []
        self._reading = asyncio.create_task(self._read())

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                if line.strip():
                    self._take(json.loads(line))
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection to zk is over"))
            self._waiting.clear()
            self._tell("connection/closed", {})

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self._tell(message["method"], message["params"])
            return
        waiting = self._waiting.pop(message["id"], None)
        if waiting is None or waiting.done():
            return
        if "error" in message:
            waiting.set_exception(RpcError(message["error"]))
        else:
            waiting.set_result(message["result"])

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        for listener in list(self._listeners):
            listener(method, params)

    async def request(self, method: str, **params: Any) -> Any:
        """Sends a request, and gives its result."""
        if self._reading.done():
            raise ConnectionError("the connection to zk is over")
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = answer
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()
        return await answer

    async def initialize(self, role: str = "driver", name: str = "zk-rpc-python", **more: Any) -> dict[str, Any]:
        """Says who the client is."""
        client = {"name": name, "version": "0.1.0"}
        return await self.request("initialize", protocol_version=PROTOCOL_VERSION, client=client, role=role, **more)

    def on_notification(self, listener: Callable[[str, dict[str, Any]], None]) -> Callable[[], None]:
        """Calls `listener` with each notification, until what is given back is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def new_conversation(self, **params: Any) -> Conversation:
        """Opens a conversation with a new session, and follows it."""
        opened = await self.request("session/new", **params)
        return await self.follow(opened["conversation"])

    async def open_session(self, session: str) -> Conversation:
        """Opens a stored session, and follows its conversation."""
        opened = await self.request("session/open", session=session)
        return await self.follow(opened["conversation"])

    async def follow(self, conversation_id: str) -> Conversation:
        """Follows an open conversation."""
        conversation = Conversation(self, conversation_id)
        await conversation.subscribe()
        return conversation

    async def close(self) -> None:
        """Ends the connection, and waits for the program where this client started it."""
        self._writer.close()
        if self._process is not None:
            await self._process.wait()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


class Conversation:
    """Conversation with its view, which its notifications keep up to date."""

    def __init__(self, client: Client, conversation_id: str) -> None:
        self._client, self.id = client, conversation_id
        self.view = empty_view()
        self.seq: int | None = None
        self.settled_seq = -1
        self.is_over = False
        self._changed = asyncio.Event()
        self._forget = client.on_notification(self._take)

    def _take(self, method: str, params: dict[str, Any]) -> None:
        if method != "connection/closed" and params.get("conversation") != self.id:
            return
        self.seq = params.get("seq", self.seq)
        if method == "conversation/patch":
            apply_patch(self.view, params["patch"])
        if method == "conversation/settled" or params.get("settled"):
            self.settled_seq = params["seq"]
        elif method in ("conversation/closed", "connection/closed"):
            self.is_over = True
            self._forget()
        self._changed.set()

    async def request(self, method: str, **params: Any) -> Any:
        """Sends a request about this conversation."""
        return await self._client.request(method, conversation=self.id, **params)

    async def subscribe(self) -> dict[str, Any]:
        """Follows the conversation, from the last notification that is known on."""
        return await self.request("subscribe", **({} if self.seq is None else {"after": self.seq}))

    async def move_to(self, client: Client) -> dict[str, Any]:
        """Goes on over another connection, behind the last notification that came over this one."""
        self._forget()
        self._client, self.is_over = client, False
        self._forget = client.on_notification(self._take)
        return await self.subscribe()

    async def until(self, is_done: Callable[[Conversation], bool]) -> None:
        """Waits until `is_done` holds of this conversation."""
        while not is_done(self):
            if self.is_over:
                raise ConnectionError("the conversation is over")
            self._changed.clear()
            await self._changed.wait()

    async def submit(self, text: str, images: list[str] | None = None) -> int:
        """Sends a prompt; gives the number for `settled_after`. Images are base64."""
        return (await self.request("submit", text=text, **({"images": images} if images else {})))["seq"]

    async def settled_after(self, seq: int) -> None:
        """Waits until all is done that was asked for up to this number."""
        await self.until(lambda now: now.settled_seq > seq)

    async def ask(self, text: str) -> str:
        """Sends a prompt, waits until nothing follows, and gives the last answer."""
        await self.settled_after(await self.submit(text))
        return self.last_answer()

    def last_answer(self) -> str:
        """The text of the last answer."""
        for block in reversed(self.view["blocks"]):
            content = block["content"]
            if "agent" not in block and content["type"] == "answer" and content["text"]:
                return content["text"]
        return ""

    async def steer(self, text: str) -> int:
        """Interrupts the run with a text; gives the number for `settled_after`."""
        return (await self.request("steer", text=text))["seq"]

    async def switch(self, to: str | dict[str, Any]) -> dict[str, Any]:
        """Puts another session in the place of this one: `"new"`, or `{"session": ID}`."""
        return await self.request("switch", to=to)

    async def stop(self) -> None:
        await self.request("stop")

    async def answer(self, card: dict[str, Any], answer: dict[str, Any]) -> None:
        """Answers a question, as its card showed it."""
        await self.request("answer", id=card["id"], digest=card["digest"], answer=answer)

    async def command(self, line: str) -> dict[str, Any]:
        return await self.request("command", line=line)

    async def close(self) -> None:
        await self.request("close")


async def start(*args: str, command: str = "zk", **options: Any) -> Client:
    """Starts zk, and connects to it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        command, "rpc", *args, stdin=pipe, stdout=pipe, limit=MAX_LINE_BYTES, **options
    )
    return Client(process.stdout, process.stdin, process)


async def connect_socket(path: str) -> Client:
    """Connects to `zk rpc --socket PATH`."""
    return Client(*await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES))
