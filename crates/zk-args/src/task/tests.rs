use clap::{CommandFactory, Parser};

use super::*;

fn task(args: &[&str]) -> Result<Task, UsageError> {
    Cli::try_parse_from(std::iter::once("zk").chain(args.iter().copied()))
        .map_err(|error| UsageError::new(error.to_string()))?
        .into_request()
        .map(|request| match request {
            Request::Task(task) => *task,
            other => panic!("{other:?}"),
        })
}

fn prompt(args: &[&str]) -> Prompt {
    match task(args).unwrap().job {
        Job::Prompt(prompt) => prompt,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_script_for_a_remote_shell_needs_no_settings() {
    let request = Cli::try_parse_from(["zk", "shell", "init", "fish"]).unwrap().into_request().unwrap();
    assert!(matches!(request, Request::ShellInit(shell) if shell == "fish"));
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_command_whose_options_are_deferred_keeps_its_description() {
    let abouts = |command: &clap::Command| -> Vec<(String, String)> {
        let about = |one: &clap::Command| one.get_about().map(ToString::to_string).unwrap_or_default();
        command.get_subcommands().map(|one| (one.get_name().to_owned(), about(one))).collect()
    };
    let mut command = Cli::command();
    let declared = abouts(&command);
    command.build();
    assert_eq!(abouts(&command), declared);
}

#[test]
fn print_is_a_flag_and_the_prompt_stands_alone() {
    for args in [["-p", "hello"], ["hello", "-p"]] {
        let prompt = prompt(&args);
        assert_eq!((prompt.text.as_deref(), prompt.print), (Some("hello"), true));
    }
    assert!(!prompt(&["hello"]).print);
}

#[test]
fn a_machine_format_implies_printing() {
    assert!(prompt(&["--output-format", "json", "x"]).print);
    assert!(prompt(&["--output-format", "stream-json"]).print);
    assert!(!prompt(&["--output-format", "text", "x"]).print);
}

#[test]
fn an_unquoted_prompt_that_meets_a_command_is_refused() {
    let error = task(&["fix", "demo"]).unwrap_err();
    assert!(error.to_string().contains("quotes"), "{error}");
}

#[test]
fn sessions_lists_when_nothing_is_said() {
    assert_eq!(
        task(&["sessions"]).unwrap().job,
        Job::Sessions(SessionsAction::List { all: false, json: false })
    );
}

#[test]
fn a_session_cannot_be_resumed_and_not_kept() {
    assert!(task(&["-c", "--no-session", "x"]).is_err());
    assert!(task(&["-c", "--resume", "s_1", "x"]).is_err());
}

#[test]
fn levels_and_counts_are_checked() {
    assert!(task(&["--thinking", "much", "x"]).unwrap_err().to_string().contains("minimal"));
    assert!(task(&["--max-turns", "0", "x"]).is_err());
}

#[test]
fn an_empty_prompt_is_none() {
    assert_eq!(prompt(&["-p", "  "]).text, None);
}
