use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks state that a panic of another thread leaves usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
