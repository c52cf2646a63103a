//! `zk plugin`: plugins of other authors that a person adds, updates and removes.

mod add;
mod list;
mod marketplaces;
mod secrets;
mod shown;

use std::sync::Arc;

use zk_bundles::{BundleStore, Fetched, Fetcher, KeptBundle, Source};
use zk_core::service::visible_line;
use zk_exec::{Environment, Limits, ProcessExec, Supervision};

use super::print_words as print;
use crate::app::{AppContext, Workplace, runtime};
use crate::args::plugin::PluginAction;
use crate::bundles;
use crate::exit::{Exit, Failure, Outcome};

/// Adds, shows, updates or removes plugins.
pub(crate) fn plugin(app: &AppContext, action: &PluginAction) -> Outcome<Exit> {
    let work = &app.work;
    let Some(store) = bundles::store(&work.machine.dirs, &work.machine.host_files) else {
        return Err(Failure::usage("there is no place for plugins: set HOME or ZK_HOME"));
    };
    let done = |text: String| print(&work.machine, &[text]);
    match action {
        PluginAction::List { json } => list::list(app, &store, *json),
        PluginAction::Add { source, consent, set } => add::add(work, &store, source, consent, set),
        PluginAction::Show { name } => list::show(work, &store, name),
        PluginAction::Check { source } => list::check(work, &store, source),
        PluginAction::Update { name, consent } => add::update(work, &store, name.as_deref(), consent),
        PluginAction::Remove { name } => {
            store.remove(name).map_err(Failure::failed)?;
            secrets::remove(work, name)?;
            done(format!("removed the plugin {name} with its files and its data"))
        }
        PluginAction::Enable { name } => {
            store.set_enabled(name, true).map_err(Failure::failed)?;
            done(format!("the plugin {name} is used again"))
        }
        PluginAction::Disable { name } => {
            store.set_enabled(name, false).map_err(Failure::failed)?;
            done(format!("the plugin {name} is not used any more; `zk plugin enable {name}` takes that back"))
        }
        PluginAction::Marketplace { action } => marketplaces::marketplaces(work, &store, action.as_ref()),
    }
}

/// Parses a source that a person typed.
fn source(work: &Workplace, text: &str) -> Outcome<Source> {
    Source::parse(text, &work.cwd).map_err(|error| Failure::usage(error.to_string()))
}

/// Creates a fetcher that uses the person's git, with access to the SSH agent.
fn fetcher(work: &Workplace, store: &BundleStore) -> Fetcher {
    let machine = &work.machine;
    let environment = Environment::filtered(machine.env.without_secrets());
    let agent = machine.env.get("SSH_AUTH_SOCK").map(ToOwned::to_owned);
    let environment = agent.into_iter().fold(environment, |all, agent| all.grant("SSH_AUTH_SOCK", agent));
    let exec =
        ProcessExec::supervised(environment, Supervision::of_this_program()).limited(Limits::default());
    Fetcher::new(Arc::new(exec), Arc::new(machine.host_files.clone()), store.dir().to_path_buf())
}

/// Fetches a bundle, directly or through a marketplace, without running any of it.
fn fetch(work: &Workplace, store: &BundleStore, source: &Source) -> Outcome<Fetched> {
    let records = store.records().map_err(Failure::failed)?;
    let known = |name: &str| records.marketplaces.get(name).map(|kept| kept.source.clone());
    let fetched = runtime()?.block_on(fetcher(work, store).fetch(source, &known));
    fetched.map_err(|error| Failure::failed(format!("cannot take the plugin from {source}: {error}")))
}

fn find_kept(store: &BundleStore, name: &str) -> Outcome<KeptBundle> {
    let records = store.records().map_err(Failure::failed)?;
    records.plugins.get(name).cloned().ok_or_else(|| {
        let name = visible_line(name);
        Failure::usage(format!("there is no plugin `{name}`; `zk plugin list` shows what there is"))
    })
}
