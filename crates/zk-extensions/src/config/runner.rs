use std::path::Path;

/// Command that downloads a package from a registry, whose content is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunnerError {
    /// The version of the package is not exact.
    #[error(
        "`{runner}` gets `{package}` from a registry; name a pinned version, such as {example}, or install it and name its file"
    )]
    NotPinned {
        /// Program that gets packages.
        runner: String,
        /// Package name as written.
        package: String,
        /// Example of a package name with a pinned version.
        example: String,
    },
    /// A project requires code that is not among its files.
    #[error(
        "`{runner}` runs code from a registry, which nobody can approve by its bytes; install it with a lock file, and name its script"
    )]
    OfProject {
        /// Program that gets packages.
        runner: String,
    },
}

/// Checks that a command runs no registry package without an exact version; for a project, no registry
/// package at all.
pub(super) fn check_runner(command: &[String], is_project: bool) -> Result<(), RunnerError> {
    let Some(Runner { name, package, separator }) = Runner::of(command) else { return Ok(()) };
    if is_project {
        return Err(RunnerError::OfProject { runner: name });
    }
    let package = package.unwrap_or_default();
    // The first character of a name may be the `@` of a scope.
    let version = package
        .char_indices()
        .skip(1)
        .find(|(at, _)| package.get(*at..).is_some_and(|rest| rest.starts_with(separator)));
    let version = version.and_then(|(at, _)| package.get(at + separator.len()..)).unwrap_or_default();
    if is_exact(version) {
        return Ok(());
    }
    let bare = if package.is_empty() { "PACKAGE" } else { package };
    Err(RunnerError::NotPinned {
        runner: name,
        package: bare.to_owned(),
        example: format!("{}{separator}1.2.3", bare.trim_end_matches(separator)),
    })
}

/// Program that gets a package, and the package.
struct Runner<'a> {
    name: String,
    package: Option<&'a str>,
    separator: &'static str,
}

impl<'a> Runner<'a> {
    fn of(command: &'a [String]) -> Option<Self> {
        let program = command.first()?;
        let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
        let words: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
        let second = words.first().copied().unwrap_or_default();
        let (skipped, separator) = match (name, second) {
            ("npx" | "bunx" | "pnpx", _) => (0, "@"),
            ("npm" | "bun" | "pnpm", "x" | "exec" | "dlx") | ("yarn", "dlx") => (1, "@"),
            ("uvx", _) => (0, "=="),
            ("pipx", "run") => (1, "=="),
            ("uv", "tool") => (2, "=="),
            ("deno", "run" | "serve") if words.iter().any(|word| is_remote(word)) => (1, "@"),
            ("env", _) => return Self::of(command.get(1..)?),
            (_, _) => return None,
        };
        let words = words.get(skipped..).unwrap_or_default();
        let takes_value = |word: &str| matches!(word, "-p" | "--package" | "--from" | "--with" | "--python");
        let named = words.iter().position(|word| matches!(*word, "-p" | "--package" | "--from"));
        let package = match named {
            Some(at) => words.get(at + 1).copied(),
            None => {
                let mut before = "";
                words.iter().copied().find(|word| {
                    let is_option = word.starts_with('-') || takes_value(before);
                    before = word;
                    !is_option
                })
            }
        };
        Some(Self { name: name.to_owned(), package, separator })
    }
}

fn is_remote(word: &str) -> bool {
    ["npm:", "jsr:", "http:", "https:"].iter().any(|scheme| word.starts_with(scheme))
}

/// Whether a version is exact: digits and dots, optionally with a suffix.
fn is_exact(version: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.matches('.').count() >= 1
        && version.chars().all(is_part)
        && !version.split('.').any(|part| part.is_empty() || part == "x")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, is_project: bool) -> Result<(), RunnerError> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        check_runner(&words, is_project)
    }

    #[test]
    fn a_package_runner_needs_an_exact_version() {
        for line in [
            "npx foo",
            "npx -y foo",
            "npx -y @scope/foo",
            "npx -y @scope/foo@latest",
            "npx foo@^1.2.3",
            "npx foo@1",
            "npx foo@1.x",
            "npx --package foo run",
            "/usr/bin/npx foo",
            "env npx foo",
            "npm exec foo",
            "pnpm dlx foo",
            "bunx foo",
            "uvx foo",
            "uvx foo>=1.0",
            "uvx --from foo tool",
            "pipx run foo",
            "uv tool run foo",
            "deno run npm:foo",
            "npx",
        ] {
            assert!(matches!(check(line, false), Err(RunnerError::NotPinned { .. })), "{line}");
        }
        for line in [
            "npx -y foo@1.2.3",
            "npx -y @scope/foo@1.2.3-beta.1",
            "npx --package foo@1.2.3 run",
            "uvx foo==1.2.3",
            "uvx --from foo==1.2 tool",
            "pipx run foo==1.2.3",
            "python3 npx",
            "node foo.mjs",
            "npm run foo",
            "uv run foo.py",
            "deno run foo.ts",
        ] {
            assert_eq!(check(line, false), Ok(()), "{line}");
        }
    }

    #[test]
    fn a_project_runs_no_package_of_a_registry() {
        assert!(matches!(check("npx foo@1.2.3", true), Err(RunnerError::OfProject { .. })));
        assert_eq!(check("node tools/foo.mjs", true), Ok(()));
    }
}
