use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nothing that holds one of these locks can leave its value half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
