//! Dependencies: the reason for each, and what it costs.

mod cost;
mod reason;
mod unsafety;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::metadata::{Metadata, Package};
use crate::workspace::Workspace;
use crate::workspace::names::PROGRAM_PACKAGE;
use cost::Costs;

/// Dependencies that are named as those that could go.
const COULD_GO: usize = 10;
/// Longest reason in the table, in characters.
const MAX_REASON_CHARS: usize = 110;

/// Dependency that a crate of the workspace names.
struct Direct<'a> {
    package: &'a Package,
    users: BTreeSet<&'a str>,
    /// Packages that nothing else needs, itself included.
    only: BTreeSet<&'a str>,
}

/// Prints the tables.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let (mut timings, mut binary, mut args) = (None, None, args.iter());
    while let Some(name) = args.next() {
        let value = args.next().with_context(|| format!("{name} wants a file"))?;
        match *name {
            "--timings" => timings = Some(PathBuf::from(value)),
            "--binary" => binary = Some(PathBuf::from(value)),
            other => bail!("deps: unknown argument `{other}`; see `cargo xtask help`"),
        }
    }
    let root = workspace.root();
    let host = super::dist::host(root)?;
    let metadata = Metadata::read(root, Some(&host))?;
    let packages = metadata.tree(root, PROGRAM_PACKAGE, Some(&host))?;
    let costs = Costs::read(root, timings.as_deref(), binary.as_deref())?;
    let unsafety = unsafety::counts(&packages)?;
    let mut directs = directs(&metadata, &packages)?;
    let by_id = metadata.by_id();

    println!("| dependency | reason | used by | crates for it alone | build, s | code, kB | `unsafe` |");
    println!("|---|---|---|---|---|---|---|");
    for direct in &directs {
        let name = &direct.package.name;
        let users: Vec<&str> = direct.users.iter().copied().collect();
        let reason = shortened(&reason::of(workspace, direct.package, &users)?);
        let of = |id: &&str| by_id.get(id).copied();
        let only: Vec<&Package> = direct.only.iter().filter_map(of).collect();
        // Shared by others, it costs by itself, and nothing less would be built without it.
        let counted = if only.is_empty() { vec![direct.package] } else { only.clone() };
        println!(
            "| {name} {} | {reason} | {} | {} | {} | {} | {} |",
            direct.package.version,
            users.join(", "),
            only.len(),
            or_dash(costs.seconds(&counted).map(|seconds| format!("{seconds:.1}"))),
            or_dash(costs.bytes(&counted).map(|bytes| bytes.div_ceil(1024).to_string())),
            unsafety.get(direct.package.id.as_str()).unwrap_or(&0),
        );
    }

    let weight = |direct: &Direct<'_>| {
        let only: Vec<&Package> = direct.only.iter().filter_map(|id| by_id.get(id).copied()).collect();
        // Tenths of a second, so that they can be compared.
        let seconds = costs.seconds(&only).map(|seconds| format!("{:09.1}", seconds));
        (seconds, only.len())
    };
    directs.sort_by_key(|direct| std::cmp::Reverse(weight(direct)));
    let by = if timings.is_some() { "time to build" } else { "number of crates" };
    println!("\nThe {COULD_GO} whose absence would save most, by {by} of what is there for them alone:\n");
    for (index, direct) in directs.iter().take(COULD_GO).enumerate() {
        let names: Vec<&str> =
            direct.only.iter().filter_map(|id| Some(by_id.get(id)?.name.as_str())).collect();
        println!(
            "{}. {}: {} crates ({})",
            index + 1,
            direct.package.name,
            names.len(),
            shortened(&names.join(", "))
        );
    }

    let total: usize = unsafety.values().sum();
    let mut counts: Vec<(&str, usize)> = unsafety.into_iter().filter(|(_, count)| *count > 0).collect();
    counts.sort_by_key(|(id, count)| (std::cmp::Reverse(*count), *id));
    println!(
        "\n`unsafe` stands {total} times in {} of {} packages, those of zk among them:\n",
        counts.len(),
        packages.len()
    );
    for (id, count) in counts {
        if let Some(package) = by_id.get(id) {
            println!("{count:>6}  {} {}", package.name, package.version);
        }
    }
    Ok(())
}

/// Dependencies that crates of the workspace name, with what is there for each alone.
fn directs<'a>(metadata: &'a Metadata, packages: &[&'a Package]) -> Result<Vec<Direct<'a>>> {
    let built: BTreeSet<&str> = packages.iter().map(|package| package.id.as_str()).collect();
    let mut edges = metadata.edges();
    for needed in edges.values_mut() {
        needed.retain(|id| built.contains(id));
    }
    let members: BTreeSet<&str> = packages
        .iter()
        .filter(|package| metadata.is_member(package))
        .map(|package| package.id.as_str())
        .collect();
    let start = packages
        .iter()
        .find(|package| package.name == PROGRAM_PACKAGE)
        .with_context(|| format!("there is no {PROGRAM_PACKAGE}"))?;
    let start = start.id.as_str();
    let all = reached(start, &edges, |_, _| true);
    let mut directs = Vec::new();
    for package in packages.iter().filter(|package| !members.contains(package.id.as_str())) {
        let id = package.id.as_str();
        let users: BTreeSet<&str> = packages
            .iter()
            .filter(|user| members.contains(user.id.as_str()))
            .filter(|user| edges.get(user.id.as_str()).is_some_and(|needed| needed.contains(id)))
            .map(|user| user.name.as_str())
            .collect();
        if users.is_empty() {
            continue;
        }
        let without = reached(start, &edges, |from, to| !(to == id && members.contains(from)));
        directs.push(Direct { package, users, only: all.difference(&without).copied().collect() });
    }
    Ok(directs)
}

/// Ids that are reached over the edges which count.
fn reached<'a>(
    start: &'a str,
    edges: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    counts: impl Fn(&str, &str) -> bool,
) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::from([start]), vec![start]);
    while let Some(from) = open.pop() {
        for to in edges.get(from).into_iter().flatten() {
            if counts(from, to) && seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_REASON_CHARS {
        return text.replace('|', "/");
    }
    let kept: String = text.chars().take(MAX_REASON_CHARS - 1).collect();
    format!("{}…", kept.replace('|', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_stand_behind_one_dependency_are_found() {
        let edges = BTreeMap::from([
            ("zk", BTreeSet::from(["a", "b"])),
            ("a", BTreeSet::from(["c", "d"])),
            ("b", BTreeSet::from(["d"])),
        ]);
        let all = reached("zk", &edges, |_, _| true);
        let without = reached("zk", &edges, |from, to| (from, to) != ("zk", "a"));
        assert_eq!(all.difference(&without).copied().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(shortened(&"x|".repeat(60)).chars().count(), MAX_REASON_CHARS);
    }
}
