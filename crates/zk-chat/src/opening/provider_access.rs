use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedReceiver;
use zk_core::kernel::BoxError;

/// Authentication method of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessWay {
    /// Pasted key, with the provider's page for keys if known.
    Key(Option<String>),
    /// A sign-in in the browser.
    SignIn {
        /// Name of the provider that the sign-in opens.
        provider: String,
        /// Label, such as `sign in with ChatGPT`.
        label: String,
    },
}

/// Provider that a person can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderOffer {
    /// Name by which the person chooses the provider.
    pub name: String,
    /// Name of the provider as people know it.
    pub title: String,
    /// Authentication methods, most common first.
    pub ways: Vec<AccessWay>,
    /// Whether the provider has its own row in the short list.
    pub is_major: bool,
}

/// Model server that was probed on this computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOffer {
    /// Name of the provider that uses the server.
    pub provider: String,
    /// Port of the server.
    pub port: u16,
    /// Listed models; empty if no server answered.
    pub models: Vec<String>,
}

/// Sign-in that waits for the browser.
#[async_trait]
pub trait PendingSignIn: Send {
    /// The address to open.
    fn url(&self) -> &str;

    /// Waits for the browser's redirect or a pasted one, and stores the credential.
    ///
    /// # Errors
    /// When the sign-in was refused, or the credential cannot be stored.
    async fn finish(self: Box<Self>, pasted: UnboundedReceiver<String>) -> Result<(), BoxError>;
}

/// Providers that a person can choose, and their set-up.
#[async_trait]
pub trait ProviderAccess: Send + Sync {
    /// Whether a conversation cannot start: no provider is configured, or its credential is missing.
    async fn is_missing(&self) -> bool;

    /// Configured provider whose credential is missing, if any.
    fn named_provider(&self) -> Option<String> {
        None
    }

    /// Providers to choose from, most popular first.
    fn offers(&self) -> Vec<ProviderOffer>;

    /// Probes the ports of model servers on this computer.
    async fn local_servers(&self) -> Vec<LocalOffer>;

    /// Checks a key at its provider, and stores it unless it is refused. Returns a remark on a key that could not be
    /// checked.
    ///
    /// # Errors
    /// When the provider refuses the key, or it cannot be stored.
    async fn store_key(&self, provider: &str, key: &str) -> Result<Option<String>, BoxError>;

    /// Starts a sign-in in the browser.
    ///
    /// # Errors
    /// When the provider has none, or cannot be reached.
    async fn begin_sign_in(&self, provider: &str) -> Result<Box<dyn PendingSignIn>, BoxError>;

    /// Stores a choice in the settings: the provider, and the model if chosen.
    ///
    /// # Errors
    /// When the settings cannot be written.
    fn keep_choice(&self, provider: &str, model: Option<&str>) -> Result<(), BoxError>;
}
