use zk_bundles::{BundleStore, Source};
use zk_core::service::visible_line;

use super::{fetcher, print, source};
use crate::app::{Workplace, runtime};
use crate::args::plugin::MarketplaceAction;
use crate::exit::{Exit, Failure, Outcome};

/// Lists, adds or removes marketplaces: files that list bundles.
pub(super) fn marketplaces(
    work: &Workplace,
    store: &BundleStore,
    action: Option<&MarketplaceAction>,
) -> Outcome<Exit> {
    match action {
        None | Some(MarketplaceAction::List) => list(work, store),
        Some(MarketplaceAction::Add { source: text }) => {
            let from = source(work, text)?;
            if !matches!(from, Source::Directory { .. } | Source::Git { .. }) {
                return Err(Failure::usage("a marketplace is a directory or a repository"));
            }
            let marketplace = runtime()?.block_on(fetcher(work, store).marketplace(&from));
            let marketplace = marketplace.map_err(|error| Failure::failed(format!("{from}: {error}")))?;
            store.add_marketplace(&marketplace, &from).map_err(Failure::failed)?;
            let (name, count) = (&marketplace.name, marketplace.entries.len());
            let mut lines =
                vec![format!("added the marketplace {name} with {count} plugins; none of them is used yet")];
            lines.extend(marketplace.problems.iter().map(|why| format!("note: {}", visible_line(why))));
            print(&work.machine, &lines)
        }
        Some(MarketplaceAction::Remove { name }) => {
            store.remove_marketplace(name).map_err(Failure::failed)?;
            print(&work.machine, &[format!("removed the marketplace {name}; plugins from it stay")])
        }
    }
}

fn list(work: &Workplace, store: &BundleStore) -> Outcome<Exit> {
    let records = store.records().map_err(Failure::failed)?;
    let mut lines = Vec::new();
    for (name, kept) in &records.marketplaces {
        lines.push(format!("{name} from {}: {}", kept.source, visible_line(&kept.plugins.join(", "))));
    }
    if lines.is_empty() {
        lines.push("there is no marketplace yet: `zk plugin marketplace add` adds one".to_owned());
    }
    print(&work.machine, &lines)
}
