//! Model providers for zk: wire dialects, streaming, retry, watchdog, usage.

pub mod sse;
