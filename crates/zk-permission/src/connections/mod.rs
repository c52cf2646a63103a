//! Hosts that commands connect to, judged by their words.

mod configured;
mod credentials;
mod entries;
mod git;
mod hosts;
pub(crate) mod registries;
mod rewrites;

use std::path::Path;

use zk_core::model::{Effect, Effects};
use zk_core::service::Connections;

use crate::classifier::PathClassifier;
use crate::program::{Hazard, Leaf, base_name, git_subcommand, hazard_in, inspect, inspect_program};
use crate::shell::{Script, quote_all};

pub use credentials::GitCredentials;
pub use rewrites::{GitRewrite, GitRewrites};

/// Flags by which a program reads hosts from a file, or connects through another host.
const HOSTS_FROM_ELSEWHERE: [&str; 7] =
    ["-K", "--config", "-x", "--proxy", "--preproxy", "-i", "--input-file"];

/// Default port of ssh.
const SSH_PORT: u16 = 22;

/// Surroundings of a command that connects.
#[derive(Clone, Copy)]
pub(crate) struct Vicinity<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) classifier: &'a dyn PathClassifier,
    /// Whether hosts in project files count, although commands could have written these files: true if a
    /// person is asked about them, or about no call at all.
    pub(crate) trusts_project: bool,
}

/// Connections that a call's commands open; `None` if there are none.
pub(crate) fn of_effects(effects: &Effects, near: Vicinity<'_>) -> Option<Connections> {
    let Effects::Known { list } = effects else { return None };
    let of_effect = |effect: &Effect| match effect {
        Effect::Executes { command: Some(command), .. } => of_text(command, near),
        Effect::Executes { command: None, argv } => {
            inspect_program(argv).iter().filter_map(|leaf| of_leaf(leaf, near)).reduce(merge)
        }
        Effect::Reads { .. }
        | Effect::Writes { .. }
        | Effect::Network { .. }
        | Effect::LeavesContext { .. } => None,
    };
    let mut all = list.iter().filter_map(of_effect).reduce(merge)?;
    all.hosts.sort();
    all.hosts.dedup();
    Some(all)
}

fn of_text(text: &str, near: Vicinity<'_>) -> Option<Connections> {
    match Script::parse(text) {
        Ok(script) => {
            let leaves = script.commands.iter().flat_map(|command| inspect(command, Vec::new()));
            leaves.filter_map(|leaf| of_leaf(&leaf, near)).reduce(merge)
        }
        Err(_) => of_open_text(text),
    }
}

fn merge(mut one: Connections, other: Connections) -> Connections {
    one.hosts.extend(other.hosts);
    one.any_public |= other.any_public;
    one
}

/// Connections of a text that cannot be parsed: the hosts that it mentions, and any public host.
fn of_open_text(text: &str) -> Option<Connections> {
    // A text without a hazard needs no question, and so gets no connection.
    hazard_in(text)?;
    let plain = crate::program::words_of_open_text(text);
    let connects = plain.iter().enumerate().any(|(at, word)| {
        let rest = plain.get(at + 1..).unwrap_or_default();
        match base_name(word) {
            "git" => git_subcommand(rest.get(..rest.len().min(8)).unwrap_or_default())
                .and_then(|(at, _)| rest.get(at))
                .is_some_and(|name| git::connects(name)),
            name => registries::connects(name, rest) || crate::program::is_network_program(name),
        }
    });
    let hosts = plain.iter().filter_map(|word| hosts::of_url(word)).collect();
    connects.then_some(Connections { hosts, any_public: true })
}

fn of_leaf(leaf: &Leaf, near: Vicinity<'_>) -> Option<Connections> {
    let (word, args) = leaf.innermost().split_first()?;
    let name = base_name(word);
    let opens = matches!(leaf.hazard, Some(Hazard::Network | Hazard::Publishes))
        || leaf.effects.iter().any(|effect| matches!(effect, Effect::Network { .. }));
    if !opens {
        let outermost = leaf.forms.first().map(|form| form.argv.as_slice()).unwrap_or_default();
        return if leaf.is_opaque { of_open_text(&quote_all(outermost)) } else { None };
    }
    let mut found = match name {
        "git" => git::connections(args, near)?,
        "ssh" | "scp" | "sftp" => Connections {
            hosts: match name {
                "ssh" => hosts::of_ssh(args).into_iter().collect(),
                _ => hosts::of_copies(args),
            },
            any_public: false,
        },
        "gh" => {
            connections_to(&["api.github.com", "github.com", "uploads.github.com", "*.githubusercontent.com"])
        }
        _ => {
            let mut hosts = hosts::of_words(args);
            if let Some(usual) = registries::hosts(name, args) {
                hosts.extend(leaf.assignments.iter().filter_map(|variable| hosts::of_url(&variable.value)));
                let of_settings =
                    configured::of_manager(name, args, near.cwd, near.classifier, near.trusts_project);
                // A registry in the arguments or settings replaces the default one.
                if hosts.is_empty() && !of_settings.replaces_usual {
                    hosts.extend(usual.iter().map(|host| (*host).to_owned()));
                }
                hosts.extend(of_settings.hosts);
                hosts.extend(registries::associated_hosts(&hosts));
            }
            Connections { hosts, any_public: args.iter().any(|word| is_flag_for_hosts_from_elsewhere(word)) }
        }
    };
    // GitHub serves downloads from other host names.
    if found.hosts.iter().any(|host| host == "github.com") {
        found.hosts.extend(["codeload.github.com".to_owned(), "*.githubusercontent.com".to_owned()]);
    }
    let has_unknown_tail = leaf.forms.last().is_some_and(|form| form.has_unknown_tail);
    found.any_public |= found.hosts.is_empty() || has_unknown_tail;
    Some(found)
}

fn connections_to(hosts: &[&str]) -> Connections {
    Connections { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), any_public: false }
}

fn is_flag_for_hosts_from_elsewhere(word: &str) -> bool {
    HOSTS_FROM_ELSEWHERE.contains(&word.split('=').next().unwrap_or(word))
}

#[cfg(test)]
mod tests;
