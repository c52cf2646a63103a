use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Clock, ContextMode, ContextProducer, HostFiles, HostRead, SystemClock, TurnCwd};

use crate::context::workplace::Workplace;

/// Context part about the environment: working directory, operating system and date.
#[derive(Clone, Debug)]
pub struct EnvironmentPart {
    cwd: PathBuf,
}

impl EnvironmentPart {
    /// Part for work in `cwd`, unless a run has changed its directory.
    #[must_use]
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: cwd.into() }
    }
}

#[async_trait]
impl ContextProducer for EnvironmentPart {
    fn mode(&self) -> ContextMode {
        ContextMode::PerQuery
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        let clock = cx.service::<dyn Clock>().unwrap_or_else(|| Arc::new(SystemClock));
        let seconds = clock.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let cwd = TurnCwd::of(cx);
        Ok(Some(format!(
            "Working directory: {}. Operating system: {} ({}). Date: {} (UTC).",
            cwd.as_ref().unwrap_or(&self.cwd).display(),
            std::env::consts::OS,
            std::env::consts::ARCH,
            date(seconds)
        )))
    }
}

/// UTC date, as `2026-11-22`, of a time in seconds since 1970; by Howard Hinnant's algorithm for the
/// Gregorian calendar.
#[must_use]
pub fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Context part about the checked-out branch or commit, read from `.git/HEAD` without starting a program.
#[derive(Clone, Debug)]
pub struct GitPart {
    root: PathBuf,
}

impl GitPart {
    /// Part for the repository with the work tree `root`, or for that of the run's later directory.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

#[async_trait]
impl ContextProducer for GitPart {
    fn mode(&self) -> ContextMode {
        ContextMode::PerQuery
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        let Some(files) = cx.service::<dyn HostFiles>() else { return Ok(None) };
        let (begun, cwd) = (Workplace::new(&self.root, &self.root), TurnCwd::of(cx));
        let find = move || git_head(&begun.moved(cwd, &*files).project, &*files);
        Ok(tokio::task::spawn_blocking(find).await?)
    }
}

fn git_head(root: &Path, files: &dyn HostFiles) -> Option<String> {
    let read = |path: &Path| {
        let file = files.read(path, &HostRead::whole(4096).own_only()).ok()?;
        Some(String::from_utf8_lossy(&file.bytes).trim().to_owned())
    };
    let git = root.join(".git");
    // In a linked work tree, `.git` is a file with the path of the git directory.
    let dir = match read(&git).as_deref().and_then(|text| text.strip_prefix("gitdir: ")) {
        Some(dir) => root.join(dir),
        None => git,
    };
    let head = read(&dir.join("HEAD"))?;
    let text = match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => format!("branch {branch}"),
        None => format!("commit {}, on no branch", head.get(..12)?),
    };
    // A branch name may contain almost any character.
    Some(crate::discovery::catalog::escape(&text.chars().take(200).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let days = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_795_305_600, "2026-11-22"),
        ];
        for (seconds, wanted) in days {
            assert_eq!(date(seconds), wanted);
        }
    }
}
