//! The providers that a person can choose from inside of the program.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedReceiver;
use zk_auth::{AuthError, Credential, Login};
use zk_chat::{AccessWay, LocalOffer, PendingSignIn, ProviderAccess, ProviderOffer};
use zk_core::kernel::BoxError;
use zk_providers::Http;
use zk_providers::select::find_local_servers;
use zk_settings::with_value;

use super::{SIGN_IN_LIMIT, key};
use crate::app::AppContext;
use crate::commands::config::SettingsFile;
use crate::credentials;
use crate::exit::Failure;

/// Access of a conversation to the providers of the settings and of the program.
pub(crate) struct Access(pub(crate) AppContext);

#[async_trait]
impl ProviderAccess for Access {
    async fn is_missing(&self) -> bool {
        self.0.lacks_provider().await
    }

    fn named_provider(&self) -> Option<String> {
        self.0.settings.program.provider.clone()
    }

    fn offers(&self) -> Vec<ProviderOffer> {
        let offered = self.0.settings.known_providers().offered().into_iter();
        let offer = |offered: zk_providers::select::OfferedVendor| {
            let key = AccessWay::Key(offered.vendor.key_page().map(str::to_owned));
            let sign_in = offered.sign_in.map(|(provider, label)| AccessWay::SignIn {
                provider: provider.to_owned(),
                label: label.to_owned(),
            });
            ProviderOffer {
                name: offered.vendor.name.to_owned(),
                title: offered.vendor.title().to_owned(),
                ways: std::iter::once(key).chain(sign_in).collect(),
                is_major: offered.is_major,
            }
        };
        offered.map(offer).collect()
    }

    async fn local_servers(&self) -> Vec<LocalOffer> {
        let known = self.0.settings.known_providers();
        let found = find_local_servers(known.map.vendors()).await.into_iter();
        found
            .map(|found| LocalOffer {
                provider: found.server.name.to_owned(),
                port: found.server.port,
                models: found.models,
            })
            .collect()
    }

    async fn store_key(&self, provider: &str, key: &str) -> Result<Option<String>, BoxError> {
        Ok(key::store_key(&self.0, provider, key).await?)
    }

    async fn begin_sign_in(&self, provider: &str) -> Result<Box<dyn PendingSignIn>, BoxError> {
        let client = credentials::client(&self.0.settings, provider)?;
        let client =
            client.ok_or_else(|| Failure::usage(format!("{provider} has no sign-in: store a key")))?;
        let login = Login::begin(client, Http::new()).await?;
        Ok(Box::new(Pending { app: self.0.clone(), provider: provider.to_owned(), login }))
    }

    fn keep_choice(&self, provider: &str, model: Option<&str>) -> Result<(), BoxError> {
        let file = SettingsFile::of_person(&self.0.work.machine)?;
        let place = |error| Failure::failed(format!("{}: {error}", file.path().display()));
        file.change(|text| {
            let text = with_value(text, &[], "provider", provider).map_err(place)?;
            match model {
                Some(model) => with_value(&text, &["providers", provider], "model", model).map_err(place),
                None => Ok(text),
            }
        })?;
        Ok(())
    }
}

/// Sign-in that waits for the browser.
struct Pending {
    app: AppContext,
    provider: String,
    login: Login,
}

#[async_trait]
impl PendingSignIn for Pending {
    fn url(&self) -> &str {
        self.login.url()
    }

    async fn finish(self: Box<Self>, mut pasted: UnboundedReceiver<String>) -> Result<(), BoxError> {
        let Self { app, provider, login } = *self;
        let typed = async {
            while let Some(line) = pasted.recv().await {
                if !line.trim().is_empty() {
                    return login.pasted(&line);
                }
            }
            std::future::pending::<Result<_, AuthError>>().await
        };
        let limit: Duration = SIGN_IN_LIMIT;
        let code = tokio::select! {
            code = login.callback(limit) => code,
            code = typed => code,
        };
        let tokens = login.exchange(code?).await?;
        Ok(key::store(&app, &provider, &Credential::OAuth(tokens)).await?)
    }
}
