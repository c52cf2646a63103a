use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use zk_core::service::ExecRequest;

use super::spawn::MARK;
use crate::Environment;

/// A command with everything it is started with, in a form that can be sent to another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<OsString, OsString>,
    /// Whether its standard streams are a terminal of its own.
    pub(super) terminal: bool,
}

impl Launch {
    /// The command of a request with the variables it may see.
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
        }
    }

    /// Encodes it: each text with its length before it, as eight bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_len(&mut out, usize::from(self.terminal));
        put(&mut out, self.program.as_bytes());
        put(&mut out, self.cwd.as_os_str().as_bytes());
        put_len(&mut out, self.args.len());
        for arg in &self.args {
            put(&mut out, arg.as_bytes());
        }
        put_len(&mut out, self.env.len());
        for (name, value) in &self.env {
            put(&mut out, name.as_bytes());
            put(&mut out, value.as_bytes());
        }
        out
    }

    /// Decodes what [`Launch::encode`] made; nothing if it is anything else.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let terminal = take_len(from)? != 0;
        let program = take(from)?;
        let cwd = take(from)?.into();
        let args = (0..take_len(from)?).map(|_| take(from)).collect::<Option<_>>()?;
        let env = (0..take_len(from)?).map(|_| Some((take(from)?, take(from)?))).collect::<Option<_>>()?;
        from.is_empty().then_some(Self { program, args, cwd, env, terminal })
    }
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&(len as u64).to_le_bytes());
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn take_len(from: &mut &[u8]) -> Option<usize> {
    let (len, rest) = from.split_first_chunk::<8>()?;
    *from = rest;
    usize::try_from(u64::from_le_bytes(*len)).ok()
}

fn take(from: &mut &[u8]) -> Option<OsString> {
    let len = take_len(from)?;
    let (bytes, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(OsString::from_vec(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_survives_its_encoding_and_a_part_of_it_is_none() {
        let odd = OsString::from_vec(vec![0xff, b'=', 0xfe]);
        let launch = Launch {
            program: "bash".into(),
            args: vec!["-c".into(), odd.clone(), "".into()],
            cwd: "/tmp".into(),
            env: [(odd, "x".into()), ("PATH".into(), "/bin".into())].into(),
            terminal: true,
        };
        let bytes = launch.encode();
        assert_eq!(Launch::decode(&bytes), Some(launch));
        for end in 0..bytes.len() {
            assert_eq!(Launch::decode(&bytes[..end]), None, "{end}");
        }
    }
}
