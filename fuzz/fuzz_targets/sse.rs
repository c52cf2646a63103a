#![no_main]

#[path = "../../crates/zk-providers/tests/it/promises/mod.rs"]
mod promises;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    promises::check("sse", bytes, promises::Cuts::drawn_from(bytes));
});
