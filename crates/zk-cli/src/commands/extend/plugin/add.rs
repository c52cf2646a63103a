use std::collections::BTreeMap;
use std::io::IsTerminal;

use zk_bundles::{BundleStore, Difference, Fetched, Source};
use zk_core::service::visible_line;

use super::{fetch, print, secrets, shown, source};
use crate::app::Workplace;
use crate::args::plugin::Consent;
use crate::exit::{Exit, Failure, Outcome};

/// Stores a copy of a bundle after a person approved exactly its bytes.
pub(super) fn add(
    work: &Workplace,
    store: &BundleStore,
    text: &str,
    consent: &Consent,
    set: &[String],
) -> Outcome<Exit> {
    let from = source(work, text)?;
    let fetched = fetch(work, store, &from)?;
    store.check_name(fetched.bundle.name(), &from).map_err(Failure::failed)?;
    let (secret, plain): (Vec<&String>, Vec<&String>) =
        set.iter().partition(|text| is_secret(&fetched, text));
    let options = parse_options(&fetched, &plain)?;
    let mut lines = describe_lines(&fetched, &from)?;
    lines.push("Everything of it is used as it is now, until you update or remove it.".to_owned());
    print(&work.machine, &lines)?;
    if !ask_to_trust(&fetched, consent, "Trust this plugin?")? {
        return print(&work.machine, &["not added".to_owned()]);
    }
    let name = fetched.bundle.name();
    for key in secret {
        secrets::ask_and_store(work, name, key)?;
    }
    store.keep(&fetched, &from, options).map_err(Failure::failed)?;
    print(
        &work.machine,
        &[format!("added {name}; new conversations have it, /reload takes it into open ones")],
    )
}

/// Fetches one bundle or all bundles again, and stores the updates that a person approves.
pub(super) fn update(
    work: &Workplace,
    store: &BundleStore,
    name: Option<&str>,
    consent: &Consent,
) -> Outcome<Exit> {
    let names: Vec<String> = match name {
        Some(name) => vec![name.to_owned()],
        None => store.records().map_err(Failure::failed)?.plugins.into_keys().collect(),
    };
    if names.is_empty() {
        return print(&work.machine, &["there is no plugin yet: `zk plugin add` adds one".to_owned()]);
    }
    let mut exit = Exit::Done;
    for name in &names {
        match update_one(work, store, name, consent) {
            Ok(()) => {}
            Err(failure) if names.len() > 1 => {
                print(&work.machine, &[format!("{name}: {}", failure.message)])?;
                exit = Exit::Failed;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(exit)
}

fn update_one(work: &Workplace, store: &BundleStore, name: &str, consent: &Consent) -> Outcome<()> {
    let kept = super::find_kept(store, name)?;
    let fetched = fetch(work, store, &kept.source)?;
    let told = |text: String| print(&work.machine, &[text]).map(|_| ());
    if fetched.bundle.name() != name {
        let other = fetched.bundle.name();
        return Err(Failure::failed(format!("it is called `{other}` by now; add it under that name")));
    }
    let before = store.tree(name, &kept);
    if fetched.bundle.digest == kept.digest && before.is_ok() {
        return told(format!("{name} is as it was"));
    }
    let mut lines = describe_lines(&fetched, &kept.source)?;
    match before {
        Ok(before) => {
            let difference = Difference::between(&before, &fetched.tree);
            lines.push(format!("{} files of {name} changed:", difference.files));
            lines.extend(difference.lines);
        }
        Err(why) => lines.push(format!("the kept files cannot be compared: {}", visible_line(&why))),
    }
    print(&work.machine, &lines)?;
    if !ask_to_trust(&fetched, consent, &format!("Trust {name} with these changes?"))? {
        return told(format!("{name} stays as it was"));
    }
    store.keep(&fetched, &kept.source, BTreeMap::new()).map_err(Failure::failed)?;
    told(format!("updated {name}"))
}

/// Describes a bundle for a person who decides about it.
fn describe_lines(fetched: &Fetched, from: &Source) -> Outcome<Vec<String>> {
    let shown = shown::describe(fetched).map_err(|why| {
        Failure::failed(format!("the plugin from {from} cannot be used: {}", visible_line(&why)))
    })?;
    let mut lines = shown.lines;
    lines.extend(shown.faults.iter().map(|fault| format!("note: {}", visible_line(fault))));
    let commit = fetched.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
    lines.push(format!("from {from}{commit}"));
    lines.push(format!("SHA-256 of all its files: {}", fetched.bundle.digest));
    Ok(lines)
}

/// Asks a person to approve exactly these bytes.
fn ask_to_trust(fetched: &Fetched, consent: &Consent, question: &str) -> Outcome<bool> {
    let digest = &fetched.bundle.digest;
    match &consent.digest {
        Some(given) if given.eq_ignore_ascii_case(digest) => return Ok(true),
        Some(given) => {
            let given = visible_line(given);
            return Err(Failure::failed(format!("its SHA-256 is {digest}, not {given}: nothing was added")));
        }
        None if consent.yes => return Ok(true),
        None => {}
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let text = "nobody can be asked here: read what it brings, then run it again with --digest";
        return Err(Failure::usage(format!("{text} {digest}, or with --yes")));
    }
    zk_tui::term::print_stderr(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Whether a text is the name of a secret option.
fn is_secret(fetched: &Fetched, text: &str) -> bool {
    fetched.bundle.manifest.options.get(text).is_some_and(|option| option.is_sensitive)
}

/// Parses options of the form `KEY=VALUE`. Secret options are refused, since command lines are recorded in
/// many places.
fn parse_options(fetched: &Fetched, set: &[&String]) -> Outcome<BTreeMap<String, String>> {
    let known = &fetched.bundle.manifest.options;
    let one = |text: &&String| {
        let (key, value) = text.split_once('=').ok_or_else(|| Failure::usage("--set needs KEY=VALUE"))?;
        match known.get(key) {
            None => {
                Err(Failure::usage(format!("--set {}: the plugin has no such option", visible_line(key))))
            }
            Some(option) if option.is_sensitive => Err(Failure::usage(format!(
                "--set {key}: it is a secret, and others can read a command line; `--set {key}` without a value asks for it"
            ))),
            Some(_) => Ok((key.to_owned(), value.to_owned())),
        }
    };
    set.iter().map(one).collect()
}
