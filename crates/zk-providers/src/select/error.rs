use super::local::LocalServer;

/// Reason why no provider was selected. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// No provider has this name.
    #[error("unknown provider `{name}`: the known ones are {}", known.join(", "))]
    UnknownProvider {
        /// Name as given.
        name: String,
        /// Names of the known providers.
        known: Vec<String>,
    },
    /// The settings of a provider name an unknown vendor.
    #[error("the provider `{provider}` is to be like `{vendor}`, which is no vendor: use one of {}", known.join(", "))]
    UnknownVendor {
        /// Name of the provider.
        provider: String,
        /// Name of the vendor.
        vendor: String,
        /// Names of all vendors.
        known: Vec<&'static str>,
    },
    /// The provider has no base URL.
    #[error("nobody says where {provider} is: give it a base URL")]
    NoAddress {
        /// Name of the provider.
        provider: String,
    },
    /// The provider requires a sign-in and has no tokens.
    #[error("not signed in to {provider}: sign in first")]
    NotSignedIn {
        /// Name of the provider.
        provider: String,
    },
    /// The provider has no key.
    #[error("no key for {provider}: store one, or set {variable}")]
    NoKey {
        /// Name of the provider.
        provider: String,
        /// Variable that usually holds the key.
        variable: &'static str,
    },
    /// No provider is configured, and no local server can be used.
    #[error(
        "no API key, and no model server on this machine that has a model: store a key, or start a server"
    )]
    NothingConfigured {
        /// Services with a default model, each with the environment variable for its key.
        services: Vec<(&'static str, &'static str)>,
        /// Local servers that were checked.
        servers: Vec<LocalServer>,
    },
    /// The provider of the requested model cannot be used.
    #[error("the model {model}: {source}")]
    Model {
        /// Name of the model as requested.
        model: String,
        /// Error of its provider.
        source: Box<Self>,
    },
}

impl SelectError {
    /// Whether a key or a sign-in is missing.
    #[must_use]
    pub fn lacks_credential(&self) -> bool {
        match self {
            Self::NotSignedIn { .. } | Self::NoKey { .. } | Self::NothingConfigured { .. } => true,
            Self::UnknownProvider { .. } | Self::UnknownVendor { .. } | Self::NoAddress { .. } => false,
            Self::Model { source, .. } => source.lacks_credential(),
        }
    }
}
