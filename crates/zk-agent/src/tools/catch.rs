use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns what a tool says of a call; nothing if it panics, since its arguments may be anything.
pub(super) fn catch_panic<T>(describe: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(describe)).ok()
}
