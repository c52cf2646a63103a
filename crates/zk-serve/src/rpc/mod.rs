//! `zk rpc`: JSON-RPC 2.0, a line a message, for programs of any language. Clients share conversations; each has a role.

mod client;
mod conversation;
mod journal;
mod listen;
mod message;
mod methods;
mod params;
#[cfg(feature = "schema")]
mod schema;
mod server;
pub(crate) mod token;
pub mod wire;

pub use listen::access_file::RpcAccessFile;
pub use listen::socket::RpcSocket;
pub use listen::websocket::RpcWebSocket;
#[cfg(feature = "schema")]
pub use schema::rpc_schema;
pub use server::{RpcOptions, RpcServer};
pub use token::RpcTokens;
pub use wire::attach::{RPC_VERSION, Role};
