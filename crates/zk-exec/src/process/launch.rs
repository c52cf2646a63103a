use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use zk_core::service::ExecRequest;

use super::spawn::MARK;
use crate::reads::git;
use crate::wire::{put, put_all, put_len, take, take_len};
use crate::{Environment, Limits};

/// All parameters of a command's start, in a form that can be sent to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<OsString, OsString>,
    /// Whether its standard streams are a terminal.
    pub(super) terminal: bool,
    /// Whether the request has a network grant of the sandbox.
    pub(super) connects: bool,
    /// Whether the command is one git command that makes a repository, which the sandbox then permits.
    pub(super) makes_repository: bool,
    /// Limits that the supervising process enforces.
    pub(super) limits: Limits,
}

impl Launch {
    /// Launch for a request, with the environment variables that it may have.
    pub(super) fn new(request: &ExecRequest, environment: &Environment, mark: &str) -> Self {
        let mut env: BTreeMap<OsString, OsString> =
            environment.vars().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        env.extend(request.env.clone());
        env.insert(MARK.into(), mark.into());
        env.insert("PWD".into(), request.cwd.clone().into());
        Self {
            program: request.program.clone(),
            args: request.args.clone(),
            cwd: request.cwd.clone(),
            env,
            terminal: request.terminal.is_some(),
            connects: request.connections.is_some(),
            makes_repository: git::makes_repository(request),
            limits: Limits::default(),
        }
    }

    /// Encodes the launch as texts, each after its length in eight bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_len(&mut out, usize::from(self.terminal));
        put_len(&mut out, usize::from(self.connects));
        put_len(&mut out, usize::from(self.makes_repository));
        self.limits.encode(&mut out);
        put(&mut out, &self.program);
        put(&mut out, &self.cwd);
        put_all(&mut out, &self.args);
        put_len(&mut out, self.env.len());
        for (name, value) in &self.env {
            put(&mut out, name);
            put(&mut out, value);
        }
        out
    }

    /// Decodes the result of [`Launch::encode`]; `None` for other bytes.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let terminal = take_len(from)? != 0;
        let connects = take_len(from)? != 0;
        let makes_repository = take_len(from)? != 0;
        let limits = Limits::decode(from)?;
        let program = take(from)?;
        let cwd = take(from)?.into();
        let args = (0..take_len(from)?).map(|_| take(from)).collect::<Option<_>>()?;
        let env = (0..take_len(from)?).map(|_| Some((take(from)?, take(from)?))).collect::<Option<_>>()?;
        from.is_empty().then_some(Self {
            program,
            args,
            cwd,
            env,
            terminal,
            connects,
            makes_repository,
            limits,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_launch_survives_its_encoding_and_a_truncated_one_is_refused() {
        let odd = OsString::from_vec(vec![0xff, b'=', 0xfe]);
        let launch = Launch {
            program: "bash".into(),
            args: vec!["-c".into(), odd.clone(), "".into()],
            cwd: "/tmp".into(),
            env: [(odd, "x".into()), ("PATH".into(), "/bin".into())].into(),
            terminal: true,
            connects: true,
            makes_repository: true,
            limits: Limits { memory: Some(1 << 30), processes: Some(7), output: None },
        };
        let bytes = launch.encode();
        assert_eq!(Launch::decode(&bytes), Some(launch));
        for end in 0..bytes.len() {
            assert_eq!(Launch::decode(&bytes[..end]), None, "{end}");
        }
    }
}
