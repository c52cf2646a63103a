//! A conversation with a person at a terminal: prompts, commands, sessions, and the way from one screen to another.
//!
//! [`run`] has a program's [`ConversationFactory`] open a conversation and shows it until the person ends it: on the inline, the full or the plain
//! screen of `zk-tui`. The factory decides what a conversation consists of; it is asked again when everything is read anew, and for models and
//! providers by name.
//!
//! | item | what it is |
//! |---|---|
//! | [`run`] | a conversation from its first prompt to its end, on any of the screens |
//! | [`ConversationFactory`] | opens conversations: from the start, and from the one before; finds models and providers |
//! | [`HostedConversation`], [`ConversationLauncher`] | a conversation that other programs drive; opens those |
//! | [`AgentFactory`] | the simplest one: an agent on a bus of its own, which nothing is kept of |
//! | [`ChatSetup`], [`EditorEnv`] | place, settings and environment, as plain values |
//! | [`ConversationSessions`] | the present session, those that were left, and those to go on with; [`NoSessions`] keeps none |
//! | [`Interrupts`] | the signals of the process; [`NoInterrupts`] has none |
//! | [`ProviderAccess`], [`sign_in`], [`set_up`] | the providers there are, and what makes one usable; the list to choose from |
//! | [`walls`] | sandbox and permission mode of a conversation, and what is done when the sandbox is lost |
//! | [`UnapprovedProject`] | parts of a project that the person is asked about first |
//! | [`zk_permission::ModeSwitch`], [`PersonExec`], [`JobRows`] | services and a plugin of the bus: permission mode, the person's own commands, rows of jobs |
//! | [`session_lines`], [`context_lines`], [`totals`] | lists and sums in lines, as commands print them |
//! | [`VisitingConversation`], [`TerminalLoans`] | a conversation on the terminal of another program, such as a shell, when it is called; work that borrows the terminal from it |
//! | [`ChatEnd`], [`ChatError`] | how it ended, or why it could not go on; exit codes are the program's |
//!
//! # Example
//!
//! `cargo run -p zk-harness-chat --example scripted_chat -- "Say hello."`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/scripted_chat.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No argument, no environment variable, no settings file, no exit code; no vendor, no store and no server by name. Of its siblings it knows
//! those that a conversation consists of, and no crate but the program knows it.

mod commands;
mod conversation;
mod hosted;
mod opening;
mod screen;
mod sign_in;
mod visits;
pub mod walls;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use zk_tui::ScreenKind;
use zk_tui::plain::{LineEditor, Screen};
use zk_tui::term::{Restored, TerminalGuard, Tty};

pub use commands::context_lines::context_lines;
pub use commands::kept_choices::{KeptChoice, KeptChoices};
pub use commands::own_commands::OWN_COMMANDS;
pub use commands::session_lines::{age, parent_remark, session_lines};
pub use commands::tree_commands::tree_lines;
pub use conversation::file_notices::{tell_skipped_files, tell_unused_skills};
pub use conversation::job_rows::JobRows;
pub use conversation::plan_ways::PlanWays;
pub use conversation::run_error::{describe_conversation_error, describe_run_error};
pub use conversation::summary::{choices, incomplete, is_empty, totals};
pub use hosted::command::{HostedOutcome, ListedCommand};
pub use hosted::conversation::{HostedConversation, HostedEvent, HostedOptions};
pub use hosted::launcher::{ConversationLauncher, LaunchRequest, LaunchSession, ProviderLayer};
pub use opening::agent_factory::AgentFactory;
pub use opening::carried::{Carried, CarriedSession};
pub use opening::error::ChatError;
pub use opening::factory::{
    ConversationFactory, ConversationHost, ConversationSource, NamedModel, OnShown, OpenedConversation,
    Reread, SettingsReport, UnapprovedProject,
};
pub use opening::interrupts::{Interruption, Interrupts, NoInterrupts};
pub use opening::key_file::read_key_file;
pub use opening::person_exec::PersonExec;
pub use opening::provider_access::{AccessWay, LocalOffer, PendingSignIn, ProviderAccess, ProviderOffer};
pub use opening::sessions::{ConversationSessions, FoundSession, NoSessions, UnsavedSession};
pub use opening::setup::{ChatSetup, ExecutionPlace, ProgramPhrases};
pub use opening::signals::Signals;
pub use opening::start::{ChatEnd, ChatStart};
pub use opening::workplace::git_branch;
pub use screen::draft::editor::{EditorEnv, edit_file};
pub use screen::runtime::Runtime;
pub use sign_in::{set_up, sign_in};
pub use visits::VisitingConversation;
pub use visits::terminal_loan::{NoScreen, TerminalLoans};

use conversation::chat::Chat;
use conversation::reload;
use screen::first_start::SignedIn;
use screen::pending_input::PendingInput;
use screen::terminal_session::{ScreenExit, ScreenStart, TerminalSession};
use screen::{first_start, inline, plain};

/// Runs a conversation on the terminal: on the inline screen, or in plain lines if requested or if the
/// terminal supports no more. `watch` starts the watching of signals; its callback restores the terminal.
///
/// # Errors
/// [`ChatError`] when the conversation cannot be opened, or the terminal cannot be used.
pub fn run<W>(factory: Arc<dyn ConversationFactory>, start: ChatStart, watch: W) -> Result<ChatEnd, ChatError>
where
    W: FnOnce(Box<dyn Fn() + Send + Sync>) -> std::io::Result<Arc<dyn Interrupts>>,
{
    let setup = factory.setup();
    let tty = Tty::of_stdin(Screen::stdout(&setup.terminal).is_capable()).map_err(ChatError::Terminal)?;
    let guard = TerminalGuard::of_stdin(tty.clone()).map_err(ChatError::Terminal)?;
    let _restored = Restored(guard.clone());
    let leaving = guard.clone();
    let interrupts = watch(Box::new(move || leaving.restore_before_exit())).map_err(ChatError::Terminal)?;
    interrupts.disarm();
    let editor = LineEditor::new(line_history(setup))?;
    let mut kind = setup.screen_kind();
    let runtime = Runtime::new()?;
    let mut session = TerminalSession { factory, tty, guard, interrupts, runtime, editor, visit: None };
    if let ControlFlow::Break(end) = first_start::run_if_needed(&mut session)? {
        return Ok(end);
    }
    let mut start = ScreenStart::Open(start);
    loop {
        let ended = match kind {
            ScreenKind::Plain => plain::run(&mut session, start)?,
            ScreenKind::Inline | ScreenKind::Full => inline::run(&mut session, start, kind)?,
        };
        let reloaded = match ended {
            ScreenExit::End(end) => return Ok(end),
            ScreenExit::Screen { next, chat, pending } => {
                kind = next;
                start = ScreenStart::GoOn { chat, pending, said: None };
                continue;
            }
            ScreenExit::SignIn { wanted, chat, pending, kind: shown } => {
                match first_start::log_in(&mut session, wanted, chat, pending, shown)? {
                    SignedIn::GoOn(next) => {
                        (start, kind) = (next, shown);
                        continue;
                    }
                    SignedIn::Reload { factory, chat, pending } => {
                        reload(&mut session, factory, *chat, pending, shown)?
                    }
                }
            }
            ScreenExit::Reload { factory, chat, pending, kind: shown } => {
                reload(&mut session, factory, *chat, pending, shown)?
            }
        };
        match reloaded {
            ControlFlow::Continue((next, shown)) => (start, kind) = (next, shown),
            ControlFlow::Break(end) => return Ok(end),
        }
    }
}

/// Reopens a conversation; returns its start state and the kind of its screen.
fn reload(
    session: &mut TerminalSession,
    factory: Arc<dyn ConversationFactory>,
    chat: Chat,
    pending: PendingInput,
    shown: ScreenKind,
) -> Result<ControlFlow<ChatEnd, (ScreenStart, ScreenKind)>, ChatError> {
    let before = session.factory.clone();
    Ok(match reload::reopen(session, factory, chat, pending)? {
        ControlFlow::Continue(start) => {
            let kind = reload::next_screen_kind(shown, before.setup(), session.factory.setup());
            ControlFlow::Continue((start, kind))
        }
        ControlFlow::Break(end) => ControlFlow::Break(end),
    })
}

/// File of the line editor's history. Creates its directory.
fn line_history(setup: &ChatSetup) -> Option<PathBuf> {
    let can_keep =
        |path: &PathBuf| path.parent().is_some_and(|dir| zk_core::service::make_private_dir(dir).is_ok());
    setup.line_history.clone().filter(can_keep)
}
