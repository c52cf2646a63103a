//! The `zk-worker` program: zk with the engines of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    let zk = zk_cli::Zk::builder();
    #[cfg(feature = "postgres")]
    let zk = zk.engine(zk_fleet::PostgresKind);
    #[cfg(feature = "temporal")]
    let zk = zk.engine(zk_fleet::TemporalKind::new(temporal_key()));
    zk.run()
}

/// Returns the API key for Temporal's servers, if there is one.
#[cfg(feature = "temporal")]
#[expect(clippy::disallowed_methods, reason = "the program of an engine reads the engine's own variable")]
fn temporal_key() -> Option<secrecy::SecretString> {
    std::env::var("ZK_TEMPORAL_API_KEY").ok().filter(|key| !key.is_empty()).map(Into::into)
}
