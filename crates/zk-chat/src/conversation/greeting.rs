use zk_permission::ModeSwitch;
use zk_tui::{Modes, Row, Style};

use super::chat::Chat;
use crate::commands::session_commands;
use crate::opening::person_exec::PersonExec;
use crate::opening::setup::ExecutionPlace;
use crate::opening::workplace::{Workplace, model_title};

/// Hint on first keys and commands in plain lines, which have no composer to show it.
const FIRST_WORDS: &str = "/help lists the commands, !command runs one of your own, Ctrl-D ends";

/// Left margin of the greeting.
const MARGIN: &str = "  ";

impl Chat {
    /// Prints the greeting: model, directory, branch, sandbox, and loaded instructions, skills and servers.
    pub(crate) fn greet(&self) {
        let setup = self.factory.setup();
        let is_drawn = self.lines().is_none();
        let model = self.agent.model();
        let first =
            format!("zk {} · {} ({})", env!("CARGO_PKG_VERSION"), model_title(&model.id), model.provider);
        let cwd = setup.cwd_now(&self.agent.bus().cx());
        let place = Workplace::of(&cwd, setup.home.as_deref(), &*setup.host_files).describe();
        let margin = if is_drawn { MARGIN } else { "" };
        let width = if is_drawn { Modes::size().width } else { 0 };
        for line in join_at_edges(&first, &place, width.saturating_sub(margin.len())) {
            self.screen.line(Style::DIM, &format!("{margin}{line}"));
        }
        if let Some(open) = self.sessions.open_session().filter(|_| self.sessions.is_resumed()) {
            self.screen.line(Style::DIM, &format!("{margin}session {} continues", open.id()));
        } else if self.sessions.open_session().is_none() {
            self.screen.line(Style::DIM, &format!("{margin}session not saved"));
        }
        if setup.allow_all {
            let text = format!("{margin}every tool runs without asking ({})", setup.phrases.allow_all);
            self.screen.line(Style::YELLOW, &text);
        } else if let Some(modes) = self.agent.bus().service::<ModeSwitch>() {
            self.screen.line(Style::DIM, &format!("{margin}{}", self.describe_limits(&modes)));
            if !is_drawn {
                let text = format!("mode {}: {} · Shift-Tab changes it", modes.name(), modes.describe());
                self.screen.line(Style::DIM, &text);
            }
        }
        let in_use = self.list_loaded(&cwd);
        if !in_use.is_empty() {
            self.screen.line(Style::DIM, &format!("{margin}{in_use}"));
        }
        if !is_drawn {
            self.screen.line(Style::DIM, FIRST_WORDS);
        }
        // A drawn screen shows the stored blocks of the session instead.
        if self.sessions.is_resumed() && !is_drawn {
            for line in session_commands::last_exchange(&self.view.view().blocks) {
                self.screen.line(Style::DIM, &line);
            }
        }
    }

    /// Sentence about the limits on the model's commands.
    fn describe_limits(&self, modes: &ModeSwitch) -> &'static str {
        let has_sandbox = self.agent.bus().service::<PersonExec>().is_some();
        match (self.factory.setup().execution_place, has_sandbox, modes.is_contained()) {
            (ExecutionPlace::ThisMachine, true, true) => {
                "Commands run in a sandbox: they change this repository only, without network."
            }
            (ExecutionPlace::ThisMachine, true, false) => {
                "Commands run in a sandbox: they change this repository only."
            }
            (ExecutionPlace::ThisMachine, false, _) => "Commands run as you do: no sandbox holds them.",
            (ExecutionPlace::Container, ..) => "Commands run in a container.",
            (ExecutionPlace::OtherMachine, ..) => "Commands run on another machine.",
        }
    }

    /// Lists the instructions, skills and servers in use.
    fn list_loaded(&self, cwd: &std::path::Path) -> String {
        let setup = self.factory.setup();
        let mut parts = Vec::new();
        if setup.execution_place != ExecutionPlace::OtherMachine {
            let root = zk_skills::project(cwd, &*setup.host_files).root;
            let found = zk_skills::instructions(cwd, &root, &*setup.host_files);
            let name = |path: &std::path::Path| {
                let path = path.strip_prefix(&root).unwrap_or(path);
                path.display().to_string()
            };
            parts.extend(found.files.iter().map(|file| name(&file.path)));
        }
        let skills = self.agent.bus().service::<zk_skills::Skills>().and_then(|skills| skills.found());
        match skills.map_or(0, |skills| skills.skills.len()) {
            0 => {}
            1 => parts.push("1 skill".to_owned()),
            count => parts.push(format!("{count} skills")),
        }
        let servers = self.factory.servers(&self.agent);
        if !servers.is_empty() {
            parts.push(format!("MCP: {}", servers.join(", ")));
        }
        parts.join(" · ")
    }
}

/// Two texts on one line of `width` columns, the second right-aligned; on two lines if they do not fit.
fn join_at_edges(first: &str, second: &str, width: usize) -> Vec<String> {
    let columns = |text: &str| Row::of(Style::PLAIN, text).columns();
    match width.checked_sub(columns(first) + columns(second)) {
        Some(gap) if gap >= 2 => vec![format!("{first}{}{second}", " ".repeat(gap))],
        Some(_) | None => vec![first.to_owned(), second.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_right_aligned_or_below_without_room() {
        assert_eq!(join_at_edges("zk", "~/漢 · main", 20), [format!("zk{}~/漢 · main", " ".repeat(7))]);
        assert_eq!(join_at_edges("zk 0.1.0", "~/src · main", 20), ["zk 0.1.0", "~/src · main"]);
    }
}
