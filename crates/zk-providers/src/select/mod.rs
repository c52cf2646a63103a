//! Selects the provider, the credential and the model, from a person's settings and requests.
//!
//! All inputs are plain data with their origins in words; this module reads no settings, variables or command
//! line.

mod credentials;
mod endpoint;
mod error;
mod known;
mod local;
mod model_name;
mod offers;
mod provider_map;

pub use credentials::{
    CredentialAccess, CredentialError, CredentialSource, StoredCredentials, stored_credentials,
};
pub use endpoint::{
    CredentialOrigin, GivenValues, RequestedName, SelectedEndpoint, Selection, SelectionReason,
    first_local_server,
};
pub use error::SelectError;
pub use known::{KnownProviders, NamedProvider, ProviderSettings, SetValue, ValueRank};
pub use local::{LocalServer, LocalServerState, probe_local_server};
pub use model_name::{OtherProvider, UnknownModel, lacks_model, lists_model, split_thinking_level};
pub use offers::{FoundServer, KeyCheck, OfferedVendor, check_key, find_local_servers};
pub use provider_map::ProviderMap;
