//! Providers that a person without one can choose from, and the check of a key.

use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::model::ErrorKind;
use zk_core::service::Provider;

use super::known::KnownProviders;
use super::local::{LocalServer, probe_local_models};
use crate::catalogue::vendors::{Access, FIRST_OFFERED, SUBSCRIPTION_SIGN_INS, Vendor, Vendors};

/// Time limit for a provider to check a key.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Vendor with an API key, as offered to a person.
#[derive(Clone, Copy, Debug)]
pub struct OfferedVendor {
    /// The vendor.
    pub vendor: Vendor,
    /// Name of the provider behind a sign-in, and the sign-in in a few words.
    pub sign_in: Option<(&'static str, &'static str)>,
    /// Whether the vendor has its own row in a short list.
    pub is_major: bool,
}

impl KnownProviders {
    /// Vendors with an API key, most popular first.
    ///
    /// ```
    /// use zk_providers::select::KnownProviders;
    ///
    /// let offered = KnownProviders::default().offered();
    /// assert_eq!(offered[0].vendor.title(), "Anthropic");
    /// ```
    #[must_use]
    pub fn offered(&self) -> Vec<OfferedVendor> {
        let vendors = self.map.vendors();
        let has_key = |vendor: &&Vendor| {
            matches!(vendor.access, Access::Key(_))
                && vendor.base_url.is_some()
                && !vendor.is_other_dialect_of_vendor()
        };
        let is_first = |vendor: &&Vendor| FIRST_OFFERED.iter().any(|(name, _)| *name == vendor.name);
        let first = FIRST_OFFERED.iter().filter_map(|(name, _)| vendors.named(name)).filter(has_key);
        let others = vendors.iter().filter(has_key).filter(|vendor| !is_first(vendor));
        let offer = |vendor: &Vendor| {
            let subscription = SUBSCRIPTION_SIGN_INS
                .iter()
                .find(|(name, with, _)| *name == vendor.name && vendors.named(with).is_some());
            OfferedVendor {
                vendor: *vendor,
                sign_in: subscription.map(|(_, with, words)| (*with, *words)),
                is_major: FIRST_OFFERED.contains(&(vendor.name, true)),
            }
        };
        first.chain(others).map(offer).collect()
    }
}

/// Model server of this machine, with the models that it has.
#[derive(Clone, Debug)]
pub struct FoundServer {
    /// The server.
    pub server: LocalServer,
    /// Ids of its models.
    pub models: Vec<String>,
}

/// Looks for all model servers of this machine at their usual ports, at once.
pub async fn find_local_servers(vendors: &Vendors) -> Vec<FoundServer> {
    let locals = vendors.iter().filter_map(|vendor| match vendor.access {
        Access::Local(port) => Some((*vendor, port)),
        Access::Key(_) | Access::SignIn | Access::Open => None,
    });
    let look = async |(vendor, port): (Vendor, u16)| {
        let (state, models) = probe_local_models(vendor, port).await;
        FoundServer { server: LocalServer { name: vendor.name, port, state }, models }
    };
    futures_util::future::join_all(locals.map(look)).await
}

/// Answer of a provider to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCheck {
    /// The provider takes the key.
    Accepted,
    /// The provider refused the key, with its message.
    Refused(String),
    /// The provider answers equally without a key, so the key is unverified.
    Unknown,
    /// The provider could not be asked.
    Unreachable(String),
}

/// Checks with the provider whether the key in `with_key` is accepted. `without_key` is the same provider
/// without one, since some list their models to everybody.
pub async fn check_key(with_key: &dyn Provider, without_key: Option<&dyn Provider>) -> KeyCheck {
    match list_models(with_key).await {
        Listing::Listed => match without_key {
            Some(open) if list_models(open).await == Listing::Listed => KeyCheck::Unknown,
            Some(_) | None => KeyCheck::Accepted,
        },
        Listing::Refused(why) => KeyCheck::Refused(why),
        Listing::Nothing => KeyCheck::Unknown,
        Listing::Failed(why) => KeyCheck::Unreachable(why),
    }
}

#[derive(PartialEq)]
enum Listing {
    Listed,
    /// The provider has an empty list.
    Nothing,
    Refused(String),
    Failed(String),
}

async fn list_models(provider: &dyn Provider) -> Listing {
    let cx = Bus::new().cx();
    match tokio::time::timeout(CHECK_TIMEOUT, provider.list_models(&cx)).await {
        Ok(Ok(Some(_))) => Listing::Listed,
        Ok(Ok(None)) => Listing::Nothing,
        Ok(Err(error)) if error.kind == ErrorKind::Auth => Listing::Refused(error.message),
        // A quota or rate error comes after the key was accepted.
        Ok(Err(error)) if matches!(error.kind, ErrorKind::Quota | ErrorKind::Rate) => Listing::Listed,
        Ok(Err(error)) => Listing::Failed(error.message),
        Err(_) => Listing::Failed(format!("no answer within {} s", CHECK_TIMEOUT.as_secs())),
    }
}
