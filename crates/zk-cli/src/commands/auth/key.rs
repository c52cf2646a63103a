//! Check and storage of an API key.

use zk_auth::{Credential, CredentialStore};
use zk_providers::select::{KeyCheck, SelectedEndpoint, check_key};

use super::messages;
use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::{compose, credentials};

/// Checks a key at its provider and stores it, unless it is rejected. Returns a remark on a key that could
/// not be checked.
pub(super) async fn store_key(app: &AppContext, name: &str, key: &str) -> Outcome<Option<String>> {
    if key.starts_with('!') || key.starts_with("env:") {
        return Err(Failure::usage(messages::unusable_key(name)));
    }
    let remark = match check_at_provider(app, name, key).await? {
        KeyCheck::Accepted => None,
        KeyCheck::Refused(why) => return Err(Failure::auth(messages::rejected_key(name, &why))),
        KeyCheck::Unknown => Some(messages::unverified_key(name)),
        KeyCheck::Unreachable(why) => Some(messages::unreachable_provider(name, &why)),
    };
    store(app, name, &Credential::ApiKey(key.into())).await?;
    Ok(remark)
}

async fn check_at_provider(app: &AppContext, name: &str, key: &str) -> Outcome<KeyCheck> {
    // A provider without an address may get one later.
    let Ok(endpoint) = app.endpoint_with_key(name, key).await else { return Ok(KeyCheck::Unknown) };
    let open = SelectedEndpoint { credential: None, ..endpoint.clone() };
    let (machine, settings) = (&app.work.machine, &app.settings);
    let with_key = compose::provider(machine, settings, &app.shared, &endpoint).await?;
    let without_key = compose::provider(machine, settings, &app.shared, &open).await.ok();
    Ok(check_key(&*with_key, without_key.as_deref()).await)
}

/// Stores a credential. If the store was damaged, a warning names its backup.
pub(super) async fn store(app: &AppContext, name: &str, credential: &Credential) -> Outcome<()> {
    let store = credentials::store(&app.work.machine)?;
    if let Some(aside) = store.put(name, credential).await.map_err(Failure::failed)? {
        let warning = messages::damaged_store(&aside.reason, &aside.path);
        app.work.machine.notices.show(&warning);
    }
    Ok(())
}
