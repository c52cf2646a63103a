mod memory;
#[cfg(feature = "sqlite")]
mod socket;

pub use memory::MemoryRelay;
#[cfg(feature = "sqlite")]
pub use socket::SocketRelay;
