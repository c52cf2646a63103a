use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret;
use zk_auth::{Credential, Secret};
use zk_core::kernel::Bus;
use zk_core::model::ErrorKind;
use zk_core::service::Provider;
use zk_providers::{Access, Vendor, VendorDialect, Vendors};

use crate::app::AppContext;
use crate::credentials::{self, StoredCredentials};
use crate::exit::{Failure, Outcome};
use crate::model_name;
use crate::settings::{Entry, Layer, Settings};
use zk_settings::suggest;

#[cfg(test)]
mod tests;

/// Time limit of a local server to accept a connection before it counts as absent.
const PROBE: Duration = Duration::from_millis(25);
/// And then to say which models it has.
const LISTING: Duration = Duration::from_secs(1);

/// The vendor that providers of the user's own are like unless they say something else.
const LIKE: &str = Vendor::COMPATIBLE;

/// The row of a provider that the program was given ready made: it needs no address and no key.
const READY: Vendor = Vendor {
    name: "",
    base_url: Some(""),
    access: Access::Open,
    dialect: VendorDialect::Chat(LIKE),
    default_model: None,
};

/// A provider by its name: one the program knows, or one of the settings, which is like one the program knows.
#[derive(Clone)]
pub(crate) struct NamedProvider {
    pub(crate) name: String,
    pub(crate) vendor: Vendor,
    /// The provider itself, where the program was given it.
    pub(crate) ready: Option<Arc<dyn Provider>>,
}

impl std::fmt::Debug for NamedProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

impl NamedProvider {
    fn of(vendor: Vendor) -> Self {
        Self { name: vendor.name.to_owned(), vendor, ready: None }
    }

    /// The provider called `name`.
    pub(crate) fn find(settings: &Settings, name: &str) -> Outcome<Self> {
        let additions = &settings.additions;
        if let Some(provider) = additions.provider(name) {
            return Ok(Self { name: name.to_owned(), vendor: READY, ready: Some(provider) });
        }
        if let Some(vendor) = additions.vendors.named(name) {
            return Ok(Self::of(*vendor));
        }
        let like = settings.of_provider(name, "like").and_then(Entry::text);
        if like.is_none() && settings.of_provider(name, "base_url").is_none() {
            let mut names = names(settings);
            names.retain(|known| known != name);
            let hint = match Vendor::also_called(name) {
                Some(vendor) => format!("; did you mean `{vendor}`?"),
                None => suggest::did_you_mean(name, names.iter().map(String::as_str)),
            };
            return Err(Failure::usage(format!(
                "unknown provider `{name}`{hint} (zk knows {}; one of your own needs a `base_url` under \
                 [providers.{name}]; a server named with --base-url alone is `{LIKE}`)",
                suggest::either(&names)
            )));
        }
        let like = like.unwrap_or(LIKE);
        let vendor = additions.vendors.named(like).copied().ok_or_else(|| {
            let names = additions.vendors.iter().map(|vendor| vendor.name);
            let hint = suggest::did_you_mean(like, names);
            Failure::usage(format!("providers.{name}.like: unknown provider `{like}`{hint}"))
        })?;
        Ok(Self { name: name.to_owned(), vendor, ready: None })
    }

    /// Whether there is no key for it, only a sign-in.
    pub(crate) fn is_sign_in_only(&self) -> bool {
        match self.vendor.access {
            Access::SignIn => true,
            Access::Key(_) | Access::Local(_) | Access::Open => false,
        }
    }

    /// Whether it is the vendor itself, so that the vendor's address and variables are its own.
    fn is_vendor(&self) -> bool {
        self.name == self.vendor.name
    }

    fn usual_url(&self) -> Option<&'static str> {
        self.vendor.base_url.filter(|_| self.is_vendor() || self.ready.is_some())
    }

    fn key_variable(&self) -> Option<&'static str> {
        match self.vendor.access {
            Access::Key(variables) if self.is_vendor() => variables.first().copied(),
            Access::Key(_) | Access::SignIn | Access::Local(_) | Access::Open => None,
        }
    }
}

/// The names of all providers: those zk knows, then those of the settings.
pub(crate) fn names(settings: &Settings) -> Vec<String> {
    let mut names = settings.additions.names();
    let own = settings.table(&["providers"]).unwrap_or_default();
    let own: Vec<String> =
        own.into_iter().map(|(name, _)| name).filter(|name| !names.contains(name)).collect();
    names.extend(own);
    names
}

impl AppContext {
    /// The endpoint that the settings, the keys or a local server lead to.
    pub(crate) async fn endpoint(&self) -> Outcome<Endpoint> {
        let stored = credentials::all_stored(self).await;
        let chosen = configured(&self.settings, self.flags(), &stored);
        match model_name::endpoint_for(&self.settings, self.flags(), &stored, chosen)? {
            Some(endpoint) => Ok(endpoint),
            None => local(&self.settings.additions.vendors, look).await,
        }
    }

    /// The endpoint of a provider that is named in the middle of a conversation: what the command line said
    /// was about the one it began with.
    pub(crate) async fn endpoint_of(&self, name: &str) -> Outcome<Endpoint> {
        let stored = credentials::all_stored(self).await;
        let provider = NamedProvider::find(&self.settings, name)?;
        let why = format!("/provider {name}");
        complete(&self.settings, Flags::default(), &stored, provider, why)
    }

    /// The credential used for a provider, and where it comes from.
    pub(crate) fn key(&self, provider: &NamedProvider, stored: &StoredCredentials) -> Option<(Key, String)> {
        key(&self.settings, self.flags(), stored, provider)
    }

    fn flags(&self) -> Flags<'_> {
        Flags { base_url: self.base_url.as_deref(), api_key: self.api_key.as_ref() }
    }
}

/// Target of requests, with the key and the reason for it.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) provider: NamedProvider,
    pub(crate) base_url: String,
    pub(crate) key: Option<Key>,
    /// Reason for this provider.
    pub(crate) why: String,
}

impl Endpoint {
    /// Whether it is where the vendor itself answers, so that its models are those of the vendor's table.
    pub(crate) fn is_usual(&self) -> bool {
        self.provider.vendor.base_url == Some(&self.base_url)
    }
}

/// A credential. A text may be the key itself, `env:NAME` or `!command`.
#[derive(Clone)]
pub(crate) enum Key {
    /// A text for what is sent the way the dialect sends keys.
    Api(Secret),
    /// A text for what is sent as `Authorization: Bearer`.
    Bearer(Secret),
    /// The key that is stored.
    Stored,
    /// The stored tokens of a sign-in.
    SignIn { account: Option<String> },
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Api(_) => "Api(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::Stored => "Stored",
            Self::SignIn { .. } => "SignIn(…)",
        })
    }
}

/// Values of the command line for the endpoint, whichever provider is chosen.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags<'a> {
    pub(crate) base_url: Option<&'a str>,
    pub(crate) api_key: Option<&'a Secret>,
}

/// The provider that is named, else the one that something is configured for, if there is one.
pub(crate) fn configured(
    settings: &Settings,
    flags: Flags<'_>,
    stored: &StoredCredentials,
) -> Outcome<Option<Endpoint>> {
    let complete = |provider, why| complete(settings, flags, stored, provider, why).map(Some);
    if let Some(name) = settings.program.provider.as_deref() {
        let origin = settings.origin("provider").map(ToString::to_string).unwrap_or_default();
        return complete(NamedProvider::find(settings, name)?, origin);
    }
    let set = |by_environment: bool| {
        for what in ["api_key", "auth_token", "base_url"] {
            for name in names(settings) {
                let Some(entry) = settings.of_provider(&name, what) else { continue };
                let counts = (entry.origin.layer == Layer::Environment) == by_environment;
                if !counts || lacks_an_address(settings, flags, &name) {
                    continue;
                }
                return Some((name, format!("{what} is set ({})", entry.origin)));
            }
        }
        None
    };
    let in_store = || {
        let name = names(settings)
            .into_iter()
            .find(|name| stored.contains_key(name) && !lacks_an_address(settings, flags, name))?;
        let why = format!("`zk auth login {name}` stored a credential");
        Some((name, why))
    };
    if let Some((name, why)) = set(false).or_else(in_store).or_else(|| set(true)) {
        return complete(NamedProvider::find(settings, &name)?, why);
    }
    let known = |name: &str| NamedProvider::find(settings, name);
    if flags.base_url.is_some() {
        return complete(known(LIKE)?, "--base-url".to_owned());
    }
    if let Some(key) = flags.api_key {
        return complete(known(Vendor::of_key(key.expose_secret()))?, "--api-key".to_owned());
    }
    Ok(None)
}

/// Whether nobody says where it is: then a key for it leads nowhere.
fn lacks_an_address(settings: &Settings, flags: Flags<'_>, name: &str) -> bool {
    settings.additions.vendors.named(name).is_some_and(|vendor| vendor.base_url.is_none())
        && flags.base_url.is_none()
        && settings.of_provider(name, "base_url").is_none()
}

/// Result of a look at a local server's usual port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// Something that does not list models the way this server does.
    Other,
    /// Something that answers nobody without a key.
    Locked,
    /// Something that does not answer now: the server may still load its model.
    Busy,
    /// The server, without a model.
    Empty,
    /// The server, with models.
    Models,
}

/// A model server on this machine, the first that is `found` with a model.
pub(crate) async fn local(vendors: &Vendors, found: impl AsyncFn(Vendor, u16) -> Found) -> Outcome<Endpoint> {
    let mut seen = String::new();
    for vendor in vendors.iter() {
        let Access::Local(port) = vendor.access else { continue };
        let name = vendor.name;
        match found(*vendor, port).await {
            Found::Nothing => {}
            Found::Other => seen += &format!("\nWhat listens on port {port} is not {name}."),
            Found::Locked => {
                seen += &format!(
                    "\nWhat listens on port {port} wants a key: if it is {name}, use --provider {name} and --api-key."
                );
            }
            Found::Busy => {
                seen += &format!(
                    "\nWhat listens on port {port} does not answer yet: if it is {name} and loads its model, try again soon."
                );
            }
            Found::Empty => seen += &format!("\n{name} runs on port {port} and has no model yet."),
            Found::Models => {
                return Ok(Endpoint {
                    provider: NamedProvider::of(*vendor),
                    base_url: vendor.base_url.unwrap_or_default().to_owned(),
                    key: None,
                    why: format!("nothing is configured, and {name} runs on port {port}"),
                });
            }
        }
    }
    let mut services = vendors.iter().filter(|vendor| vendor.default_model.is_some()).filter_map(key_of);
    let usual = services.next().map(|(name, key)| format!(" Run `zk auth login {name}`, or set {key}."));
    let another = services.next().map(|(name, key)| format!(", such as `zk auth login {name}` or {key}"));
    let (usual, another) = (usual.unwrap_or_default(), another.unwrap_or_default());
    Err(Failure::auth(format!(
        "no API key found.{usual}{seen}\n\
         Other providers work the same way{another}. A local model \
         server needs no key: start {}, or name one with --base-url.\n\
         `zk demo` needs no key; `zk doctor` shows what is configured.",
        local_servers(vendors)
    )))
}

/// A service that is used with a key, and the variable for that.
fn key_of(vendor: &Vendor) -> Option<(&'static str, &'static str)> {
    match vendor.access {
        Access::Key(variables) => variables.first().map(|variable| (vendor.name, *variable)),
        Access::SignIn | Access::Local(_) | Access::Open => None,
    }
}

fn local_servers(vendors: &Vendors) -> String {
    let server = |vendor: &Vendor| match vendor.access {
        Access::Local(port) => Some(format!("{} (port {port})", vendor.name)),
        Access::Key(_) | Access::SignIn | Access::Open => None,
    };
    suggest::or(&vendors.iter().filter_map(server).collect::<Vec<_>>())
}

/// Looks at a port of this machine. Only where something accepts connections is it asked for its models.
pub(crate) async fn look(vendor: Vendor, port: u16) -> Found {
    if TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PROBE).is_err() {
        return Found::Nothing;
    }
    let Ok(provider) = vendor.provider(vendor.connection()) else { return Found::Other };
    match tokio::time::timeout(LISTING, provider.list_models(&Bus::new().cx())).await {
        Ok(Ok(Some(models))) if models.is_empty() => Found::Empty,
        Ok(Ok(Some(_))) => Found::Models,
        Ok(Err(error)) if error.kind == ErrorKind::Auth => Found::Locked,
        Ok(Err(error)) if error.status == Some(503) => Found::Busy,
        Ok(Ok(None) | Err(_)) => Found::Other,
        Err(_) => Found::Busy,
    }
}

/// Completes a provider's endpoint with what is known of it.
pub(crate) fn complete(
    settings: &Settings,
    flags: Flags<'_>,
    stored: &StoredCredentials,
    provider: NamedProvider,
    why: String,
) -> Outcome<Endpoint> {
    let name = &provider.name;
    let base_url = explicit(settings, name, "base_url", flags.base_url);
    let url = base_url.or(provider.usual_url()).ok_or_else(|| {
        Failure::usage(format!(
            "nobody says where {name} is: use --base-url, or set `base_url` under [providers.{name}]"
        ))
    })?;
    let key = key(settings, flags, stored, &provider).map(|(key, _)| key);
    let is_open = matches!(provider.vendor.access, Access::Local(_) | Access::Open);
    if key.is_none() && !is_open && (base_url.is_none() || provider.is_sign_in_only()) {
        let login = format!("run `zk auth login {name}`");
        return Err(Failure::auth(match provider.key_variable() {
            None => format!("not signed in to {name}: {login}"),
            Some(variable) => format!(
                "no key for {name}: {login}, set {variable}, or `api_key` under [providers.{name}] in your \
                 settings; a server that needs none is named with --base-url"
            ),
        }));
    }
    Ok(Endpoint { base_url: url.to_owned(), provider, key, why })
}

/// The credential of a provider and where it comes from: the command line, the settings, the store or the
/// environment, in this order.
pub(crate) fn key(
    settings: &Settings,
    flags: Flags<'_>,
    stored: &StoredCredentials,
    provider: &NamedProvider,
) -> Option<(Key, String)> {
    let name = &*provider.name;
    let set = |what: &str, by_environment: bool| {
        let entry = settings.of_provider(name, what)?;
        let counts = (entry.origin.layer == Layer::Environment) == by_environment;
        let key = entry.key.as_ref().filter(|_| counts)?;
        Some((key.clone(), entry.origin.to_string()))
    };
    let either = |by_environment: bool| {
        let key = set("api_key", by_environment).map(|(key, place)| (Key::Api(key), place));
        key.or_else(|| set("auth_token", by_environment).map(|(token, place)| (Key::Bearer(token), place)))
    };
    if let Some(key) = flags.api_key.filter(|_| !is_managed(settings, name, "api_key")) {
        return Some((Key::Api(key.clone()), "--api-key".to_owned()));
    }
    let in_store = || {
        let key = match stored.get(name)? {
            Credential::ApiKey(_) => Key::Stored,
            Credential::OAuth(tokens) => Key::SignIn { account: tokens.account.clone() },
        };
        Some((key, "stored".to_owned()))
    };
    either(false).or_else(in_store).or_else(|| either(true))
}

/// Returns the value of a flag, unless the settings of the machine say something else.
fn explicit<'a>(settings: &'a Settings, name: &str, what: &str, flag: Option<&'a str>) -> Option<&'a str> {
    let set = settings.of_provider(name, what).and_then(Entry::text);
    if is_managed(settings, name, what) { set } else { flag.or(set) }
}

fn is_managed(settings: &Settings, name: &str, what: &str) -> bool {
    settings.of_provider(name, what).is_some_and(|entry| entry.origin.layer == Layer::Managed)
}
