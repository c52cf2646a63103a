//! Places at which clients come: a socket of this user, WebSockets of this machine.

pub(super) mod access_file;
pub(super) mod socket;
pub(super) mod websocket;
