//! Model choice of an earlier conversation in this directory, if the model can still be used.

use std::sync::Arc;
use std::time::SystemTime;

use zk_chat::{KeptChoice, KeptChoices};
use zk_core::kernel::BoxError;
use zk_core::model::ModelRef;
use zk_core::service::StateFileError;
use zk_exec::LocalStateFiles;
use zk_providers::select::lacks_model;
use zk_providers::{Access, known_shutdown};

use crate::app::AppContext;
use crate::compose;
use crate::settings::Layer;

/// Settings that override a kept model if this start sets them.
const MODEL_KEYS: [&str; 2] = ["provider", "model"];

/// Returns the file of kept choices; `None` without a directory for it, or if choices are not kept.
fn choices_file(app: &AppContext) -> Option<KeptChoices> {
    let path = app.work.machine.dirs.choices().filter(|_| app.settings.program.keep_choices)?;
    Some(KeptChoices::new(path, Arc::new(LocalStateFiles::default())))
}

/// Stores a choice for the next start in this directory.
pub(crate) async fn keep(app: &AppContext, choice: KeptChoice) -> Result<(), BoxError> {
    let Some(file) = choices_file(app) else { return Ok(()) };
    let directory = app.work.cwd.clone();
    Ok(tokio::task::spawn_blocking(move || file.keep(&directory, &choice)).await??)
}

/// Returns the choice that was kept for this directory.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn choice(app: &AppContext) -> Result<Option<KeptChoice>, StateFileError> {
    choices_file(app).map_or(Ok(None), |file| file.read(&app.work.cwd))
}

/// Returns the context with the kept choice for this directory, as far as this start sets nothing else. An unusable
/// model and an unreadable file are ignored; `zk doctor` reports them.
pub(crate) async fn with_kept_choice(app: &AppContext) -> Option<AppContext> {
    let KeptChoice { model, thinking } = choice(app).ok().flatten()?;
    let model = match model.filter(|_| !is_given(app, &MODEL_KEYS)) {
        Some(model) if unusable_reason(app, &model).await.is_none() => Some(model),
        Some(_) | None => None,
    };
    let thinking = thinking.filter(|_| !is_given(app, &["thinking"]));
    let values = model.into_iter().flat_map(|model| [("provider", model.provider), ("model", model.model)]);
    let values = values.chain(thinking.map(|level| ("thinking", level.as_str().to_owned())));
    let settings = app.settings.with_kept(values).ok()?;
    Some(AppContext { settings, ..app.clone() })
}

/// Whether this start sets one of the keys: on the command line, by the machine's administrator or a preset.
fn is_given(app: &AppContext, keys: &[&str]) -> bool {
    let is_given = |key: &&str| app.settings.origin(key).is_some_and(|origin| origin.layer > Layer::Kept);
    let is_at = app.given.base_url.is_some() || app.given.api_key.is_some();
    keys.iter().any(is_given) || (is_at && keys == MODEL_KEYS)
}

/// Returns the reason why a kept model cannot be used any more; `None` for a usable one.
pub(crate) async fn unusable_reason(app: &AppContext, model: &ModelRef) -> Option<String> {
    let endpoint = match app.endpoint_of(&model.provider).await {
        Ok(endpoint) => endpoint,
        Err(failure) => return Some(failure.message),
    };
    let end = known_shutdown(&model.provider, &model.model).filter(|end| end.is_past(SystemTime::now()));
    if let Some(end) = end {
        return Some(format!("it was shut down on {end}"));
    }
    // A local server has only the models loaded into it. If it does not answer, its model stays chosen: another
    // provider must not get the text instead.
    if !matches!(endpoint.provider.vendor.access, Access::Local(_)) {
        return None;
    }
    let provider = compose::provider(&app.work.machine, &app.settings, &app.shared, &endpoint).await;
    match provider {
        Ok(provider) if lacks_model(&*provider, &model.model).await => {
            Some(format!("{} does not list it", endpoint.base_url))
        }
        Ok(_) => None,
        Err(failure) => Some(failure.message),
    }
}
