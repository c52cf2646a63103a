use std::collections::BTreeMap;

use proptest::prelude::*;
use zk_permission::{Command, Decision, Mode, NotUnderstood, Obstacle, Script};

use crate::support::{Setup, rules};
use crate::verdicts::rows;

/// Texts that can follow a command.
const SEPARATORS: [&str; 8] = [";", " ; ", " && ", " || ", " | ", "\n", " # ", " && \n"];

#[test]
fn a_command_more_never_allows_what_had_to_be_asked() {
    let mut random = fastrand::Rng::with_seed(3);
    let all: Vec<_> = rows().collect();
    let mut setups: BTreeMap<&str, Setup> = BTreeMap::new();
    for (name, verdict, command) in &all {
        // A text that cannot be parsed may lack a part of the addition, such as a quote.
        if *verdict == "allow" || Script::parse(command).is_err() {
            continue;
        }
        let setup = setups.entry(name).or_insert_with(|| Setup::named(name));
        for _ in 0..4 {
            let separator = SEPARATORS[random.usize(..SEPARATORS.len())];
            let other = &all[random.usize(..all.len())].2;
            for text in [format!("{command}{separator}{other}"), format!("{other}{separator}{command}")] {
                // Behind a comment mark a command is not one.
                if named(&text).is_ok_and(|script| !script_has(&script, command)) {
                    continue;
                }
                // Behind names of files it reads those.
                if command.starts_with("xargs ") && separator.contains(" | ") {
                    continue;
                }
                let got = setup.command(&text).decision;
                assert_ne!(got, Decision::Allow, "{name}: {text:?}");
            }
        }
    }
}

/// Pieces with a meaning in shells, added anywhere.
const PIECES: [&str; 44] = [
    "'",
    "\"",
    "`",
    "$",
    "$(",
    ")",
    "${",
    "}",
    "(",
    "{",
    "\\",
    "\\\n",
    "\n",
    ";",
    "&",
    "&&",
    "|",
    "||",
    ">",
    ">>",
    "<",
    "<<EOF\n",
    "<<<",
    "#",
    " # ",
    " ",
    "\t",
    "*",
    "?",
    "[",
    "~",
    "!",
    "=",
    "x=1 ",
    "--",
    "-n",
    "--help",
    "--version",
    "true",
    "echo",
    "|| true",
    "&& ls",
    "\u{a0}",
    "\r",
];

/// Whether the judged commands of two scripts are equal, as a shell would run them.
fn has_the_same(script: &Script, wanted: &Script) -> bool {
    wanted.commands.iter().all(|wanted| {
        script.commands.iter().any(|found| found.words == wanted.words && found.redirects == wanted.redirects)
    })
}

/// Adding text to a command that needs a question never allows it, as long as a shell still runs the command
/// unchanged.
#[test]
fn text_added_anywhere_never_allows_by_itself_what_had_to_be_asked() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut setups: BTreeMap<&str, Setup> = BTreeMap::new();
    let all: Vec<_> = rows().collect();
    let (mut judged, mut still_there) = (0, 0);
    for (name, verdict, command) in &all {
        if *verdict == "allow" {
            continue;
        }
        let setup = setups.entry(name).or_insert_with(|| Setup::named(name));
        let own = Script::parse(command);
        for _ in 0..additions() {
            let added: String =
                (0..random.usize(1..4)).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
            let cuts: Vec<usize> = (0..=command.len()).filter(|at| command.is_char_boundary(*at)).collect();
            let at = match random.u8(..3) {
                0 => 0,
                1 => command.len(),
                _ => cuts[random.usize(..cuts.len())],
            };
            let (before, after) = command.split_at(at);
            let text = format!("{before}{added}{after}");
            judged += usize::from(own.is_ok());
            let got = setup.command(&text).decision;
            match (Script::parse(&text), &own) {
                // A pattern for file names is judged like any matching name.
                (Err(why), own) if matches!(why.what, Obstacle::Glob(_)) => {
                    if let (Ok(_), Ok(own), Ok(script)) = (own, named(command), named(&text))
                        && has_the_same(&script, &own)
                    {
                        assert_ne!(got, Decision::Allow, "{name}: {command:?} became {text:?}");
                    }
                }
                // An ambiguous text needs a question.
                (Err(_), _) if setup.asks_what_it_does_not_understand() => {
                    assert_ne!(got, Decision::Allow, "{name}: {text:?}");
                }
                (Ok(script), Ok(own)) if has_the_same(&script, own) => {
                    still_there += 1;
                    assert_ne!(got, Decision::Allow, "{name}: {command:?} became {text:?}");
                }
                // Changed words are another command, judged separately.
                (Ok(_) | Err(_), _) => {}
            }
        }
    }
    assert!(judged > 1_000 && still_there > judged / 20, "{still_there} of {judged}");
}

/// Number of additions to each command; the variable sets it for the whole campaign.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn additions() -> usize {
    std::env::var("ZK_ADDITIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// Text with a name in place of each pattern.
fn named(text: &str) -> Result<Script, NotUnderstood> {
    Script::parse(&text.replace(['*', '?'], "x"))
}

fn script_has(script: &Script, command: &str) -> bool {
    let wanted = named(command).unwrap();
    wanted.commands.iter().all(|wanted| {
        let is_same = |command: &Command| {
            command.words == wanted.words
                && command.redirects == wanted.redirects
                && command.assignments == wanted.assignments
        };
        script.commands.iter().any(is_same)
    })
}

#[test]
fn a_wider_mode_never_asks_more_and_a_tighter_one_never_allows_more() {
    for (_, _, command) in rows() {
        let decide = |mode| {
            let setup = Setup { is_contained: true, ..Setup::new(mode, zk_permission::Rules::new()) };
            setup.command(&command).decision
        };
        let all: Vec<Decision> = Mode::ALL.into_iter().map(decide).collect();
        assert!(all.is_sorted_by(|tight, wide| tight >= wide), "{command:?}: {all:?}");
    }
}

/// The more is forbidden, the less runs.
#[test]
fn a_rule_that_denies_never_allows_more() {
    for mode in Mode::ALL {
        let mut open = Setup { is_contained: true, ..Setup::new(mode, zk_permission::Rules::new()) };
        let base = zk_permission::RuleBase { root: "/p".into(), home: None };
        let allow = ["cargo test **", "git **", "rm **"];
        assert_eq!(open.rules.extend(zk_permission::Layer::User, Decision::Allow, &allow, &base), []);
        let mut closed = Setup { is_contained: true, ..Setup::new(mode, open.rules.clone()) };
        let deny = ["git push **", "rm -rf **", "write(keep/**)"];
        assert_eq!(closed.rules.extend(zk_permission::Layer::Project, Decision::Deny, &deny, &base), []);
        for (_, _, command) in rows() {
            let (before, after) = (open.command(&command).decision, closed.command(&command).decision);
            assert!(after >= before, "{mode}: {command:?}: {before} became {after}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_makes_the_judge_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), mode in 0_usize..5) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = Script::parse(&text);
        let setup = Setup { is_contained: mode == 3, ..Setup::new(Mode::ALL[mode], rules()) };
        setup.command(&text);
        setup.command(&text.replace(|c: char| !c.is_ascii_graphic(), " "));
    }

    #[test]
    fn no_flag_makes_the_judge_panic(words in prop::collection::vec("[-=:+a-z{};/.]{0,6}", 0..8), program in 0_usize..12) {
        let programs = ["git", "find", "sed", "xargs", "env", "awk", "test", "timeout", "printf", "cd", "rg", "bash -c"];
        let words: Vec<String> = words.iter().map(|word| zk_permission::quote(word)).collect();
        Setup::named("auto-rules").command(&format!("{} {}", programs[program], words.join(" ")));
    }
}
