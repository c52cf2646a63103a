/// Package runners: programs that download a package and run it, with the subcommands that precede the
/// package's name.
const RUNNERS: [(&str, &[&str]); 9] = [
    ("npx", &[]),
    ("npm", &["exec"]),
    ("npm", &["x"]),
    ("pnpm", &["dlx"]),
    ("pnpx", &[]),
    ("yarn", &["dlx"]),
    ("bunx", &[]),
    ("uvx", &[]),
    ("pipx", &["run"]),
];

/// Options of package runners whose value is the name of a package.
const PACKAGE_OPTIONS: [&str; 4] = ["-p", "--package", "--from", "--spec"];

/// Checks that a package runner is given an exact version. Without one it would run the latest release.
pub(crate) fn check_pinned(program: &str, args: &[String]) -> Result<(), String> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let behind = RUNNERS.iter().filter(|(runner, _)| *runner == name);
    let Some(words) = behind.filter_map(|(_, first)| words.strip_prefix(*first)).next() else {
        return Ok(());
    };
    let packages = package_names(words);
    if packages.is_empty() {
        return Err(format!("`{name}` names no package that zk can find; name it as NAME@1.2.3"));
    }
    match packages.iter().find(|package| !is_pinned(package)) {
        None => Ok(()),
        Some(package) => Err(format!(
            "`{name}` would run whatever version of `{package}` is the newest; name the version, such as \
             {package}@1.2.3"
        )),
    }
}

/// Returns the packages in a runner's arguments: those of its options, or else its first argument.
fn package_names<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut packages = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (option, value) =
            word.split_once('=').map_or((*word, None), |(option, value)| (option, Some(value)));
        if PACKAGE_OPTIONS.contains(&option) {
            packages.extend(value.or_else(|| words.next().copied()));
        } else if !word.starts_with('-') {
            if packages.is_empty() {
                packages.push(word);
            }
            break;
        }
    }
    packages
}

/// Whether a package is named with an exact version: `name@1.2.3`, `@scope/name@1.2.3` or `name==1.2.3`.
fn is_pinned(package: &str) -> bool {
    let unscoped = package.strip_prefix('@').unwrap_or(package);
    let version = unscoped.split_once("==").or_else(|| unscoped.split_once('@')).map(|(_, version)| version);
    version.is_some_and(|version| {
        let numbers = version.split(['-', '+']).next().unwrap_or_default();
        let mut parts = numbers.split('.').peekable();
        let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        parts.clone().count() >= 2 && parts.all(is_number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str) -> Result<(), String> {
        let mut words = words.split_whitespace().map(ToOwned::to_owned);
        let program = words.next().unwrap();
        check_pinned(&program, &words.collect::<Vec<_>>())
    }

    #[test]
    fn packages_of_runners_have_an_exact_version() {
        for words in [
            "agent --acp",
            "npm run agent",
            "npx -y pkg@1.2.3 --acp",
            "npx --package=@scope/pkg@0.4.1-beta.2 agent",
            "/usr/bin/npx @scope/pkg@1.2.3",
            "npm exec pkg@10.0.1",
            "uvx --from pkg==1.2.3 agent",
            "uvx pkg@1.2",
            "pipx run --spec pkg==2.0 agent",
        ] {
            assert_eq!(check(words), Ok(()), "{words}");
        }
        for words in [
            "npx -y pkg",
            "npx pkg@latest",
            "npx pkg@^1.2.3",
            "npx @scope/pkg",
            "npm exec pkg@1",
            "pnpm dlx pkg@next",
            "bunx pkg",
            "uvx agent",
            "uvx --from git+https://x/y agent",
            "npx -y",
        ] {
            assert!(check(words).is_err(), "{words}");
        }
    }
}
