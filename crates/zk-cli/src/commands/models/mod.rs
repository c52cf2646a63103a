mod list;

use list::Listed;
use zk_core::kernel::Bus;
use zk_core::model::Model;
use zk_providers::select::SelectedEndpoint;
use zk_providers::{Overrides, known_efforts, known_model, known_models, known_providers};
use zk_tui::term;

use super::print;
use crate::app::{AppContext, Machine, Shared, runtime};
use crate::compose;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;

/// Prints the models of the selected provider, or of all providers if none is selected.
pub(crate) fn models(app: &AppContext, filter: &[String], json: bool) -> Outcome<Exit> {
    let filter: Vec<String> =
        filter.iter().flat_map(|text| text.split_whitespace()).map(str::to_lowercase).collect();
    let mut listed = models_of_all(app)?;
    let named = listed.len() > 1;
    if named && filter.is_empty() && !json {
        return print(&app.work.machine, &list::counts(&listed));
    }
    let whose = match listed.as_slice() {
        [(provider, _)] => format!(" of {provider}"),
        _ => String::new(),
    };
    for (provider, models) in &mut listed {
        models.retain(|model| model.contains(provider, &filter));
    }
    listed.retain(|(_, models)| !models.is_empty());
    if listed.is_empty() {
        return Err(Failure::failed(match filter.is_empty() {
            true => format!("no model{whose} is known"),
            false => {
                let other = if named { "" } else { "; --provider NAME looks at another's" };
                format!("no model{whose} contains `{}`{other}", filter.join("` and `"))
            }
        }));
    }
    let lines = if json { list::json(&listed)? } else { list::lines(&listed, named) };
    print(&app.work.machine, &lines)
}

/// Collects the models of all providers.
fn models_of_all(app: &AppContext) -> Outcome<Vec<(String, Vec<Listed>)>> {
    let runtime = runtime()?;
    let named = app
        .settings
        .program
        .provider
        .as_deref()
        .map(|name| app.settings.known_providers().find(name))
        .transpose()?;
    let endpoint = match (runtime.block_on(app.endpoint()), named) {
        (Ok(endpoint), _) => endpoint,
        (Err(failure), Some(named)) if failure.exit == Exit::Auth => {
            let known = catalogue_models(&app.settings, &named.name);
            if known.is_empty() {
                return Err(failure);
            }
            term::print_stderr(&format!("zk: {failure}\nzk: these are the models of its catalogue alone"));
            return Ok(vec![(named.name, known)]);
        }
        (Err(failure), None) if failure.exit == Exit::Auth => {
            term::print_stderr("zk: no provider is configured: this is the catalogue");
            let listed = known_providers()
                .iter()
                .map(|name| ((*name).to_owned(), catalogue_models(&app.settings, name)));
            return Ok(listed.collect());
        }
        (Err(failure), _) => return Err(failure),
    };
    let models = runtime.block_on(models_at(&app.work.machine, &app.settings, &app.shared, &endpoint))?;
    Ok(vec![(endpoint.provider.name, models)])
}

/// Returns the models that the server at an endpoint lists; at the vendor's own address, also those of the catalogue.
async fn models_at(
    machine: &Machine,
    settings: &Settings,
    shared: &Shared,
    endpoint: &SelectedEndpoint,
) -> Outcome<Vec<Listed>> {
    let provider = compose::provider(machine, settings, shared, endpoint).await?;
    let name = &endpoint.provider.name;
    let live = provider.list_models(&Bus::new().cx()).await;
    let known = catalogue_models(settings, name);
    let why = match live {
        Ok(Some(live)) => {
            let is_usual = endpoint.is_usual();
            let said = settings.models(name);
            let live = live.into_iter().map(|model| with_efforts(model, &said)).collect();
            return Ok(list::merge(live, if is_usual { known } else { Vec::new() }));
        }
        Ok(None) => format!("{name} has no list of models"),
        Err(error) if known.is_empty() => {
            return Err(Failure::new(Exit::of(&error.clone().into()), error.to_string()));
        }
        Err(error) => format!("could not list {name}'s models: {error}"),
    };
    if known.is_empty() {
        return Err(Failure::failed(why));
    }
    term::print_stderr(&format!("zk: {why}\nzk: these are the models of its catalogue alone"));
    Ok(known)
}

/// Returns the models of the catalogue and of the settings, without requests.
fn catalogue_models(settings: &Settings, provider: &str) -> Vec<Listed> {
    let said = settings.models(provider);
    let mut ids: Vec<&str> = known_models(provider).collect();
    ids.extend(said.ids());
    ids.sort_unstable();
    ids.dedup();
    let unknown = |id: &str| Model::unknown(provider, id);
    let model = |id: &str| said.correct(known_model(provider, id).unwrap_or_else(|| unknown(id)));
    ids.into_iter().map(|id| with_efforts(model(id), &said)).collect()
}

/// Creates a row for a model, with the effort levels of the settings, or else of the catalogue.
fn with_efforts(model: Model, said: &Overrides) -> Listed {
    let own = said.get(&model.id).and_then(|said| said.efforts.clone());
    let efforts = own.unwrap_or_else(|| known_efforts(&model.provider, &model.id));
    Listed::from_catalogue(model, &efforts)
}
