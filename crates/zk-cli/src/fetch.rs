//! `[fetch]`: which addresses inside may be fetched from, and how much one call may take.

use std::net::SocketAddr;
use std::time::Duration;

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
    Ok(FetchPlugin::new(FetchOptions { also, ..limits(settings) }))
}

/// Returns the limits of one call.
fn limits(settings: &Settings) -> FetchOptions {
    let usual = FetchOptions::default();
    let count = |key| settings.count(key).map(|count| count as usize);
    FetchOptions {
        max_bytes: count("fetch.max_bytes").unwrap_or(usual.max_bytes),
        timeout: settings
            .count("fetch.seconds")
            .map_or(usual.timeout, |most| Duration::from_secs(most.into())),
        redirects: count("fetch.redirects").unwrap_or(usual.redirects),
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::of_text;

    #[test]
    fn each_key_reaches_its_option() {
        let settings = of_text("[fetch]\nmax_bytes = 7\nseconds = 8\nredirects = 9\n");
        let FetchOptions { max_bytes, timeout, redirects, .. } = limits(&settings);
        assert_eq!((max_bytes, timeout, redirects), (7, Duration::from_secs(8), 9));
    }
}
