//! Calls of a process to its files, recorded by `strace`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Calls that change files or make changes durable, and `write`, by which the process acknowledges.
pub(crate) const CALLS: &str = "openat,mkdir,write,pwrite64,ftruncate,fallocate,fdatasync,fsync,rename,renameat,renameat2,link,linkat,unlink,unlinkat";

/// One call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Create(PathBuf),
    Mkdir(PathBuf),
    Write {
        path: PathBuf,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        path: PathBuf,
        bytes: usize,
    },
    Sync(PathBuf),
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink(PathBuf),
    /// Line on the standard output.
    Says(String),
}

/// Parses the output of `strace -f -y -xx`.
pub(crate) fn parse(text: &str) -> Vec<Call> {
    let mut unfinished: HashMap<&str, &str> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(begin) = rest.strip_suffix("<unfinished ...>") {
            unfinished.insert(process, begin);
        } else if rest.starts_with("<... ") {
            let Some((_, end)) = rest.split_once("resumed>") else { continue };
            let begin = unfinished.remove(process).expect("the call had begun");
            calls.extend(call(&format!("{begin}{end}")));
        } else {
            calls.extend(call(rest));
        }
    }
    calls
}

/// One line; `None` for a call that failed or changes nothing.
fn call(line: &str) -> Option<Call> {
    let (head, result) = line.rsplit_once(" = ")?;
    let (name, args) = head.trim_end().strip_suffix(')')?.split_once('(')?;
    if result.starts_with("-1") || result.starts_with('?') {
        return None;
    }
    let args: Vec<&str> = args.split(", ").collect();
    let number = |at: usize| args[at].trim().parse::<usize>().unwrap();
    let paths = || args.iter().filter(|arg| arg.starts_with('"')).map(|arg| PathBuf::from(name_of(arg)));
    let two = || {
        let mut paths = paths();
        Some((paths.next()?, paths.next()?))
    };
    Some(match name {
        "openat" if args.iter().any(|arg| arg.contains("O_CREAT")) => Call::Create(paths().next()?),
        "mkdir" => Call::Mkdir(paths().next()?),
        "write" if args[0].starts_with("1<") => {
            Call::Says(String::from_utf8_lossy(&bytes_of(args[1])).into_owned())
        }
        "pwrite64" => Call::Write {
            path: path_of(args[0])?,
            offset: number(3),
            bytes: {
                let bytes = bytes_of(args[1]);
                assert_eq!(bytes.len(), number(2), "strace left bytes out");
                bytes
            },
        },
        // Only files have paths.
        "write" if !path_of(args[0])?.is_absolute() => return None,
        "write" => panic!("a write without a place: {line:.200}"),
        "fallocate" => panic!("a call that is not modelled: {line:.200}"),
        "ftruncate" => Call::Truncate { path: path_of(args[0])?, bytes: number(1) },
        "fdatasync" | "fsync" => Call::Sync(path_of(args[0])?),
        "rename" | "renameat" | "renameat2" => two().map(|(from, to)| Call::Rename { from, to })?,
        "link" | "linkat" => two().map(|(from, to)| Call::Link { from, to })?,
        "unlink" | "unlinkat" => Call::Unlink(paths().next()?),
        _ => return None,
    })
}

fn bytes_of(quoted: &str) -> Vec<u8> {
    let text = quoted.trim_end_matches("...").trim_matches('"');
    let bytes = text.split("\\x").skip(1);
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn name_of(quoted: &str) -> OsString {
    OsString::from_vec(bytes_of(quoted))
}

/// Path of a descriptor such as `7</tmp/file>`; `None` for a removed file.
fn path_of(descriptor: &str) -> Option<PathBuf> {
    let (_, path) = descriptor.split_once('<')?;
    let is_removed = path.ends_with("(deleted)");
    let path = path.split('>').next()?;
    (!is_removed).then(|| Path::new(&name_of(path)).to_owned())
}

#[test]
fn calls_of_two_threads_are_told_apart() {
    let text = r#"1 openat(AT_FDCWD<\x2f>, "\x2f\x61", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3<\x2f\x61>
1 pwrite64(3<\x2f\x61>, "\x01\x02", 2, 4096 <unfinished ...>
2 write(1</dev/null>, "\x68\x69\x0a", 3) = 3
1 <... pwrite64 resumed>)                = 2
2 fdatasync(3<\x2f\x61>)                 = -1 EIO (Input/output error) (INJECTED)
2 fdatasync(3<\x2f\x61>(deleted))        = 0
2 ftruncate(3<\x2f\x61>, 31) = 0"#;
    let path = PathBuf::from("/a");
    let expected = [
        Call::Create(path.clone()),
        Call::Says("hi\n".into()),
        Call::Write { path: path.clone(), offset: 4096, bytes: vec![1, 2] },
        Call::Truncate { path, bytes: 31 },
    ];
    assert_eq!(parse(text), expected);
}
