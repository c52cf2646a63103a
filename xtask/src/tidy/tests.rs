use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Findings, check};
use crate::workspace::{Workspace, names};

const MANIFEST: &str = "\
[package]
name = \"PACKAGE\"
description = \"A crate.\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
repository.workspace = true
authors.workspace = true

[lib]
name = \"LIBRARY\"

[lints]
workspace = true
";

/// Manifest of the crate in a folder.
fn manifest_of(folder: &str) -> String {
    MANIFEST.replace("PACKAGE", &names::package(folder)).replace("LIBRARY", &names::library(folder))
}

/// A workspace in which nothing is wrong.
fn clean() -> TempDir {
    let dir = TempDir::new().unwrap();
    for name in ["zk-core", "zk-tools"] {
        let root = format!("crates/{name}");
        put(&dir, &format!("{root}/Cargo.toml"), &manifest_of(name));
        put(&dir, &format!("{root}/src/lib.rs"), "//! A crate.\n\npub mod a;\n");
        put(&dir, &format!("{root}/examples/alone.rs"), "//! Alone.\n\nfn main() {}\n");
    }
    for name in ["zk-core", "zk-tools"] {
        put(&dir, &format!("crates/{name}/src/a.rs"), "");
    }
    put(&dir, "examples/README.md", "# Examples\n");
    put(&dir, "README.md", "# zk\n");
    put(&dir, "Cargo.toml", "[workspace.package]\nrust-version = \"1.95\"\n");
    put(&dir, "rust-toolchain.toml", "[toolchain]\nchannel = \"1.95.0\"\n");
    put(&dir, "docs/stability.md", "Rust 1.95, as manifests say.\n");
    dir
}

fn put(dir: &TempDir, path: &str, text: &str) {
    let path = dir.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn append(dir: &TempDir, path: &str, text: &str) {
    let old = fs::read_to_string(dir.path().join(path)).unwrap();
    put(dir, path, &(old + text));
}

fn found(dir: &Path) -> Findings {
    check(&Workspace::at(dir)).unwrap()
}

fn errors(dir: &TempDir) -> Vec<String> {
    found(dir.path()).errors
}

#[track_caller]
fn assert_only(dir: &TempDir, expected: &str) {
    let errors = errors(dir);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains(expected), "{errors:?}");
}

#[test]
fn the_oldest_compiler_is_the_same_for_cargo_and_for_readers() {
    let dir = clean();
    put(&dir, "Cargo.toml", "[workspace.package]\nrust-version = \"1.96\"\n");
    put(&dir, "docs/stability.md", "Rust 1.96, as manifests say.\n");
    assert_only(&dir, "the compiler is older");
    put(&dir, "rust-toolchain.toml", "[toolchain]\nchannel = \"1.100.0\"\n");
    assert_eq!(errors(&dir), [] as [String; 0]);
    put(&dir, "docs/stability.md", "Rust 1.95, as manifests say.\n");
    assert_only(&dir, "does not say that the crates compile with Rust 1.96");
    put(&dir, "docs/stability.md", "Rust 1.96, as manifests say.\n");
    put(&dir, "Cargo.toml", "[workspace.package]\n");
    assert_only(&dir, "names no `rust-version`");
}

#[test]
fn a_clean_workspace_has_nothing_to_say() {
    let dir = clean();
    assert_eq!(errors(&dir), [] as [String; 0]);
}

#[test]
fn siblings_do_not_know_each_other() {
    let dir = clean();
    let manifest = "crates/zk-tools/Cargo.toml";
    append(&dir, manifest, "[dependencies]\nzk-core.workspace = true\nzk-exec.workspace = true\n");
    append(
        &dir,
        manifest,
        "[dev-dependencies]\nzk-testkit = { package = \"zk-harness-testkit\", path = \"../zk-testkit\" }\n",
    );
    assert_only(&dir, "crates/zk-tools/Cargo.toml: zk-tools may not depend on zk-exec");
}

#[test]
fn who_may_know_a_sibling() {
    for (name, sibling, is_allowed) in [
        ("zk-core", "zk-kernel", true),
        ("zk-kernel", "zk-core", false),
        ("zk-core", "zk-auth", false),
        ("zk-providers", "zk-auth", true),
        ("zk-mcp", "zk-auth", true),
        ("zk-tools", "zk-auth", true),
        ("zk-skills", "zk-auth", false),
        ("zk-tui", "zk-view", true),
        ("zk-agent", "zk-view", false),
        ("zk-view", "zk-tui", false),
        ("zk-agent", "zk-compaction", false),
        ("zk-compaction", "zk-agent", false),
        ("zk-tools", "zk-permission", false),
        ("zk-mcp", "zk-exec", false),
        ("zk-skills", "zk-mcp", false),
        ("zk-tui", "zk-testkit", false),
        ("zk-agent", "zk-cli", false),
        ("zk-chat", "zk-tui", true),
        ("zk-chat", "zk-mcp", false),
        ("zk-chat", "zk-cli", false),
        ("zk-tui", "zk-chat", false),
        ("zk-serve", "zk-chat", true),
        ("zk-serve", "zk-mcp", false),
        ("zk-chat", "zk-serve", false),
        ("zk-cli", "zk-chat", true),
        ("zk-cli", "zk-tui", true),
        ("zk-cli", "zk", false),
        ("zk-agent", "zk", false),
        ("zk", "zk-agent", true),
        ("zk", "zk-cli", false),
        ("zk-fleet", "zk-cli", true),
        ("zk-fleet", "zk-engine", true),
        ("zk-fleet", "zk-stores", true),
        ("zk-cli", "zk-fleet", false),
        ("zk", "zk-fleet", false),
    ] {
        let dir = clean();
        let manifest = manifest_of(name);
        let manifest = format!("{manifest}[dependencies]\n{sibling}.workspace = true\n");
        put(&dir, &format!("crates/{name}/Cargo.toml"), &manifest);
        put(&dir, &format!("crates/{name}/src/lib.rs"), "//! Nothing yet.\n");
        let refused = format!("{name} may not depend on {sibling}");
        let is_refused = errors(&dir).iter().any(|error| error.contains(&refused));
        assert_eq!(is_refused, !is_allowed, "{name} and {sibling}: {:?}", errors(&dir));
    }
}

#[test]
fn the_core_knows_nobody_not_even_in_its_tests() {
    let dir = clean();
    append(
        &dir,
        "crates/zk-core/Cargo.toml",
        "[dev-dependencies]\nzk-testkit = { package = \"zk-harness-testkit\", path = \"../zk-testkit\" }\n",
    );
    assert_only(&dir, "zk-core may not use in its tests zk-testkit");
}

#[test]
fn an_outside_crate_stays_in_its_home_under_any_name_and_for_any_platform() {
    let dir = clean();
    let manifest = "crates/zk-tools/Cargo.toml";
    append(
        &dir,
        manifest,
        "[target.'cfg(unix)'.dependencies]\nhttp = { workspace = true, package = \"rmcp\" }\n",
    );
    append(&dir, manifest, "[dev-dependencies]\nrusqlite.workspace = true\n");
    assert_only(&dir, "rmcp lives only in zk-mcp");
}

#[test]
fn a_manifest_inherits_what_the_workspace_says() {
    let dir = clean();
    let manifest = manifest_of("zk-tools");
    let manifest = manifest.replace("[lints]\nworkspace = true\n", "").replace("A crate.", "");
    let manifest = manifest.replace("edition.workspace = true", "edition = \"2021\"");
    put(&dir, "crates/zk-tools/Cargo.toml", &(manifest + "[dependencies]\nserde = \"1\"\n"));
    let errors = errors(&dir).join("\n");
    for expected in
        ["no description", "`edition.workspace", "`[lints] workspace", "`serde` does not come from"]
    {
        assert!(errors.contains(expected), "{expected} is not in {errors}");
    }
}

#[test]
fn a_crate_of_the_workspace_that_tests_use_has_no_version() {
    let dir = clean();
    append(&dir, "crates/zk-tools/Cargo.toml", "[dev-dependencies]\nzk-testkit.workspace = true\n");
    assert_only(&dir, "`zk-testkit` serves tests: name it by its `path` alone, without a version");
}

#[test]
fn a_library_has_a_short_example_and_a_crate_doc() {
    let dir = clean();
    put(&dir, "crates/zk-tools/examples/alone.rs", &"fn main() {}\n".repeat(31));
    put(&dir, "crates/zk-tools/src/lib.rs", "pub mod a;\n");
    fs::remove_file(dir.path().join("crates/zk-core/examples/alone.rs")).unwrap();
    let errors = errors(&dir).join("\n");
    for expected in ["the shortest example has 31 lines", "no crate documentation", "zk-core: no example"] {
        assert!(errors.contains(expected), "{expected} is not in {errors}");
    }
}

#[test]
fn a_crate_that_exports_nothing_needs_no_example() {
    let dir = clean();
    put(&dir, "crates/zk-tools/src/lib.rs", "//! Nothing yet.\n\nmod a;\n");
    fs::remove_file(dir.path().join("crates/zk-tools/examples/alone.rs")).unwrap();
    assert_eq!(errors(&dir), [] as [String; 0]);
}

#[test]
fn a_long_file_is_refused_but_for_tests() {
    let dir = clean();
    put(&dir, "crates/zk-tools/src/a/long.rs", &"use a;\n".repeat(501));
    put(
        &dir,
        "crates/zk-tools/src/a/tested.rs",
        &format!("use a;\n#[cfg(test)]\nmod tests {{\n{}}}\n", "x;\n".repeat(900)),
    );
    put(&dir, "crates/zk-tools/tests/all.rs", &"use a;\n".repeat(900));
    put(&dir, "crates/zk-tools/src/a.rs", "mod long;\nmod tested;\n");
    assert_only(&dir, "crates/zk-tools/src/a/long.rs: 501 lines, 500 is the limit");
    put(&dir, "crates/zk-tools/src/a/long.rs", &"use a;\n".repeat(500));
    assert_eq!(errors(&dir), [] as [String; 0]);
}

#[test]
fn words_that_do_not_belong_in_a_checkout_are_found() {
    let bad = [
        ["todo", "!()"].concat(),
        ["#[", "allow(dead_code)]"].concat(),
        ["#[", "ignore]"].concat(),
        ["// TO", "DO: later"].concat(),
        ["/// FIX", "ME"].concat(),
        ["\"/root/.car", "go/x\""].concat(),
        "let a = 1; ".to_owned(),
    ];
    for line in bad {
        let dir = clean();
        put(&dir, "crates/zk-tools/src/a.rs", &format!("//! A.\n{line}\n"));
        assert_only(&dir, "crates/zk-tools/src/a.rs:2: ");
    }
    let dir = clean();
    let other_half = ["#[", "ignore = \"started by another test\"]\n"].concat();
    let looks_for_it = ["fn grep() { find(\"TO", "DO\") }\n"].concat();
    put(&dir, "crates/zk-tools/src/a.rs", &(other_half + &looks_for_it));
    assert_eq!(errors(&dir), [] as [String; 0]);
}

#[test]
fn comments_begin_with_the_noun_that_a_reader_searches_for() {
    for weak in [
        "/// What is kept.",
        "//! How it works.",
        "    // The same again.",
        "/// Its name.",
        "// It.",
        "///Whose?",
    ] {
        let dir = clean();
        put(&dir, "crates/zk-tools/src/a.rs", &format!("//! A.\n\n{weak}\nfn a() {{}}\n"));
        assert_only(&dir, "crates/zk-tools/src/a.rs:3: ");
    }
    let dir = clean();
    let fine = "/// Items, of\n/// What kind ever.\nfn a() {}\n// Whatever.\n// Thatcher.\n/// The samest.\nfn b() {}\n";
    put(&dir, "crates/zk-tools/src/a.rs", fine);
    assert_eq!(errors(&dir), [] as [String; 0]);
}

#[test]
fn a_constant_says_its_subject_and_its_unit() {
    for bare in [
        "const LONGEST: usize = 1;",
        "pub(crate) const MOST: u32 = 1;",
        "pub(in super::super) const SHOWN: u8 = 1;",
        "    static LAST: u8 = 1;",
        "static mut LEAST: u8 = 1;",
    ] {
        let dir = clean();
        put(&dir, "crates/zk-tools/src/a.rs", &format!("fn a() {{}}\n\n{bare}\n"));
        assert_only(&dir, "crates/zk-tools/src/a.rs:3: the constant `");
    }
    let dir = clean();
    let fine = "const MAX_KEY_BYTES: usize = 1;\nconst LONGEST_NAME: usize = 1;\nfn f(most: u8) {}\nconst fn last() {}\n";
    put(&dir, "crates/zk-tools/src/a.rs", fine);
    put(&dir, "crates/zk-tools/benches/a.rs", "const LONGEST: usize = 1;\nfn main() {}\n");
    assert_eq!(errors(&dir), [] as [String; 0]);
}

#[test]
fn programs_are_started_and_files_locked_in_their_places_alone() {
    for (code, expected) in [
        (
            "let run = Command::new(\"git\");",
            "`Command::new` belongs into crates/zk-exec/src/process/spawn.rs",
        ),
        ("std::process::Command::new(x)", "`Command::new` belongs into"),
        ("flock(&file, how)?;", "`flock` belongs into crates/zk-exec/src/state_files.rs"),
        ("rustix::fs::flock(&file, how)?;", "`flock` belongs into"),
        ("use std::fs::{File, TryLockError};", "`TryLockError` belongs into"),
    ] {
        let dir = clean();
        put(&dir, "crates/zk-tools/src/a.rs", &format!("fn a() {{\n    {code}\n}}\n"));
        assert_only(&dir, &format!("crates/zk-tools/src/a.rs:2: {expected}"));
        put(&dir, "crates/zk-tools/src/a.rs", "");
        put(&dir, "crates/zk-tools/tests/a.rs", &format!("fn a() {{\n    {code}\n}}\n"));
        assert_eq!(errors(&dir), [] as [String; 0]);
    }
    let dir = clean();
    let fine = "let command = PromptCommand::new(1);\n// Command::new(x)\nlet end = unflock(1);\n\
        #[cfg(test)]\nmod tests {\n    fn run() { Command::new(\"git\"); }\n}\n";
    put(&dir, "crates/zk-tools/src/a.rs", fine);
    put(&dir, "crates/zk-exec/Cargo.toml", &manifest_of("zk-exec"));
    put(&dir, "crates/zk-exec/src/lib.rs", "//! A crate.\n\nmod process;\n");
    put(&dir, "crates/zk-exec/src/process/mod.rs", "mod spawn;\n");
    put(&dir, "crates/zk-exec/src/process/spawn.rs", "fn f() { Command::new(1); }\n");
    assert_eq!(errors(&dir), [] as [String; 0]);
    put(&dir, "crates/zk-exec/src/process/spawn.rs", "");
    assert_only(&dir, "xtask/src/tidy/places.rs: crates/zk-exec/src/process/spawn.rs has no `Command::new`");
}

#[test]
fn circles_folders_and_structs_have_limits() {
    let dir = clean();
    put(&dir, "crates/zk-tools/src/a.rs", "mod b;\nmod c;\nmod d;\nmod e;\n");
    for (from, to) in [("b", "c"), ("c", "d"), ("d", "e")] {
        put(&dir, &format!("crates/zk-tools/src/a/{from}.rs"), &format!("use super::{to}::A;\n"));
    }
    put(&dir, "crates/zk-tools/src/a/e.rs", "use super::d::A;\n");
    assert_eq!(errors(&dir), [] as [String; 0]);
    put(&dir, "crates/zk-tools/src/a/e.rs", "use super::b::A;\n");
    assert_only(&dir, "zk-tools: 4 files import each other in a circle");
    let dir = clean();
    let modules = (1..=16).map(|number| format!("mod m{number};\n")).collect::<String>();
    put(&dir, "crates/zk-tools/src/a.rs", &modules);
    (1..=16).for_each(|number| put(&dir, &format!("crates/zk-tools/src/a/m{number}.rs"), ""));
    assert_only(&dir, "crates/zk-tools/src/a: 16 modules, 15 is the limit");
    let dir = clean();
    let fields = "u8, ".repeat(21);
    put(&dir, "crates/zk-tools/src/a.rs", &format!("struct A({fields});\n"));
    assert_only(&dir, "crates/zk-tools/src/a.rs: A: 21 fields, 20 is the limit");
    let exceptions = "[circles]\n[folders]\n[structs]\n\"crates/zk-tools/src/a.rs: A\" = 21\n";
    put(&dir, "xtask/house.toml", exceptions);
    assert_eq!(errors(&dir), [] as [String; 0]);
    put(&dir, "crates/zk-tools/src/a.rs", "struct A(u8);\n");
    assert_only(&dir, "xtask/house.toml: crates/zk-tools/src/a.rs: A has 1 fields now, not 21");
}

#[test]
fn links_lead_to_files_and_headings() {
    let dir = clean();
    put(&dir, "docs/a.md", "# One `thing`: two\n\n## Same\n\n## Same\n");
    put(
        &dir,
        "README.md",
        "# zk\n\n[a](docs/a.md) [b](docs/a.md#one-thing-two) [c](#zk) [d](docs/a.md#same-1) [e](https://zk)\n\
         ```\n[no](link)\n```\nand `[no](link)`.\n",
    );
    assert_eq!(errors(&dir), [] as [String; 0]);
    put(&dir, "docs/b.md", "[a](../README.md#nothing)\n");
    assert_only(&dir, "docs/b.md:1: README.md has no heading `#nothing`");
    put(&dir, "docs/b.md", "x\n[a](c.md)\n");
    assert_only(&dir, "docs/b.md:2: `c.md` leads nowhere: no docs/c.md");
    put(&dir, "docs/b.md", "[a](../../c.md)\n");
    assert_only(&dir, "leads out of the checkout");
}

#[test]
fn a_file_that_no_module_and_no_target_names_is_refused() {
    let dir = clean();
    put(&dir, "crates/zk-core/tests/it/main.rs", "mod used;\n#[path = \"../common.rs\"]\nmod common;\n");
    put(&dir, "crates/zk-core/tests/it/used.rs", "mod below;\n");
    put(&dir, "crates/zk-core/tests/it/used/below.rs", "const ALL: &str = \"tests/refused/*.rs\";\n");
    put(&dir, "crates/zk-core/tests/refused/one.rs", "");
    put(&dir, "crates/zk-core/src/bin/tool.rs", "");
    assert_eq!(errors(&dir), [] as [String; 0]);
    for path in ["crates/zk-core/tests/it/left.rs", "crates/zk-tools/src/a/left.rs"] {
        put(&dir, path, "");
        assert_only(&dir, &format!("{path}: no `mod`"));
        fs::remove_file(dir.path().join(path)).unwrap();
    }
    // A module that is only a comment is none.
    put(&dir, "crates/zk-tools/src/lib.rs", "//! A crate.\n\npub mod a;\n// mod b;\n");
    put(&dir, "crates/zk-tools/src/b.rs", "");
    assert_only(&dir, "crates/zk-tools/src/b.rs: no `mod`");
}

#[test]
fn only_the_catalogue_names_a_vendor() {
    let catalogue = "crates/zk-providers/src/catalogue/vendors/table.rs";
    let table =
        "service(\n    \"acme\", \"https://acme.test\");\nserver(\"together\", 1);\nname: \"openai_chat\",\n";
    for (code, is_refused) in [
        ("fn of_acme() {}", true),
        ("struct AcmeClient;", true),
        ("const KEY: &str = \"ACME_API_KEY\";", true),
        ("const NAME: &str = r#\"an \"acme\" one\"#;", true),
        ("const NAME: &str = \"together\";", true),
        ("const URL: &str = \"https://acme.test//v1\";", true),
        ("// Acme wants it so.", false),
        ("fn f<'a>(x: &'a str) -> char { '\"' } // acme", false),
        ("const SAID: &str = \"put together\"; let together = 1;", false),
        ("struct Acmeist; enum Format { OpenAiChat }", false),
        ("#[cfg(test)]\nmod tests {\n    const NAME: &str = \"acme\";\n}", false),
    ] {
        let dir = clean();
        put(&dir, catalogue, table);
        put(&dir, "crates/zk-tools/src/a.rs", &format!("{code}\n"));
        match is_refused {
            true => assert_only(&dir, "code names the vendor"),
            false => assert_eq!(errors(&dir), [] as [String; 0], "{code}"),
        }
    }
}

/// Code in which no line is like another.
fn body(name: &str, value: &str) -> String {
    format!(
        "fn {name}({name}_of: &[u64]) -> Option<u64> {{
    let mut {name}_sum = {value};
    for one in {name}_of {{
        if *one > {value} {{
            {name}_sum += one;
        }}
        while {name}_sum > 7 {{
            {name}_sum -= one * 2;
        }}
        match {name}_sum {{
            3 => return Some({name}_sum),
            _ => {name}_sum = {name}_sum.pow(2),
        }}
    }}
    let rest = {name}_of.iter().rev().max();
    let least = rest.map(|rest| rest.min(&{name}_sum));
    let shown = format!(\"{name}{{least:?}}\");
    println!(\"{{shown}}\");
    if shown.is_empty() {{ None }} else {{ least.copied() }}
}}
"
    )
}

#[test]
fn code_that_stands_twice_is_found_also_with_other_names() {
    for (name, value, expected) in [("a", "1", "a second time, first"), ("other", "250", "with other names")]
    {
        let dir = clean();
        put(&dir, "crates/zk-core/src/a.rs", &body("a", "1"));
        let again = format!("use zk_core::x;\n\n// Its own.\n{}", body(name, value));
        put(&dir, "crates/zk-tools/src/a.rs", &again);
        let errors = errors(&dir);
        let error = errors.iter().find(|error| error.contains(expected)).unwrap();
        assert!(error.starts_with("crates/zk-tools/src/a.rs:4-"), "{error}");
        assert!(error.contains("crates/zk-core/src/a.rs:1;"), "{error}");
    }
}

#[test]
fn tests_and_declarations_may_repeat() {
    let dir = clean();
    put(&dir, "crates/zk-core/tests/it/main.rs", "mod a;\nmod b;\n");
    put(&dir, "crates/zk-core/tests/it/a.rs", &body("a", "1"));
    put(&dir, "crates/zk-core/tests/it/b.rs", &body("a", "1"));
    let fields = |name: &str| -> String {
        let fields: String =
            (0..20).map(|n| format!("    pub {name}_{n}: Vec<u{}>,\n", 8 << (n % 4))).collect();
        format!("pub struct {name} {{\n{fields}}}\n")
    };
    put(&dir, "crates/zk-core/src/a.rs", &(fields("A") + &fields("B")));
    assert_eq!(errors(&dir), [] as [String; 0]);
}
