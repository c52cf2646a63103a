use async_trait::async_trait;
use zk_core::kernel::Cx;

use super::AuthError;
use crate::Secret;

/// Gives the token each request shows, as `Authorization: Bearer …`.
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
    /// The token to show now.
    ///
    /// # Errors
    /// [`AuthError`] when there is none.
    async fn token(&self, cx: &Cx) -> Result<Secret, AuthError>;

    /// Another token in place of `rejected`, which the server answered 401 to; nothing if there is no other.
    ///
    /// # Errors
    /// [`AuthError`] when getting one failed.
    async fn replace(&self, rejected: &Secret, cx: &Cx) -> Result<Option<Secret>, AuthError>;

    /// Whether the token may be shown to `host`. A token that goes to the wrong server is a stolen one.
    fn serves(&self, host: &str) -> bool {
        let _ = host;
        true
    }
}
