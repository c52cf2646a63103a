//! `[fetch]`: which addresses inside may be fetched from.

use std::net::SocketAddr;

use zk_tools::{FetchOptions, FetchPlugin};

use crate::exit::{Failure, Outcome};
use crate::settings::Settings;

/// The tool, as the settings allow it.
pub(crate) fn plugin(settings: &Settings) -> Outcome<FetchPlugin> {
    let own = settings.table(&["fetch"]).unwrap_or_default();
    let allowed = own.get("allow").and_then(toml::Value::as_array).into_iter().flatten();
    let also = allowed.filter_map(toml::Value::as_str).map(|text| {
        text.parse::<SocketAddr>().map_err(|_| {
            let example = "such as \"127.0.0.1:8000\" or \"[::1]:8000\"";
            Failure::usage(format!("`fetch.allow` has `{text}`, which is no address with a port, {example}"))
        })
    });
    let also = also.collect::<Outcome<Vec<_>>>()?;
    Ok(FetchPlugin::new(FetchOptions { also, ..FetchOptions::default() }))
}
