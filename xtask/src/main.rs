//! Checks, generated docs and scaffolding: `cargo xtask help`.
//!
//! The program depends on no crate of zk: it reads the code as text, or runs a program of the workspace that
//! prints the needed data.

#![expect(clippy::print_stdout, reason = "what it finds is for the person who runs it")]

mod ci;
mod conformance;
mod docs;
mod fuzz;
mod guides;
mod house;
mod models;
mod picture;
mod release;
mod run;
mod scaffold;
mod site;
mod tidy;
mod vendor_guide;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use workspace::Workspace;

const HELP: &str = "\
cargo xtask <task>

  ci [--long]                   everything the CI runs, in its order; with --long also what takes a browser, a
                                network or a build of its own: advisories, two builds, each crate from its package
  tidy                          the rules no compiler checks: arrows between crates, sizes, words, links
  house                         the shape of the crates: lines, circles of imports, folders, structs
  docs [--check]                write docs/reference from the code, or fail if it is stale
  picture [MOMENT…|all]         draw the demo on a terminal into docs/demo.svg, or moments into docs/pictures; needs tmux
  order                         write the list of functions that usual runs call, by which a release build is laid out in
                                memory; needs valgrind and tmux
  conformance                   the conformance suite of MCP, if npm can install it
  browser                       the page of `zk web` in a headless Chromium, if there is one
  editor                        scenarios of an editor that drives `zk acp`, if npm can install its client
  fuzz [--seconds N]            every fuzz target for N seconds, 5 by default; needs nightly and cargo-fuzz
  models [--check] [--from FILE]  write the table of models from a catalogue, or fail if it is stale
  campaign [--rounds N]         long proofs of sessions and undo: N kills and interleavings of each, 10,000 by default, and
                                a fault at every call to the disk; faults need strace
  judge-table                   the flag tables of the judge against the programs of this machine, with their versions
  site                          the pages of docs/ as a site in target/site/html, with its links checked; installs mdBook
  guides                        follows the guides for plugins, embedders, dialects and vendors; says what each takes
  vendor-guide                  follows the guide for vendors in a copy of the checkout
  dist [--target T] [--binary FILE] [--pages-of FILE] [--out DIR] [--base URL]
                                packages of the program: archive, deb, rpm, npm, wheel, image, formula, install script
  release VERSION [--dry-run]   versions, changes, docs, CI, one commit and its tag; goes on where it was broken off
  release --undo [VERSION]      takes a release back that nobody else has
  release --check [--program FILE]  manifests of the crates, manual pages, completions in real shells
  publish [--dry-run] [--registry NAME] [--only CRATE]  crates to a registry, each tested from its package
  twice [--profile NAME] [--package NAME]  two builds of the last commit, in two folders and on two days: one digest
  deps [--timings FILE] [--binary FILE]  every dependency with its reason and its cost, and `unsafe` in all of them
  new-plugin NAME [--into DIR]    a plugin crate that compiles, with a test and an example
  new-provider NAME [--into DIR]  the same for a model provider
  new-dialect NAME [--into DIR]   the same for one with a protocol of its own over HTTP

Without --into the crate is made in crates/; with it, in DIR/zk-NAME, as a package of its own.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match task(&args.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn task(args: &[&str]) -> Result<()> {
    let workspace = Workspace::here()?;
    match args {
        ["ci"] => ci::run(&workspace),
        ["ci", "--long"] => ci::run(&workspace).and_then(|()| ci::run_long(&workspace)),
        ["tidy"] => tidy::run(&workspace),
        ["house"] => house::print(&workspace),
        ["docs"] => docs::write(&workspace),
        ["docs", "--check"] => docs::check(&workspace),
        ["picture", moments @ ..] => picture::draw(&workspace, moments),
        ["order"] => release::order::write(&workspace),
        ["campaign"] => ci::campaign::run(&workspace, ci::campaign::ROUNDS),
        ["campaign", "--rounds", rounds] => {
            ci::campaign::run(&workspace, rounds.parse().context("--rounds")?)
        }
        ["judge-table"] => ci::judge_table(&workspace),
        ["guides"] => guides::follow(&workspace),
        ["vendor-guide"] => vendor_guide::follow(&workspace),
        ["conformance"] => match conformance::install(&workspace) {
            Ok(suite) => suite.run(&workspace),
            Err(why) => bail!("{why}"),
        },
        ["editor"] => match conformance::install_editor(&workspace) {
            Ok(suite) => suite.run_editor(&workspace),
            Err(why) => bail!("{why}"),
        },
        ["browser"] => match conformance::install_browser(&workspace) {
            Ok(suite) => suite.run_browser(&workspace),
            Err(why) => bail!("{why}"),
        },
        ["site"] => site::run(&workspace, true),
        ["deps", rest @ ..] => release::deps::run(&workspace, rest),
        ["dist", rest @ ..] => release::dist::run(&workspace, rest),
        ["release", "--check"] => release::check::run(&workspace, None),
        ["release", "--check", "--program", program] => {
            release::check::run(&workspace, Some(Path::new(program)))
        }
        ["release", "--undo"] => release::cut::undo(&workspace, None),
        ["release", "--undo", version] => release::cut::undo(&workspace, Some(version)),
        ["release", version, "--dry-run"] | ["release", "--dry-run", version] => {
            release::cut::run(&workspace, version, true)
        }
        ["release", version] => release::cut::run(&workspace, version, false),
        ["publish", rest @ ..] => release::publish::run(&workspace, rest),
        ["twice", rest @ ..] => release::twice::run(&workspace, rest),
        ["fuzz"] => fuzz::run(&workspace, fuzz::SECONDS),
        ["fuzz", "--seconds", seconds] => fuzz::run(&workspace, seconds.parse().context("--seconds")?),
        ["models"] => models::write(&workspace, None),
        ["models", "--from", file] => models::write(&workspace, Some(Path::new(file))),
        ["models", "--check"] => models::check(&workspace, None),
        ["models", "--check", "--from", file] => models::check(&workspace, Some(Path::new(file))),
        [task, name] if scaffold::Kind::of(task).is_some() => make(&workspace, task, name, None),
        [task, name, "--into", dir] if scaffold::Kind::of(task).is_some() => {
            make(&workspace, task, name, Some(PathBuf::from(dir)))
        }
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("no such task: `{}`\n\n{HELP}", other.join(" ")),
    }
}

fn make(workspace: &Workspace, task: &str, name: &str, into: Option<PathBuf>) -> Result<()> {
    let kind = scaffold::Kind::of(task).with_context(|| format!("no such task: `{task}`"))?;
    scaffold::new(workspace, kind, name, into)
}
