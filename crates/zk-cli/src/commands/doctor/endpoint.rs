use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::service::Provider;
use zk_providers::select::CredentialSource;

use super::findings::{Finding, failure, fine, warning};
use crate::app::AppContext;
use crate::settings::Settings;
use crate::{compose, select};

/// Time limit of an endpoint that lists its models.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn check_endpoint(app: &AppContext) -> Vec<Finding> {
    let endpoint = match app.endpoint().await {
        Ok(endpoint) => endpoint,
        Err(error) => return vec![failure(format!("provider: {error}"))],
    };
    let key = match &endpoint.credential {
        Some(CredentialSource::Key(_)) => "a key is set",
        Some(CredentialSource::Bearer(_)) => "a token is set",
        Some(CredentialSource::StoredKey) => "a key is stored",
        Some(CredentialSource::SignIn { .. }) => "you are signed in",
        None => "no key is set",
    };
    let (name, why) = (&endpoint.provider.name, select::selection_reason(&endpoint));
    let mut findings = vec![fine(match endpoint.provider.prebuilt {
        Some(_) => format!("provider: {name}, a part of this program ({why})"),
        None => format!("provider: {name} at {}, {key} ({why})", endpoint.base_url),
    })];
    let provider = match compose::provider(&app.work.machine, &app.settings, &app.shared, &endpoint).await {
        Ok(provider) => provider,
        Err(error) => {
            findings.push(failure(format!("provider: {error}")));
            return findings;
        }
    };
    let place = if endpoint.base_url.is_empty() { &endpoint.provider.name } else { &endpoint.base_url };
    findings.push(check_reach(&app.settings, &*provider, place).await);
    findings
}

pub(super) async fn check_reach(settings: &Settings, provider: &dyn Provider, url: &str) -> Finding {
    match tokio::time::timeout(LIST_TIMEOUT, provider.list_models(&Bus::new().cx())).await {
        Err(_) => failure(format!("endpoint: {url} did not answer within {} s", LIST_TIMEOUT.as_secs())),
        Ok(Err(error)) => failure(format!("endpoint: {error}")),
        Ok(Ok(None)) => warning(format!("endpoint: {url} cannot be asked for its models")),
        Ok(Ok(Some(models))) => {
            let wanted = settings.program.model.clone().or_else(|| provider.default_model());
            let wanted = wanted.map(|name| settings.known_providers().model_id(provider.name(), &name));
            match wanted {
                Some(id) if models.iter().all(|model| model.id != id) => warning(format!(
                    "endpoint: {url} answers, and does not list the model {id}; `zk models` shows what it has"
                )),
                Some(id) => fine(format!("endpoint: {url} answers and has {id}")),
                None if models.len() == 1 => fine(format!("endpoint: {url} answers; 1 model")),
                None => fine(format!("endpoint: {url} answers; {} models", models.len())),
            }
        }
    }
}
