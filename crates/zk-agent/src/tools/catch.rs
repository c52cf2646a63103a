use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a tool's method that describes a call; `None` if the method panics, since the arguments are
/// unchecked.
pub(super) fn catch_panic<T>(describe: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(describe)).ok()
}
