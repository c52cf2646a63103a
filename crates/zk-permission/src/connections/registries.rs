use crate::program::base_name;

/// Package managers, each with the subcommands that fetch packages (all if the list is empty) and its default
/// registries.
const REGISTRIES: &[(&[&str], &[&str], &[&str])] = &[
    (
        &["npm"],
        &[
            "add",
            "audit",
            "ci",
            "create",
            "i",
            "in",
            "info",
            "init",
            "ins",
            "install",
            "install-test",
            "it",
            "outdated",
            "search",
            "show",
            "up",
            "update",
            "upgrade",
            "view",
        ],
        &["registry.npmjs.org"],
    ),
    (
        &["pnpm", "bun"],
        &[
            "add", "audit", "create", "dlx", "fetch", "i", "import", "install", "outdated", "up", "update",
            "upgrade", "x",
        ],
        &["registry.npmjs.org"],
    ),
    (
        &["yarn"],
        &["", "add", "audit", "create", "dlx", "import", "install", "outdated", "up", "upgrade"],
        &["registry.yarnpkg.com", "registry.npmjs.org"],
    ),
    (&["pip", "pip3"], &["download", "index", "install", "wheel"], &["pypi.org", "files.pythonhosted.org"]),
    (&["uv"], &["add", "lock", "pip", "python", "sync", "tool"], &["pypi.org", "files.pythonhosted.org"]),
    (
        &["poetry", "pdm", "pipenv"],
        &["add", "install", "lock", "sync", "update", "upgrade"],
        &["pypi.org", "files.pythonhosted.org"],
    ),
    (
        &["cargo"],
        &["add", "fetch", "generate-lockfile", "info", "install", "search", "update", "upgrade"],
        &["index.crates.io", "static.crates.io", "crates.io"],
    ),
    (&["gem", "bundle"], &["add", "install", "outdated", "update"], &["rubygems.org", "index.rubygems.org"]),
    (
        &["composer"],
        &["install", "require", "update"],
        &["repo.packagist.org", "packagist.org", "api.github.com"],
    ),
    (&["deno"], &["add", "cache", "install"], &["jsr.io", "deno.land", "registry.npmjs.org"]),
    (&["dotnet"], &["add", "restore"], &["api.nuget.org"]),
    (&["go"], &["get", "install", "mod"], &["proxy.golang.org", "sum.golang.org"]),
];

/// Default registries, with further hosts that serve their packages.
const BESIDE: [(&str, &str); 3] = [
    ("pypi.org", "files.pythonhosted.org"),
    ("index.crates.io", "static.crates.io"),
    ("proxy.golang.org", "sum.golang.org"),
];

/// Further hosts that belong to the given ones.
pub(super) fn associated_hosts(hosts: &[String]) -> Vec<String> {
    let named = BESIDE.iter().filter(|(host, _)| hosts.iter().any(|named| named == host));
    named.map(|(_, other)| (*other).to_owned()).collect()
}

/// Flags that keep a package manager offline.
const OFFLINE: [&str; 5] = ["--offline", "--no-index", "--frozen-offline", "--help", "-h"];

/// Maximum number of words before a subcommand that are examined.
const MAX_FLAGS: usize = 8;

/// Whether a package manager connects with these arguments.
pub(crate) fn connects(name: &str, args: &[String]) -> bool {
    hosts(name, args).is_some()
}

/// Default hosts of a package manager for these arguments; `None` if it does not connect.
pub(crate) fn hosts(name: &str, args: &[String]) -> Option<&'static [&'static str]> {
    if name.starts_with("python") {
        // `python3 -m pip install` and similar commands.
        let (flag, rest) = args.split_first()?;
        let (module, rest) = rest.split_first()?;
        return if flag == "-m" && !module.starts_with("python") {
            hosts(base_name(module), rest)
        } else {
            None
        };
    }
    let (_, subcommands, hosts) = REGISTRIES.iter().find(|(names, ..)| names.contains(&name))?;
    if args.iter().take(64).any(|word| OFFLINE.contains(&word.as_str())) {
        return None;
    }
    // `cargo +nightly`, and flags before the subcommand.
    let is_flag = |word: &&String| word.starts_with(['-', '+']);
    let mut words = args.iter().take(MAX_FLAGS).skip_while(is_flag);
    let subcommand = words.next().map(String::as_str).unwrap_or_default();
    if !subcommands.contains(&subcommand) || (subcommand.is_empty() && !args.is_empty()) {
        return None;
    }
    let next = words.next().map(String::as_str);
    let is_local = match (name, subcommand) {
        ("go", "mod") => !matches!(next, Some("download" | "tidy" | "vendor")),
        ("go", "install") => !args.iter().any(|word| word.contains('@')),
        ("uv", "pip") => !matches!(next, Some("install" | "sync" | "compile" | "download")),
        ("uv", "python" | "tool") => !matches!(next, Some("install" | "upgrade" | "run")),
        ("npm", "init") => next.is_none_or(|next| next.starts_with('-')),
        ("dotnet", "add") => !args.iter().any(|word| word == "package"),
        _ => false,
    };
    (!is_local).then_some(*hosts)
}
