pub(crate) mod campaign;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::run::{Run, exists, programs};
use crate::scaffold::{self, Kind};
use crate::workspace::{Package, Workspace, names};
use crate::{conformance, docs, fuzz, guides, release, site, tidy, vendor_guide};

/// Time limit of an example.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// Whether a crate has default features; it must compile without them, too, and without warnings.
fn has_defaults(package: &Package) -> bool {
    let features = package.manifest.get("features").and_then(|features| features.get("default"));
    features.and_then(|default| default.as_array()).is_some_and(|default| !default.is_empty())
}

/// Compares the judge's flag tables with the installed programs, and prints the programs' versions.
pub(crate) fn judge_table(workspace: &Workspace) -> Result<()> {
    let args = [
        "test",
        "--package",
        &names::package("zk-permission"),
        "--lib",
        "--locked",
        "--",
        "--nocapture",
        "--test-threads=1",
        "program::checked::",
    ];
    Run::cargo(&args, workspace.root()).env("ZK_JUDGE_FLAGS", "20000").wait()
}

/// Runs what takes programs that no machine has by itself, such as a browser, or a build of its own.
pub(crate) fn run_long(workspace: &Workspace) -> Result<()> {
    match conformance::install_browser(workspace) {
        Ok(suite) => {
            println!("\n==> the page in a browser");
            suite.run_browser(workspace)?;
        }
        Err(why) => println!("\n==> the page in a browser: skipped, {why}"),
    }
    println!("\n==> inline tools with a real model");
    real_model(workspace)?;
    println!("\n==> sessions and runs in PostgreSQL");
    for folder in ["zk-stores", "zk-fleet"] {
        let package = names::package(folder);
        let test = ["test", "--package", &package, "--features", "postgres", "--test", "it", "--locked"];
        // Says that it is skipped where PostgreSQL is not installed.
        let args = [&test[..], &["postgres", "--", "--nocapture"]].concat();
        Run::cargo(&args, workspace.root()).wait()?;
    }
    println!("\n==> runs on a Temporal server");
    temporal(workspace)?;
    println!("\n==> advisories");
    advisories(workspace)?;
    println!("\n==> documentation with all features");
    release::platforms::documentation(workspace)?;
    println!("\n==> a static program");
    release::platforms::musl(workspace)?;
    println!("\n==> macOS");
    release::platforms::macos(workspace)?;
    println!("\n==> two builds of one commit");
    release::twice::run(workspace, &["--profile", "quick"])?;
    println!("\n==> guides for strangers");
    guides::follow(workspace)?;
    println!("\n==> the site of the documentation");
    site::run(workspace, true)?;
    println!("\n==> tests of each crate from its packaged sources");
    release::check::run_long(workspace)
}

/// Runs a small model on a real `llama-server`, if `ZK_LLAMA_SERVER` and `ZK_LLAMA_MODEL` name both; the tests print
/// a line otherwise.
fn real_model(workspace: &Workspace) -> Result<()> {
    let package = names::package("zk-protocols");
    let args =
        ["test", "--package", &package, "--test", "it", "--locked", "real_server", "--", "--nocapture"];
    Run::cargo(&args, workspace.root()).wait()
}

/// Builds the engine on Temporal, whose SDK is too large for every build, and runs its tests, which print a line where there is
/// no program `temporal`.
fn temporal(workspace: &Workspace) -> Result<()> {
    let package = ["--package", &names::package("zk-fleet"), "--locked", "--features"];
    // With the program, which the tests do without.
    let lints = ["temporal,worker", "--all-targets", "--", "-D", "warnings"];
    let clippy = [&["clippy"], &package[..], &lints].concat();
    Run::cargo(&clippy, workspace.root()).wait()?;
    let tests = [&["test"], &package[..], &["temporal", "temporal", "--", "--nocapture"]].concat();
    Run::cargo(&tests, workspace.root()).wait()
}

/// Compares the lock file with the advisories of RustSec, if they can be had.
fn advisories(workspace: &Workspace) -> Result<()> {
    if !exists("cargo-deny") {
        println!("skipped, cargo-deny is not installed");
        return Ok(());
    }
    let deny =
        |args: &[&str]| Run::cargo(&[&["deny", "--log-level", "warn"], args].concat(), workspace.root());
    match deny(&["fetch", "db"]).tried()? {
        Ok(()) => deny(&["--offline", "check", "advisories"]).wait(),
        Err(said) => {
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            println!("skipped, the advisories cannot be had: {last}");
            Ok(())
        }
    }
}

/// Runs all steps of the continuous integration, and stops at the first failure.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let begun = Instant::now();
    let root = workspace.root();
    let mut steps = 0;
    let mut step = |title: &str, work: &mut dyn FnMut() -> Result<()>| {
        steps += 1;
        println!("\n==> {title}");
        let begun = Instant::now();
        work().with_context(|| format!("step `{title}`"))?;
        println!("<== {title}: done in {:.1} s", begun.elapsed().as_secs_f64());
        anyhow::Ok(())
    };
    let cargo = |args: &[&str]| Run::cargo(args, root);

    step("format", &mut || cargo(&["fmt", "--all", "--check"]).wait())?;
    step("tidy", &mut || tidy::run(workspace))?;
    step("clippy", &mut || {
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]).wait()
    })?;
    step("features", &mut || {
        workspace.packages()?.iter().try_for_each(|package| {
            // Checked alone, so that features enabled by other crates of the workspace do not count; always by Clippy,
            // so that what two crates have in common is checked once.
            let alone = |features: &[&str]| {
                let check = ["clippy", "--package", package.name.as_str(), "--locked"];
                cargo(&[&check[..], features, &["--", "-D", "warnings"]].concat()).wait()
            };
            alone(&[])?;
            if has_defaults(package) { alone(&["--no-default-features"]) } else { Ok(()) }
        })
    })?;
    step("engines beyond one machine", &mut || {
        let fleet = names::package("zk-fleet");
        let lint = ["clippy", "--package", &fleet, "--features", "postgres", "--all-targets", "--locked"];
        cargo(&[&lint[..], &["--", "-D", "warnings"]].concat()).wait()?;
        cargo(&["check", "--package", &fleet, "--features", "postgres,worker", "--bins", "--locked"]).wait()
    })?;
    step("packages", &mut || package(workspace))?;
    step("tests", &mut || cargo(&["test", "--workspace", "--locked"]).wait())?;
    step("flag tables of the judge", &mut || judge_table(workspace))?;
    step("generated docs", &mut || docs::check(workspace))?;
    step("examples", &mut || examples(workspace))?;
    step("what a release needs", &mut || release::check::run(workspace, None))?;
    step("packages of examples/", &mut || example_packages(workspace))?;
    match conformance::install(workspace) {
        Ok(suite) => step("conformance of MCP", &mut || suite.run(workspace))?,
        Err(why) => println!("\n==> conformance of MCP: skipped, {why}"),
    }
    match conformance::install_editor(workspace) {
        Ok(suite) => step("scenarios of an editor", &mut || suite.run_editor(workspace))?,
        Err(why) => println!("\n==> scenarios of an editor: skipped, {why}"),
    }
    match conformance::install_client(workspace) {
        Ok(dir) => step("client for TypeScript", &mut || conformance::run_client(workspace, &dir))?,
        Err(why) => println!("\n==> client for TypeScript: skipped, {why}"),
    }
    step("documentation", &mut || {
        cargo(&["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings").wait()
    })?;
    match site::missing(workspace) {
        None => step("site", &mut || site::run(workspace, false))?,
        Some(why) => println!("\n==> site: skipped, {why}"),
    }
    step("scaffolds", &mut || scaffolds(workspace))?;
    step("guide for vendors", &mut || vendor_guide::follow(workspace))?;
    match fuzz::missing(workspace) {
        None => step("fuzz targets", &mut || fuzz::run(workspace, fuzz::SECONDS))?,
        Some(why) => println!("\n==> fuzz targets: skipped, {why}"),
    }
    if exists("cargo-deny") {
        step("licences and bans", &mut || {
            cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"]).wait()
        })?;
    } else {
        println!("\n==> licences and bans: skipped, cargo-deny is not installed");
    }
    println!("\nci: {steps} steps passed in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Packages every publishable crate. Fails for a dependency cycle with versions, even one through tests.
fn package(workspace: &Workspace) -> Result<()> {
    let mut args =
        vec!["package", "--workspace", "--no-verify", "--allow-dirty", "--offline", "--locked", "--quiet"];
    let (ours, examples) = (workspace.packages()?, workspace.example_packages()?);
    for package in ours.iter().chain(&examples).filter(|package| !package.is_published()) {
        args.extend(["--exclude", package.name.as_str()]);
    }
    Run::cargo(&args, workspace.root()).wait()
}

fn examples(workspace: &Workspace) -> Result<()> {
    let mut count = 0;
    let programs = programs(workspace.root())?.join("examples");
    for package in workspace.packages()? {
        for example in workspace.examples(&package)? {
            println!("--- {example} of {}", package.name);
            let program = programs.join(&example);
            let run = Run::new(&program.to_string_lossy(), &[], workspace.root());
            // The output of a dump is thousands of lines, which the docs step has compared.
            let run = if example.starts_with("dump_") { run.quiet() } else { run };
            run.wait_at_most(EXAMPLE_LIMIT)?;
            count += 1;
        }
    }
    println!("{count} examples ran");
    Ok(())
}

/// Runs the packages below `examples/`, which use zk from outside. They share the workspace's lock file and
/// target folder, so that one command builds them all; each runs with the arguments in its
/// `package.metadata.example.run`.
fn example_packages(workspace: &Workspace) -> Result<()> {
    let packages = workspace.example_packages()?;
    let programs = programs(workspace.root())?;
    for package in &packages {
        let args = package.example_args();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        println!("--- {} {}", package.name, args.join(" "));
        // `cargo run` would build it again, with only its own features, within the time limit of the run.
        let program = programs.join(&package.name);
        Run::new(&program.to_string_lossy(), &args, workspace.root()).wait_at_most(EXAMPLE_LIMIT)?;
    }
    println!("{} packages ran", packages.len());
    Ok(())
}

/// Checks that the scaffolds generate code that compiles and passes its own test.
fn scaffolds(workspace: &Workspace) -> Result<()> {
    let dir = workspace.root().join("target").join("scaffold");
    for (kind, name) in [(Kind::Plugin, "made-plugin"), (Kind::Provider, "made-provider")] {
        let made = dir.join(format!("zk-{name}"));
        if made.exists() {
            fs::remove_dir_all(&made)?;
        }
        scaffold::new(workspace, kind, name, Some(dir.clone()))?;
        let target = dir.join("target");
        for args in [&["fmt", "--check"][..], &["test"], &["run", "--quiet", "--example", "alone"]] {
            Run::cargo(args, &made).env("CARGO_TARGET_DIR", &target.to_string_lossy()).wait()?;
        }
    }
    Ok(())
}
