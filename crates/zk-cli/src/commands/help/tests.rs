//! Checks that code blocks and commands of the documentation are valid in their language. Rust is not checked here:
//! `cargo xtask tidy` finds each block in an example or a test.

use clap::error::ErrorKind;
use clap::{Command, Parser};

use super::pages::{pages, unpack_pages};
use crate::args::cli::Cli;
use crate::args::help;
use crate::settings::tests::{warnings_of, warnings_of_project};

/// Languages of code blocks that other tests check or nothing can: tests of extensions and SDKs, configurations of
/// editors, pictures.
const UNCHECKED: [&str; 9] =
    ["rust", "rust,ignore", "text", "lua", "python", "typescript", "js", "markdown", "toml,manifest"];

/// Code block of a page, or a command in its prose.
struct Block<'a> {
    place: String,
    language: &'a str,
    text: String,
}

/// Page with its blocks, and the commands in its prose.
fn blocks<'a>(name: &str, page: &'a str) -> (Vec<Block<'a>>, Vec<Block<'a>>) {
    let (mut blocks, mut spans) = (Vec::<Block<'a>>::new(), Vec::new());
    let mut is_open = false;
    for (at, line) in page.lines().enumerate() {
        let place = format!("{name}:{}", at + 1);
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                blocks.push(Block { place, language, text: String::new() });
            }
        } else if let Some(block) = blocks.last_mut().filter(|_| is_open) {
            block.text.extend([line, "\n"]);
        } else {
            let code = line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("zk "));
            spans.extend(code.map(|code| Block {
                place: place.clone(),
                language: "",
                text: code.replace("\\|", "|"),
            }));
        }
    }
    (blocks, spans)
}

/// Returns the fault of a code block in words, if it has one.
fn fault(block: &Block<'_>) -> Option<String> {
    match block.language {
        "toml" => {
            let is_of_project = block.text.starts_with("# .zk/settings.toml");
            let read = if is_of_project { warnings_of_project } else { warnings_of };
            let mut warnings = read(&block.text).unwrap_or_else(|failure| vec![failure.message]);
            // The example's directory is in no project here.
            warnings.retain(|text| !text.contains("has to be one inside the project"));
            (!warnings.is_empty()).then(|| warnings.join(", "))
        }
        "json" => serde_json::from_str::<serde_json::Value>(&block.text).err().map(|error| error.to_string()),
        "sh" => block.text.lines().find_map(fault_of_command),
        "" | "console" | "console,run" => {
            block.text.lines().filter_map(|line| line.strip_prefix("$ ")).find_map(fault_of_command)
        }
        other => (!UNCHECKED.contains(&other)).then(|| format!("`{other}` is no language that is checked")),
    }
}

/// Returns the fault of a shell line: its command lines of zk have to be valid.
fn fault_of_command(line: &str) -> Option<String> {
    commands(line).into_iter().find_map(|words| {
        let is_assignment =
            |word: &String| word.split_once('=').is_some_and(|(name, _)| !name.starts_with('-'));
        let words: Vec<String> = words.into_iter().skip_while(is_assignment).collect();
        if words.first().is_none_or(|word| word != "zk") {
            return None;
        }
        match Cli::try_parse_from(&words) {
            Ok(_) => None,
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => None,
            Err(error) => Some(format!("{}: {}", words.join(" "), error.render())),
        }
    })
}

/// Splits a line into its simple commands and their words, well enough for the documentation.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut is_word) = (String::new(), None, false);
    for char in line.chars().chain([' ']) {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some(_), _) => word.push(char),
            (None, '"' | '\'') => (quote, is_word) = (Some(char), true),
            (None, '#') if !is_word => break,
            (None, ' ' | '|' | ';' | '(' | ')') => {
                if is_word {
                    commands.last_mut().unwrap().push(std::mem::take(&mut word));
                }
                if char != ' ' {
                    commands.push(Vec::new());
                }
                is_word = false;
            }
            (None, _) => {
                word.push(char);
                is_word = true;
            }
        }
    }
    commands
}

/// Returns the fault of a command in prose, such as `zk trust status|add|remove`: its subcommands and flags have to
/// exist.
fn fault_of_span(span: &str, root: &Command) -> Option<String> {
    let mut at = vec![root];
    let mut is_path = true;
    for word in commands(&span.replace('|', "\u{1}")).into_iter().flatten().skip(1) {
        let names: Vec<&str> = word.split('\u{1}').collect();
        if let Some(flag) = names.first().and_then(|name| name.strip_prefix("--")) {
            let flag = flag.split('=').next().unwrap_or_default().trim_end_matches(']');
            let has = |command: &&Command| {
                command.get_arguments().any(|arg| {
                    arg.get_long() == Some(flag)
                        || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&flag))
                })
            };
            if !flag.is_empty() && !["help", "version"].contains(&flag) && !at.iter().any(has) {
                return Some(format!("no flag `--{flag}`"));
            }
            is_path &= flag.is_empty();
        } else if is_path
            && names.iter().all(|name| is_name(name))
            && at.iter().any(|at| at.has_subcommands())
        {
            let found: Vec<Option<&Command>> =
                names.iter().map(|name| at.iter().find_map(|at| at.find_subcommand(name))).collect();
            if let Some((name, _)) = names.iter().zip(&found).find(|(_, found)| found.is_none()) {
                return Some(format!("no command `{name}`"));
            }
            at = found.into_iter().flatten().collect();
        } else {
            is_path = false;
        }
    }
    None
}

fn is_name(word: &str) -> bool {
    word.starts_with(|char: char| char.is_ascii_lowercase())
        && word.chars().all(|char| char.is_ascii_lowercase() || char == '-')
}

#[test]
fn every_block_and_every_command_of_the_documentation_is_what_its_language_says() {
    let unpacked = unpack_pages().unwrap();
    let of_docs = pages(&unpacked).into_iter().filter(|page| !page.is_decision());
    let of_docs = of_docs.map(|page| (page.name.to_owned(), page.text.to_owned()));
    // Packages have no page beside the crate.
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap_or_default();
    let root = help::command();
    let (mut faults, mut count) = (Vec::new(), 0);
    for (name, page) in of_docs.chain([("README".to_owned(), readme)]) {
        let (blocks, spans) = blocks(&name, &page);
        count += blocks.len() + spans.len();
        faults.extend(blocks.iter().filter_map(|one| Some(format!("{}: {}", one.place, fault(one)?))));
        faults.extend(spans.iter().filter_map(|one| {
            Some(format!("{}: `{}`: {}", one.place, one.text, fault_of_span(&one.text, &root)?))
        }));
    }
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    assert!(count > 100, "{count}");
}

#[test]
fn a_stale_block_or_command_is_told() {
    let root = help::command();
    for (language, text) in [
        ("toml", "no_such_key = 1"),
        ("toml", "= 1"),
        ("json", "{"),
        ("sh", "git diff | zk -p x --no-such-flag"),
        ("console", "$ zk sessions frobnicate"),
        ("cobol", ""),
    ] {
        let block = Block { place: String::new(), language, text: text.to_owned() };
        assert!(fault(&block).is_some(), "{language}: {text}");
    }
    for (span, is_stale) in [
        ("zk trust status|add|remove", false),
        ("zk trust status|frobnicate", true),
        ("zk sessions list --jsonx", true),
        ("zk --resume", false),
        ("zk cost why SESSION", false),
        ("zk web --listen 127.0.0.1:0", false),
    ] {
        assert_eq!(fault_of_span(span, &root).is_some(), is_stale, "{span}");
    }
}

#[test]
fn a_page_has_no_targets_of_files_and_keeps_addresses() {
    let page = "![it](a.svg) [one](b.md#c) and [two](https://x.example) `a[0](b c)`\n";
    assert_eq!(super::without_targets(page), "it one and [two](https://x.example) `a[0](b c)`\n");
}
