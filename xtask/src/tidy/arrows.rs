use super::Findings;
use crate::workspace::{Package, names};
use toml::Value;

/// Crates that may use a certain outside crate, because it is large, or because its use belongs in one place.
const HOMES: [(&str, &[&str]); 18] = [
    ("reqwest", &["zk-auth", "zk-otel", "zk-providers", "zk-mcp", "zk-stores", "zk-tools"]),
    ("rustls", &["zk-auth"]),
    ("rusqlite", &["zk-engine", "zk-memory", "zk-session", "zk-transcripts"]),
    ("tokio-postgres", &["zk-fleet", "zk-stores"]),
    ("rmcp", &["zk-mcp"]),
    ("tokio-tungstenite", &["zk-serve"]),
    ("notify", &["zk-exec"]),
    ("tiktoken", &["zk-compaction"]),
    ("clap", &["zk-args", "zk-cli"]),
    ("rustyline", &["zk-tui"]),
    ("ratatui", &["zk-cli"]),
    ("pulldown-cmark", &["zk-transcripts", "zk-tui"]),
    ("etcetera", &["zk-cli"]),
    ("gix-index", &["zk-undo"]),
    ("gix-odb", &["zk-undo"]),
    // Each crate that compares texts by `similar` itself adds its algorithms to the program again.
    ("similar", &["zk-core"]),
    ("anyhow", &["zk-cli", "xtask"]),
    ("hyper", &["zk-exec", "zk-mcp", "zk-serve", "zk-testkit"]),
];

/// Crates that may depend on a sibling: sign-in is below the crates that need a token, and the chat engine
/// below those that draw it or write it down. Stores of sessions share the counts and titles of `zk-session`.
const BELOW: [(&str, &[&str]); 3] = [
    ("zk-auth", &["zk-otel", "zk-providers", "zk-mcp", "zk-stores", "zk-tools"]),
    ("zk-session", &["zk-stores"]),
    ("zk-view", &["zk-transcripts", "zk-tui"]),
];

/// Crates that `zk-chat` may depend on.
const IN_CHAT: [&str; 11] = [
    "zk-agent",
    "zk-compaction",
    "zk-core",
    "zk-exec",
    "zk-permission",
    "zk-settings",
    "zk-skills",
    "zk-tools",
    "zk-transcripts",
    "zk-tui",
    "zk-view",
];

/// Crates that `zk-serve` may depend on.
const IN_SERVE: [&str; 10] = [
    "zk-agent",
    "zk-chat",
    "zk-core",
    "zk-engine",
    "zk-hooks",
    "zk-permission",
    "zk-session",
    "zk-stores",
    "zk-transcripts",
    "zk-view",
];

/// Crates that `zk-shell` may depend on: a front-end on the conversation and on the terminal of the shell.
const IN_SHELL: [&str; 6] = ["zk-agent", "zk-chat", "zk-core", "zk-exec", "zk-tui", "zk-view"];

/// Crates that `zk-args` may depend on: the types of the values that a command line has.
const IN_ARGS: [&str; 7] =
    ["zk-auth", "zk-core", "zk-extensions", "zk-memory", "zk-permission", "zk-providers", "zk-settings"];

/// Crates that `zk-engine` may depend on: its legs drive the loop, and its runs have sessions.
const IN_ENGINE: [&str; 3] = ["zk-agent", "zk-core", "zk-session"];

/// Crates that `zk-fleet` may depend on: engines share the loop of `zk-engine` and the addresses of `zk-stores`, and its program
/// is `zk-cli` with engines.
const IN_FLEET: [&str; 4] = ["zk-cli", "zk-core", "zk-engine", "zk-stores"];

/// Crates that `zk-replay` may depend on: it drives the loop, and records what it drives.
const IN_REPLAY: [&str; 3] = ["zk-agent", "zk-core", "zk-session"];

/// Checks that dependencies point downwards only: `zk-core` depends on `zk-kernel`, and other crates on
/// `zk-core` and no sibling except those in [`BELOW`]; `zk-chat` may use those in [`IN_CHAT`], `zk-serve`
/// those in [`IN_SERVE`], `zk-shell` those in [`IN_SHELL`], `zk-engine` those in [`IN_ENGINE`], `zk-fleet` those in [`IN_FLEET`], `zk-replay` those in [`IN_REPLAY`], `zk-args` those in [`IN_ARGS`]. `zk-cli` may use all crates except the facade `zk`, and `zk` all except `zk-cli`; no other crate uses these two, and none uses `zk-fleet`. Tests may use
/// any other crate, but those of the kernel, core and `xtask` use none.
pub(super) fn check(packages: &[Package], findings: &mut Findings) {
    for package in packages {
        let name = package.folder();
        let place = format!("{}/Cargo.toml", package.dir);
        for (dependency, kind) in dependencies(package) {
            if dependency == name {
                continue;
            }
            if matches!(dependency.as_str(), "xtask" | "zk") || dependency.starts_with("zk-") {
                let allowed = match kind {
                    Kind::Normal => match name {
                        _ if matches!(dependency.as_str(), "zk" | "zk-fleet") => false,
                        "zk-cli" => true,
                        "zk" => dependency != "zk-cli",
                        "zk-core" => dependency == "zk-kernel",
                        "zk-args" => IN_ARGS.contains(&dependency.as_str()),
                        "zk-chat" => IN_CHAT.contains(&dependency.as_str()),
                        "zk-engine" => IN_ENGINE.contains(&dependency.as_str()),
                        "zk-fleet" => IN_FLEET.contains(&dependency.as_str()),
                        "zk-replay" => IN_REPLAY.contains(&dependency.as_str()),
                        "zk-serve" => IN_SERVE.contains(&dependency.as_str()),
                        "zk-shell" => IN_SHELL.contains(&dependency.as_str()),
                        "zk-kernel" | "xtask" => false,
                        _ => dependency == "zk-core" || is_below(&dependency, name),
                    },
                    Kind::Dev => {
                        !matches!(name, "zk-core" | "zk-kernel" | "xtask")
                            && !matches!(dependency.as_str(), "zk" | "zk-cli")
                    }
                };
                if !allowed {
                    let how = match kind {
                        Kind::Normal => "depend on",
                        Kind::Dev => "use in its tests",
                    };
                    let advice = "meet it in a registry or an event of zk-core";
                    findings.error(&place, format_args!("{name} may not {how} {dependency}: {advice}"));
                }
            }
            let home = HOMES.iter().find(|(outside, _)| *outside == dependency);
            if let (Kind::Normal, Some((outside, homes))) = (kind, home)
                && !homes.contains(&name)
            {
                findings.error(&place, format_args!("{outside} lives only in {}", homes.join(", ")));
            }
        }
    }
}

fn is_below(dependency: &str, name: &str) -> bool {
    BELOW.iter().any(|(below, above)| *below == dependency && above.contains(&name))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Dev,
}

/// Dependencies, those for single platforms included: crates of zk by folder, others by package name.
fn dependencies(package: &Package) -> Vec<(String, Kind)> {
    let mut found = Vec::new();
    let mut tables = vec![&package.manifest];
    let targets = package.manifest.get("target").and_then(Value::as_table);
    tables.extend(targets.into_iter().flat_map(|all| all.values()).filter_map(Value::as_table));
    for table in tables {
        for (key, kind) in [
            ("dependencies", Kind::Normal),
            ("build-dependencies", Kind::Normal),
            ("dev-dependencies", Kind::Dev),
        ] {
            for (name, how) in table.get(key).and_then(Value::as_table).into_iter().flatten() {
                let named = how.get("package").and_then(Value::as_str).unwrap_or(name);
                found.push((names::folder(named).unwrap_or_else(|| named.to_owned()), kind));
            }
        }
    }
    found
}
