use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks and ignores poisoning: no holder of such a lock can leave its value half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
