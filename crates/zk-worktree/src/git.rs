use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, Exit, OutputStream, visible_lines};

use crate::WorktreeError;
use crate::blocking::blocking;

/// Attributes under which git takes files byte by byte.
const RAW_ATTRIBUTES: &[u8] = b"* -text -eol -ident -filter -working-tree-encoding\n";

/// Time limit of one git command.
const GIT_TIME_LIMIT: Duration = Duration::from_secs(120);
/// Maximum size of the output of one git command, in bytes.
const MAX_PRINTED_BYTES: usize = 256 << 20;
/// Bytes of git's errors that a message quotes.
const MAX_SAID_BYTES: usize = 2_000;

/// Git configuration of every command: no hooks, no monitors, no helpers, and files without conversion.
const CONFIGURATION: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.quotePath=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "safe.bareRepository=explicit",
];

/// Environment of every git command: no settings of the person or the machine, no locks in a repository that is
/// only read, and messages in English.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("LC_ALL", "C"),
];

/// Runner of git commands, the only place in this crate that builds their arguments.
#[derive(Clone)]
pub(crate) struct Git {
    pub(crate) exec: Arc<dyn Exec>,
}

/// Output of a call that ran: its exit code and standard output.
pub(crate) struct Printed {
    pub(crate) code: i32,
    pub(crate) bytes: Vec<u8>,
    /// Errors and warnings of git, in one line.
    pub(crate) said: String,
}

impl Git {
    /// Runs git in `dir` and returns its standard output. Fails with a non-zero exit code.
    pub(crate) async fn output_in(&self, dir: &Path, args: &[&str]) -> Result<Vec<u8>, WorktreeError> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let printed = self.run(dir, &args, &[]).await?;
        match printed.code {
            0 => Ok(printed.bytes),
            _ => Err(command_error(&args, printed.said)),
        }
    }

    /// Runs git on the repository `git_dir` with the work tree `tree`, and returns its standard output.
    pub(crate) async fn output_on(
        &self,
        git_dir: &Path,
        tree: &Path,
        args: &[&str],
    ) -> Result<Vec<u8>, WorktreeError> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let variables = [("GIT_DIR", git_dir.as_os_str()), ("GIT_WORK_TREE", tree.as_os_str())];
        let printed = self.run(tree, &args, &variables).await?;
        match printed.code {
            0 => Ok(printed.bytes),
            _ => Err(command_error(&args, printed.said)),
        }
    }

    /// Creates a bare repository of zk's own beside `tree`, which takes files byte by byte.
    pub(crate) async fn init_own(&self, tree: &Path, own: &Path, format: &str) -> Result<(), WorktreeError> {
        let (format, path) = (format!("--object-format={format}"), own.to_string_lossy().into_owned());
        self.output_in(tree, &["init", "--quiet", "--bare", "--template=", &format, "--", &path]).await?;
        let attributes = own.join("info/attributes");
        blocking(move || {
            let made = attributes.parent().map_or(Ok(()), std::fs::create_dir_all);
            let written = made.and_then(|()| std::fs::write(&attributes, RAW_ATTRIBUTES));
            written.map_err(|error| WorktreeError::io("write", &attributes, error))
        })
        .await?
    }

    /// Runs git and returns its exit code with its standard output.
    pub(crate) async fn run(
        &self,
        dir: &Path,
        args: &[OsString],
        variables: &[(&str, &std::ffi::OsStr)],
    ) -> Result<Printed, WorktreeError> {
        let mut request = ExecRequest::new("git", dir);
        request.args.extend(CONFIGURATION.iter().flat_map(|pair| ["-c".into(), (*pair).into()]));
        request.args.extend(args.iter().cloned());
        request.env.extend(ENVIRONMENT.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        request.env.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        request.timeout = Some(GIT_TIME_LIMIT);
        let (mut bytes, mut said) = (Vec::new(), Vec::new());
        let (stop, mut is_too_much) = (CancellationToken::new(), false);
        let mut sink = |stream: OutputStream, piece: &[u8]| match stream {
            OutputStream::Stdout if bytes.len() + piece.len() > MAX_PRINTED_BYTES => {
                is_too_much = true;
                stop.cancel();
            }
            OutputStream::Stdout => bytes.extend_from_slice(piece),
            OutputStream::Stderr if said.len() > MAX_SAID_BYTES => {}
            OutputStream::Stderr => said.extend_from_slice(piece),
        };
        let ran = self.exec.run(request, &mut sink, &stop).await;
        let exit = ran.map_err(|error| command_error(args, error.to_string()))?.exit;
        if is_too_much {
            return Err(command_error(args, format!("it printed more than {MAX_PRINTED_BYTES} bytes")));
        }
        said.truncate(MAX_SAID_BYTES);
        // Git quotes file names in its errors, which may contain control characters.
        let said = visible_lines(String::from_utf8_lossy(&said).trim()).join("; ");
        match exit {
            Exit::Code(code) => Ok(Printed { code, bytes, said }),
            Exit::TimedOut => {
                Err(command_error(args, format!("it took longer than {} s", GIT_TIME_LIMIT.as_secs())))
            }
            Exit::Signal(_) | Exit::Stopped => Err(command_error(args, "it was stopped".to_owned())),
        }
    }
}

fn command_error(args: &[OsString], why: String) -> WorktreeError {
    let doing = args.iter().find(|arg| !arg.to_string_lossy().starts_with('-'));
    let doing = doing.map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
    WorktreeError::Git { doing, why }
}
