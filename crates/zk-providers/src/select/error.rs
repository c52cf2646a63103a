use super::local::LocalServer;

/// Reason why no provider was selected. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// Nobody knows a provider of this name.
    #[error("unknown provider `{name}`: the known ones are {}", known.join(", "))]
    UnknownProvider {
        /// The name.
        name: String,
        /// Names of all other providers.
        known: Vec<String>,
    },
    /// The vendor that the settings of a provider name is unknown.
    #[error("the provider `{provider}` is to be like `{vendor}`, which is no vendor: use one of {}", known.join(", "))]
    UnknownVendor {
        /// The provider.
        provider: String,
        /// Name of the vendor.
        vendor: String,
        /// Names of all vendors.
        known: Vec<&'static str>,
    },
    /// A provider has no address.
    #[error("nobody says where {provider} is: give it a base URL")]
    NoAddress {
        /// The provider.
        provider: String,
    },
    /// A provider that is used after signing in has no tokens.
    #[error("not signed in to {provider}: sign in first")]
    NotSignedIn {
        /// The provider.
        provider: String,
    },
    /// A provider has no key.
    #[error("no key for {provider}: store one, or set {variable}")]
    NoKey {
        /// The provider.
        provider: String,
        /// Variable that usually holds the key.
        variable: &'static str,
    },
    /// Nothing is configured, and no server of this machine can be used.
    #[error(
        "no API key, and no model server on this machine that has a model: store a key, or start a server"
    )]
    NothingConfigured {
        /// Services with a usual model, each with the variable for its key.
        services: Vec<(&'static str, &'static str)>,
        /// Servers that were looked for.
        servers: Vec<LocalServer>,
    },
    /// The provider of the requested model cannot be used.
    #[error("the model {model}: {source}")]
    Model {
        /// Name of the model, as it was requested.
        model: String,
        /// Fault of its provider.
        source: Box<Self>,
    },
}

impl SelectError {
    /// Whether a key or a sign-in is what is missing.
    #[must_use]
    pub fn lacks_credential(&self) -> bool {
        match self {
            Self::NotSignedIn { .. } | Self::NoKey { .. } | Self::NothingConfigured { .. } => true,
            Self::UnknownProvider { .. } | Self::UnknownVendor { .. } | Self::NoAddress { .. } => false,
            Self::Model { source, .. } => source.lacks_credential(),
        }
    }
}
