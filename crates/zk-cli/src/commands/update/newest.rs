use std::time::Duration;

use semver::Version;
use serde::Deserialize;
use zk_auth::Http;
use zk_core::service::visible_line;

use crate::exit::{Failure, Outcome};

/// Size limit of the description of a release, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Time limit for reading the description of a release.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Description of a release in the fields of GitHub's API.
#[derive(Deserialize)]
struct Answer {
    tag_name: String,
    #[serde(default)]
    html_url: Option<String>,
}

/// Newest release.
pub(super) struct Release {
    pub(super) version: Version,
    /// Address of the release's web page.
    pub(super) page: Option<String>,
}

/// Asks `url` for the newest release.
pub(super) async fn newest(url: &str) -> Outcome<Release> {
    let failed = |why: String| Failure::failed(format!("{}: {why}. Nothing was changed", visible_line(url)));
    let answer = Http::new().get_plain(url, MAX_ANSWER_BYTES, ANSWER_LIMIT).await.map_err(|error| {
        failed(format!(
            "the newest release could not be asked for: {}. Is there a network, and does it need a proxy? \
             The setting `releases` names another address",
            visible_line(&error.to_string())
        ))
    })?;
    match answer.status {
        200 => {}
        404 => return Err(failed("no release is published there yet (status 404)".to_owned())),
        403 | 429 => {
            return Err(failed(format!(
                "it answers nobody for now (status {}): try again later",
                answer.status
            )));
        }
        status => return Err(failed(format!("it answered with status {status}"))),
    }
    let read: Answer = serde_json::from_slice(&answer.body)
        .map_err(|error| failed(format!("the answer is no release as JSON with a `tag_name`: {error}")))?;
    let tag = read.tag_name.trim();
    let version = Version::parse(tag.strip_prefix('v').unwrap_or(tag))
        .map_err(|error| failed(format!("`{}` is no version: {error}", visible_line(tag))))?;
    let page = read.html_url.filter(|page| page.starts_with("https://") || page.starts_with("http://"));
    Ok(Release { version, page })
}
