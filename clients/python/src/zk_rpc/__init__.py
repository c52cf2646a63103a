"""Client of `zk rpc`: over the streams of a program that it starts, or a unix socket."""

from .client import PROTOCOL_VERSION, Client, Conversation, RpcError, connect_socket, start
from .view import apply_patch, empty_view

__all__ = [
    "PROTOCOL_VERSION",
    "Client",
    "Conversation",
    "RpcError",
    "apply_patch",
    "connect_socket",
    "empty_view",
    "start",
]
