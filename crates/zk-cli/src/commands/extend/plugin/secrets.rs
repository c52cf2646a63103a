//! Secret options of plugins, in a store of credentials.

use std::io::IsTerminal;
use zk_auth::{Credential, CredentialStore, FileStore};
use zk_tui::plain::piped_text;
use zk_tui::term::{print_stderr, secret};

use crate::app::{Workplace, runtime};
use crate::bundles;
use crate::exit::{Failure, Outcome};

fn store(work: &Workplace) -> Outcome<FileStore> {
    let store = bundles::secrets(&work.machine.dirs);
    store.ok_or_else(|| Failure::usage("there is no place for secrets: set HOME or ZK_HOME"))
}

/// Reads the value of a secret option, typed without an echo or piped to standard input, and stores it.
pub(super) fn ask_and_store(work: &Workplace, bundle: &str, key: &str) -> Outcome<()> {
    let value = if std::io::stdin().is_terminal() {
        let question = format!("{key} for {bundle} (it is not shown): ");
        secret::read(&question).map_err(|error| Failure::failed(format!("{key} was not stored: {error}")))?
    } else {
        piped_text(false)?.unwrap_or_default()
    };
    let value = value.trim();
    if value.is_empty() {
        return Err(Failure::usage(format!(
            "there is no value for {key}: type it, or pipe it to standard input"
        )));
    }
    let (store, name) = (store(work)?, bundles::secret_name(bundle, key));
    let stored = runtime()?.block_on(store.put(&name, &Credential::ApiKey(value.into())));
    if let Some(aside) = stored.map_err(Failure::failed)? {
        print_stderr(&format!(
            "the secrets of plugins were damaged ({}); they are in {}",
            aside.reason,
            aside.path.display()
        ));
    }
    Ok(())
}

/// Removes the secret options of a bundle.
pub(super) fn remove(work: &Workplace, bundle: &str) -> Outcome<()> {
    let Some(store) = bundles::secrets(&work.machine.dirs) else { return Ok(()) };
    runtime()?
        .block_on(async {
            let prefix = bundles::secret_name(bundle, "");
            for name in store.names().await?.iter().filter(|name| name.starts_with(&prefix)) {
                store.remove(name).await?;
            }
            Ok(())
        })
        .map_err(|error: zk_auth::StoreError| Failure::failed(error))
}
