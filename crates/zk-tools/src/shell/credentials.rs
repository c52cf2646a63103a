//! Commands that need credentials of the person, which a sandbox hides.

use std::path::Path;

use crate::ToolsOptions;

/// Characters that, unquoted, make a text more than one plain command.
const SHELL_SIGNS: &str = ";|&<>()*?[]{}~#!\n";

/// Description of ssh's credentials.
const SSH: &str = "keys and agent of ssh";

/// Maximum size of an examined git configuration, in bytes.
const MAX_CONFIG_BYTES: u64 = 64 * 1024;

/// Reason for which a command needs the person's credentials; `None` if it does not, or is not a single plain
/// command.
pub(super) fn needed(command: &str, cwd: &Path, options: &ToolsOptions) -> Option<String> {
    let words = plain_words(command)?;
    let (name, args) = words.split_first()?;
    let has = |names: &[&str]| args.first().is_some_and(|word| names.contains(&word.as_str()));
    let when = |needs: bool, which| needs.then_some(which);
    let which = match name.as_str() {
        "gh" | "glab" => {
            when(!args.is_empty() && !has(&["--help", "--version", "help", "version"]), "its login")
        }
        "ssh" | "scp" | "sftp" => when(!args.is_empty(), SSH),
        "cargo" => when(has(&["login", "logout", "owner", "publish", "yank"]), "its token"),
        "npm" | "pnpm" | "yarn" | "bun" => when(has(&["login", "publish", "whoami"]), "its token"),
        "twine" => when(has(&["upload"]), "its token"),
        "gem" => when(has(&["push"]), "its token"),
        "git" => hidden_git_credentials(args, cwd, options),
        _ => None,
    }?;
    Some(format!("`{name}` needs credentials of yours, which the sandbox hides ({which}): it runs as you"))
}

fn hidden_git_credentials(args: &[String], cwd: &Path, options: &ToolsOptions) -> Option<&'static str> {
    let (name, rest) = args.split_first()?;
    if !matches!(name.as_str(), "clone" | "fetch" | "ls-remote" | "pull" | "push") {
        return None;
    }
    let is_push = name == "push";
    let goes_by_ssh = |address: &str| {
        let mut rules = options.git_ssh_prefixes.iter().filter(|(_, only_pushes)| is_push || !only_pushes);
        is_ssh_address(address) || rules.any(|(prefix, _)| address.starts_with(prefix))
    };
    let place = rest.iter().find(|word| !word.starts_with('-')).map(String::as_str);
    let named = place.filter(|place| place.contains("://") || goes_by_ssh(place));
    let addresses = match named {
        Some(address) => vec![address.to_owned()],
        None => remotes(cwd, place),
    };
    if addresses.iter().any(|address| goes_by_ssh(address)) {
        return Some(SSH);
    }
    // Reading is often open to everybody, and is tried in the sandbox first.
    let has_credentials = |address: &String| {
        let is_http = address.starts_with("https://") || address.starts_with("http://");
        is_http && options.git_helper_urls.iter().any(|url| address.starts_with(url))
    };
    let asks_helper = is_push && addresses.iter().any(has_credentials);
    asks_helper.then_some("those that its credential helper has for this host")
}

/// Whether git reaches an address by SSH.
fn is_ssh_address(address: &str) -> bool {
    let is_short = !address.contains("://")
        && address.split_once(':').is_some_and(|(host, _)| host.contains('@') && !host.contains('/'));
    is_short || address.starts_with("ssh://") || address.starts_with("git+ssh://")
}

/// Returns the addresses of a repository's remote, or of all its remotes without a name. The repository is
/// the one around a directory.
fn remotes(cwd: &Path, name: Option<&str>) -> Vec<String> {
    let config = cwd.ancestors().map(|dir| dir.join(".git/config")).find(|path| path.is_file());
    let small = config.filter(|path| path.metadata().is_ok_and(|found| found.len() <= MAX_CONFIG_BYTES));
    let text = small.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let mut all = Vec::new();
    let mut remote = "";
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            let named = line.strip_prefix("[remote \"").and_then(|rest| rest.strip_suffix("\"]"));
            remote = named.unwrap_or_default();
        } else if let Some((key, address)) = line.split_once('=')
            && matches!(key.trim(), "url" | "pushurl")
            && !remote.is_empty()
        {
            all.push((remote, address.trim().to_owned()));
        }
    }
    let is_named = |(remote, _): &&(&str, String)| name.is_none_or(|name| *remote == name);
    all.iter().filter(is_named).map(|(_, address)| address.clone()).collect()
}

/// Words of a text that is one program with literal arguments.
fn plain_words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for sign in command.trim().chars() {
        match (quote, sign) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(sign),
            (_, '$' | '`' | '\\') => return None,
            (Some(_), _) => word.get_or_insert_default().push(sign),
            (None, '\'' | '"') => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (None, _) if SHELL_SIGNS.contains(sign) => return None,
            (None, _) if sign.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_commands_with_credentials_are_told_from_all_others() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join(".git")).unwrap();
        std::fs::create_dir_all(dir.path().join("a")).unwrap();
        let config = "[remote \"origin\"]\n\turl = git@example.org:a/b.git\n[remote \"web\"]\n\turl = \
                      https://example.org/a/b.git\n[remote \"disk\"]\n\turl = /srv/x.git\n";
        std::fs::write(dir.path().join(".git/config"), config).unwrap();
        let cwd = dir.path().join("a");
        for (command, alone, with_helper) in [
            ("gh pr create --title 'a; b' --body \"(x)\"", true, true),
            ("gh --version", false, false),
            ("ssh me@example.org uptime", true, true),
            ("npm publish", true, true),
            ("cargo publish -p x", true, true),
            ("git push", true, true),
            ("git push origin main", true, true),
            ("git push -u web main", false, true),
            ("git push https://example.org/x.git main:main", false, true),
            ("git push http://127.0.0.1:8801/x.git main", false, true),
            ("git push disk", false, false),
            ("git fetch origin", true, true),
            ("git fetch web", false, false),
            ("git clone git@example.org:a/b.git", true, true),
            ("git clone https://example.org/a/b.git", false, false),
            ("git commit -m 'git push'", false, false),
            ("gh pr list; rm -rf x", false, false),
            ("gh pr list && make", false, false),
            ("gh pr view $(cat x)", false, false),
            ("gh pr list > out", false, false),
            ("GH_TOKEN=x gh pr list", false, false),
            ("npm install", false, false),
            ("curl https://example.org", false, false),
            ("", false, false),
        ] {
            let is_needed = |has_helper: bool| {
                let git_helper_urls =
                    if has_helper { vec![String::new()] } else { vec!["https://b.org".to_owned()] };
                needed(command, &cwd, &ToolsOptions { git_helper_urls, ..ToolsOptions::default() }).is_some()
            };
            assert_eq!((is_needed(false), is_needed(true)), (alone, with_helper), "{command}");
        }
        let git_ssh_prefixes = vec![("https://example.org/".to_owned(), true), ("corp:".to_owned(), false)];
        let options = ToolsOptions { git_ssh_prefixes, ..ToolsOptions::default() };
        for (command, is_needed) in [
            ("git push web main", true),
            ("git fetch web", false),
            ("git clone corp:a.git", true),
            ("git clone https://example.com/a.git", false),
        ] {
            let needs = needed(command, &cwd, &options);
            assert_eq!(needs.is_some_and(|needs| needs.contains(SSH)), is_needed, "{command}");
        }
    }
}
