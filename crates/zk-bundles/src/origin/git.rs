use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, Exit, OutputStream, visible_lines};

use super::fetch::FetchError;

/// Time limit of one git command.
const GIT_TIME_LIMIT: Duration = Duration::from_secs(300);

/// Maximum number of bytes of git's errors that a message quotes.
const MAX_SAID_BYTES: usize = 2000;

/// Git configuration of every command: no hooks, no helpers from the repository, and no transport that starts a
/// program.
const CONFIGURATION: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "credential.interactive=false",
];

/// Environment variables that keep git and ssh from prompting on the terminal, and from fetching large files.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_LFS_SKIP_SMUDGE", "1"),
    ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("LC_ALL", "C"),
];

/// Runner of the person's git as a subprocess.
pub(super) struct Git {
    pub(super) exec: Arc<dyn Exec>,
}

impl Git {
    /// Fetches one commit of a repository into the new directory `dir`; returns the commit.
    pub(super) async fn check_out(
        &self,
        url: &str,
        reference: Option<&str>,
        sha: Option<&str>,
        dir: &Path,
    ) -> Result<String, FetchError> {
        self.run(dir, &["init", "--quiet", "--template="]).await?;
        let wanted = sha.or(reference).unwrap_or("HEAD");
        let shallow =
            self.run(dir, &["fetch", "--quiet", "--no-tags", "--depth", "1", "--", url, wanted]).await;
        match (shallow, sha) {
            (Ok(_), _) => {
                self.run(dir, &["checkout", "--quiet", "--detach", "FETCH_HEAD"]).await?;
            }
            // Some servers only provide the commit at the tip of a branch.
            (Err(_), Some(sha)) => {
                let all = ["fetch", "--quiet", "--tags", "--", url, "+refs/heads/*:refs/remotes/origin/*"];
                self.run(dir, &all).await?;
                self.run(dir, &["checkout", "--quiet", "--detach", sha]).await?;
            }
            (Err(error), None) => return Err(error),
        }
        let commit = self.run(dir, &["rev-parse", "HEAD"]).await?.trim().to_owned();
        match sha {
            Some(sha) if !commit.eq_ignore_ascii_case(sha) => {
                Err(FetchError::Commit { wanted: sha.to_owned(), got: commit })
            }
            Some(_) | None => Ok(commit),
        }
    }

    async fn run(&self, dir: &Path, args: &[&str]) -> Result<String, FetchError> {
        let mut request = ExecRequest::new("git", dir);
        request.args.extend(CONFIGURATION.iter().flat_map(|pair| ["-c".into(), (*pair).into()]));
        request.args.extend(args.iter().map(|arg| (*arg).into()));
        request.env.extend(ENVIRONMENT.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        request.timeout = Some(GIT_TIME_LIMIT);
        let (mut printed, mut said) = (Vec::new(), Vec::new());
        let mut sink = |stream: OutputStream, bytes: &[u8]| match stream {
            OutputStream::Stdout => printed.extend_from_slice(bytes),
            OutputStream::Stderr => said.extend_from_slice(bytes),
        };
        let doing = || format!("git {}", args.first().copied().unwrap_or_default());
        let failed = |why: String| FetchError::Git { doing: doing(), why };
        let ran = self.exec.run(request, &mut sink, &CancellationToken::new()).await;
        match ran.map_err(|error| failed(error.to_string()))?.exit {
            Exit::Code(0) => Ok(String::from_utf8_lossy(&printed).into_owned()),
            Exit::TimedOut => Err(failed(format!("it took longer than {} s", GIT_TIME_LIMIT.as_secs()))),
            Exit::Code(_) | Exit::Signal(_) | Exit::Stopped => {
                said.truncate(MAX_SAID_BYTES);
                // Git's errors contain text from the server.
                let lines = visible_lines(String::from_utf8_lossy(&said).trim());
                Err(failed(lines.join("; ")))
            }
        }
    }
}
