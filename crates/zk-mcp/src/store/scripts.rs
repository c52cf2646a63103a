use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zk_core::service::{HostFiles, HostRead, Overflow};

use crate::config::canonical::sha256_hex;
use crate::config::server_config::ServerConfig;
use crate::config::server_transport::ServerTransport;

/// Maximum number of bytes read of a file; for a larger one, the length is part of the digest.
const MAX_READ_BYTES: usize = 64 << 20;
/// Programs that run script files.
const INTERPRETERS: [&str; 20] = [
    "bash", "bun", "dash", "deno", "env", "java", "lua", "node", "nodejs", "npx", "perl", "php", "pypy",
    "python", "ruby", "sh", "ts-node", "tsx", "uv", "zsh",
];
/// Suffixes of script files.
const SUFFIXES: [&str; 16] = [
    "bash", "cjs", "cts", "jar", "js", "jsx", "lua", "mjs", "mts", "php", "pl", "py", "rb", "sh", "ts", "zsh",
];
/// Suffixes that an interpreter appends to a name without a file.
const COMPLETIONS: [&str; 6] = [".js", ".mjs", ".cjs", "/index.js", "/__main__.py", ".py"];

/// Scripts in the command of a server, with the digest of each. Files that these scripts load are not
/// included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts(BTreeMap<PathBuf, String>);

impl Scripts {
    /// Finds the current scripts of a server of `project`.
    #[must_use]
    pub fn of(
        server: &ServerConfig,
        project: &Path,
        lookup: &dyn Fn(&str) -> Option<String>,
        files: &dyn HostFiles,
    ) -> Self {
        let server = server.clone().expanded(lookup);
        let ServerTransport::Stdio { command, args, cwd, .. } = &server.transport else {
            return Self::default();
        };
        let dir = cwd.as_ref().map_or(project.to_path_buf(), |cwd| project.join(cwd));
        let search = Search { project, dir: &dir, files, is_interpreted: is_interpreter(command) };
        let mut found = BTreeMap::new();
        // A command without a slash is a program in `PATH`.
        if command.contains('/') {
            found.extend(search.file(&dir.join(command), true));
        }
        for (at, arg) in args.iter().enumerate() {
            let is_module = at > 0 && args.get(at - 1).is_some_and(|before| before == "-m");
            let named = arg.split_once('=').map_or(arg.as_str(), |(_, named)| named);
            let named = if is_module { named.replace('.', "/") } else { named.to_owned() };
            found.extend(search.argument(&named));
        }
        Self(found)
    }

    /// Returns the bytes to approve: the definition and the scripts.
    #[must_use]
    pub fn approval(&self, definition: Vec<u8>) -> Vec<u8> {
        let mut bytes = definition;
        for (path, digest) in &self.0 {
            // JSON cannot contain this character, so the parts are unambiguous.
            bytes.extend_from_slice(format!("\0{}\0{digest}", path.display()).as_bytes());
        }
        bytes
    }

    /// Returns each script with the beginning of its digest, for display.
    pub fn lines(&self) -> impl Iterator<Item = (String, String)> {
        self.0.iter().map(|(path, digest)| (path.display().to_string(), digest.chars().take(12).collect()))
    }

    /// Returns a script that differs from `then`, if any.
    #[must_use]
    pub fn changed_since<'a>(&'a self, then: &'a Self) -> Option<&'a Path> {
        let all = self.0.keys().chain(then.0.keys());
        all.map(PathBuf::as_path).find(|path| self.0.get(*path) != then.0.get(*path))
    }
}

struct Search<'a> {
    project: &'a Path,
    dir: &'a Path,
    files: &'a dyn HostFiles,
    is_interpreted: bool,
}

impl Search<'_> {
    /// Returns the script that an argument names, if any.
    fn argument(&self, named: &str) -> Option<(PathBuf, String)> {
        if named.is_empty() || named.starts_with('-') || named.contains("://") {
            return None;
        }
        let path = self.dir.join(named);
        if path.is_file() || !self.is_interpreted {
            return self.file(&path, self.is_interpreted);
        }
        let completed = COMPLETIONS.iter().map(|more| PathBuf::from(format!("{}{more}", path.display())));
        completed.into_iter().find_map(|path| self.file(&path, true))
    }

    /// Returns a file with its digest, if it is a script, or a file of the project that is run.
    fn file(&self, path: &Path, is_run: bool) -> Option<(PathBuf, String)> {
        let path = path.canonicalize().ok().filter(|path| path.is_file())?;
        let is_own = is_run && path.starts_with(self.project);
        if !is_own && !has_suffix(&path) && !self.has_shebang(&path) {
            return None;
        }
        let how = HostRead { overflow: Overflow::Cut, ..HostRead::whole(MAX_READ_BYTES) };
        // An unreadable script has another digest than any readable one, so approving one does not approve
        // the other.
        let digest = self.files.read(&path, &how).map_or_else(
            |error| format!("unreadable: {error}"),
            |file| {
                let digest = sha256_hex(&file.bytes);
                let length = path.metadata().map_or(0, |data| data.len());
                if file.cut { format!("{digest}+{length}") } else { digest }
            },
        );
        Some((path, digest))
    }

    /// Whether the file begins with `#!`.
    fn has_shebang(&self, path: &Path) -> bool {
        let how = HostRead { overflow: Overflow::Cut, ..HostRead::whole(2) };
        self.files.read(path, &how).is_ok_and(|file| file.bytes == b"#!")
    }
}

fn has_suffix(path: &Path) -> bool {
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| SUFFIXES.contains(&end))
}

/// Whether a program is an interpreter of files: `python3.12` counts as `python`.
fn is_interpreter(command: &str) -> bool {
    let name = Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name) || INTERPRETERS.contains(&bare)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use zk_exec::LocalHostFiles;

    use super::*;

    fn names(project: &Path, definition: &Value) -> Vec<String> {
        let server = ServerConfig::read("s", definition).unwrap();
        let lookup = |name: &str| (name == "DIR").then(|| "tools".to_owned());
        let found = Scripts::of(&server, project, &lookup, &LocalHostFiles::new());
        let below = |path: &PathBuf| path.strip_prefix(project).unwrap().display().to_string();
        found.0.keys().map(below).collect()
    }

    #[test]
    fn files_that_run_are_found_and_files_of_data_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap();
        for file in
            ["run", "data.db", "server.js", "tools/a.py", "tools/pkg/__main__.py", "lib/index.js", "list.txt"]
        {
            let path = project.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        for (definition, found) in [
            (json!({"command": "./run", "args": ["data.db"]}), vec!["run"]),
            (json!({"command": "node", "args": ["--inspect", "server"]}), vec!["server.js"]),
            (json!({"command": "node", "args": ["./lib"]}), vec!["lib/index.js"]),
            (json!({"command": "python3.12", "args": ["${DIR}/a.py"]}), vec!["tools/a.py"]),
            (
                json!({"command": "python3", "args": ["-m", "pkg"], "cwd": "tools"}),
                vec!["tools/pkg/__main__.py"],
            ),
            (json!({"command": "sqlite", "args": ["data.db", "--init=server.js"]}), vec!["server.js"]),
            (json!({"command": "serve", "args": [".", "list.txt"]}), vec![]),
            (json!({"url": "http://h"}), vec![]),
        ] {
            assert_eq!(names(&project, &definition), found, "{definition}");
        }
    }

    #[test]
    fn another_content_a_file_that_comes_and_one_that_goes_are_changes() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap();
        let server = ServerConfig::read("s", &json!({"command": "node", "args": ["a"]})).unwrap();
        let now = || Scripts::of(&server, &project, &|_| None, &LocalHostFiles::new());
        let none = now();
        std::fs::write(project.join("a.js"), "1").unwrap();
        let one = now();
        std::fs::write(project.join("a.js"), "2").unwrap();
        let two = now();
        assert_eq!(one.changed_since(&none), Some(&*project.join("a.js")));
        assert!(two.changed_since(&one).is_some() && none.changed_since(&one).is_some());
        assert_eq!(two.changed_since(&now()), None);
        assert_ne!(one.approval(b"{}".to_vec()), two.approval(b"{}".to_vec()));
        assert_eq!(none.approval(b"{}".to_vec()), b"{}");
    }
}
