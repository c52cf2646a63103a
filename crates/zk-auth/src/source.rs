use async_trait::async_trait;
use zk_core::kernel::Cx;

use super::AuthError;
use crate::Secret;

/// Source of the token for requests, sent as `Authorization: Bearer …`.
///
/// ```
/// use async_trait::async_trait;
/// use zk_core::kernel::Cx;
/// use zk_auth::Secret;
/// use zk_auth::{AuthError, TokenSource};
///
/// /// A token that never changes.
/// struct Fixed(Secret);
///
/// #[async_trait]
/// impl TokenSource for Fixed {
///     async fn token(&self, _: &Cx) -> Result<Secret, AuthError> {
///         Ok(self.0.clone())
///     }
///
///     async fn replace(&self, _: &Secret, _: &Cx) -> Result<Option<Secret>, AuthError> {
///         Ok(None)
///     }
/// }
/// ```
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// Current token.
    ///
    /// # Errors
    /// [`AuthError`] when there is no token.
    async fn token(&self, cx: &Cx) -> Result<Secret, AuthError>;

    /// Returns another token in place of `rejected`, which the server answered with 401; `None` without
    /// another one.
    ///
    /// # Errors
    /// [`AuthError`] when a new token cannot be obtained.
    async fn replace(&self, rejected: &Secret, cx: &Cx) -> Result<Option<Secret>, AuthError>;

    /// Whether the token may be sent to `host`, so that it does not reach a wrong server.
    fn serves(&self, host: &str) -> bool {
        let _ = host;
        true
    }
}
