pub(crate) mod backends;
pub(crate) mod builtins;
pub(crate) mod context_lines;
pub(crate) mod directory;
pub(crate) mod info;
pub(crate) mod job_commands;
pub(crate) mod kept_choices;
pub(crate) mod loop_command;
pub(crate) mod models;
pub(crate) mod own_commands;
pub(crate) mod session_commands;
pub(crate) mod session_lines;
pub(crate) mod tree_commands;
pub(crate) mod window_commands;

use std::sync::Arc;

use zk_view::ViewDriver;

use self::info::{InfoContext, info_commands};
use self::own_commands::provide_own;
use self::session_commands::SetDraft;
use self::window_commands::window_commands;
use crate::conversation::wanted_screen::WantedScreen;
use crate::opening::factory::{ConversationFactory, OpenedConversation};

/// Provides the commands of a conversation with a person.
pub(crate) fn provide_commands(
    opened: &OpenedConversation,
    factory: &Arc<dyn ConversationFactory>,
    view: &ViewDriver,
    set_draft: &SetDraft,
    wanted: &WantedScreen,
) {
    let setup = factory.setup();
    let mut commands = builtins::all(opened, factory, view, wanted);
    commands.extend(session_commands::all(opened, setup, view, set_draft, wanted));
    commands.extend(window_commands(&opened.conversation));
    commands.extend(info_commands(InfoContext {
        agent: opened.agent.clone(),
        sessions: opened.sessions.clone(),
        factory: factory.clone(),
        view: view.clone(),
        wanted: wanted.clone(),
    }));
    commands.push(loop_command::command(&opened.conversation));
    commands.extend(job_commands::commands());
    commands.push(backends::command(opened.agent.clone(), factory.clone()));
    commands.push(directory::command(setup.phrases.add_directory));
    commands.push(directory::add_command(factory.clone()));
    let warnings = provide_own(opened.agent.bus(), &commands);
    warnings.iter().for_each(|warning| setup.notices.show(warning));
}
