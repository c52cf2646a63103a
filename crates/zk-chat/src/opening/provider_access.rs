use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedReceiver;
use zk_core::kernel::BoxError;

/// Way to become a user of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessWay {
    /// A key that is pasted. The page of the provider where keys are made, where it is known.
    Key(Option<String>),
    /// A sign-in in the browser.
    SignIn {
        /// Name of the provider that is used then.
        provider: String,
        /// Description in a few words, such as `sign in with ChatGPT`.
        label: String,
    },
}

/// Provider that a person can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderOffer {
    /// Name it is chosen by.
    pub name: String,
    /// Name as people know it.
    pub title: String,
    /// Ways to use it, the usual one first.
    pub ways: Vec<AccessWay>,
    /// Whether it has a row of its own in a short list.
    pub is_major: bool,
}

/// Model server of this computer that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOffer {
    /// Name of its provider.
    pub provider: String,
    /// Port it listens on.
    pub port: u16,
    /// Models that it has; nothing where there is no server.
    pub models: Vec<String>,
}

/// Sign-in that waits for the browser.
#[async_trait]
pub trait PendingSignIn: Send {
    /// The address to open.
    fn url(&self) -> &str;

    /// Waits for the answer of the browser, or for a line of `pasted` that is one, and stores what comes of it.
    ///
    /// # Errors
    /// When the sign-in was refused, or nothing can be stored.
    async fn finish(self: Box<Self>, pasted: UnboundedReceiver<String>) -> Result<(), BoxError>;
}

/// Access of the person to providers: which there are, and what makes one usable.
#[async_trait]
pub trait ProviderAccess: Send + Sync {
    /// Whether a conversation could not begin: nothing says which provider to use, or its credential is missing.
    async fn is_missing(&self) -> bool;

    /// The provider whose credential is missing, where one is named.
    fn named_provider(&self) -> Option<String> {
        None
    }

    /// The providers to choose from, those that most people use first.
    fn offers(&self) -> Vec<ProviderOffer>;

    /// Looks for model servers of this computer.
    async fn local_servers(&self) -> Vec<LocalOffer>;

    /// Checks a key at its provider, and stores it unless it is refused. Returns a remark on a key that could not be
    /// checked.
    ///
    /// # Errors
    /// When the provider refuses the key, or it cannot be stored.
    async fn store_key(&self, provider: &str, key: &str) -> Result<Option<String>, BoxError>;

    /// Begins a sign-in in the browser.
    ///
    /// # Errors
    /// When the provider has none, or cannot be reached.
    async fn begin_sign_in(&self, provider: &str) -> Result<Box<dyn PendingSignIn>, BoxError>;

    /// Keeps a choice for later starts: the provider, and its model where that was chosen as well.
    ///
    /// # Errors
    /// When the settings cannot be written.
    fn keep_choice(&self, provider: &str, model: Option<&str>) -> Result<(), BoxError>;
}
