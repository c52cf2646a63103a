use zk_permission::{Mode, PermissionJudge};
use zk_tools::{PermissionControl, PermissionMode, PlanModes};

use zk_chat::ModeChoice;

/// The permission mode of a conversation, for whoever changes it while it goes on.
#[derive(Clone, Debug)]
pub(crate) struct PermissionModes {
    judge: PermissionJudge,
    gate: PermissionControl,
    /// Mode that nobody here can go beyond.
    widest: Mode,
    /// The permission mode of the settings.
    configured: Mode,
}

impl PermissionModes {
    pub(crate) fn new(judge: PermissionJudge, gate: PermissionControl, widest: Mode) -> Self {
        let configured = judge.next_mode();
        Self { judge, gate, widest, configured }
    }

    /// The mode that was chosen in the conversation, if it is another than that of the settings.
    pub(crate) fn changed(&self) -> Option<Mode> {
        Some(self.chosen()).filter(|mode| *mode != self.configured)
    }

    /// The mode that was chosen last. A wider one holds from the next request to the model on.
    pub(crate) fn chosen(&self) -> Mode {
        self.judge.next_mode()
    }

    /// Chooses a mode.
    pub(crate) fn choose(&self, mode: Mode) -> Result<(), String> {
        if mode > self.widest {
            return Err(format!("the settings of this machine allow no mode beyond {}", self.widest));
        }
        if mode == Mode::Auto && !self.judge.is_contained() {
            return Err("the mode auto needs the sandbox: start zk with --permission-mode auto".to_owned());
        }
        self.judge.set_mode(mode);
        self.gate.set_mode(match mode {
            Mode::All => PermissionMode::AllowAll,
            Mode::ReadOnly | Mode::Ask | Mode::AcceptEdits | Mode::Auto => PermissionMode::Ask,
        });
        Ok(())
    }

    /// Chooses the next mode, the tightest after the widest. One key never leads to a mode that asks about nothing.
    pub(crate) fn cycle(&self) -> Mode {
        let here = |mode: &Mode| match mode {
            Mode::ReadOnly | Mode::Ask | Mode::AcceptEdits => *mode <= self.widest,
            Mode::Auto => *mode <= self.widest && self.judge.is_contained(),
            Mode::All => false,
        };
        let chosen = self.chosen();
        let all = || Mode::ALL.into_iter().filter(here);
        let next = all().find(|mode| *mode > chosen).or_else(|| all().next()).unwrap_or(chosen);
        // Each of these can be chosen.
        let _ = self.choose(next);
        self.chosen()
    }
}

impl PermissionModes {
    /// The modes in which an approved plan may be carried out, the present one or the next that allows it first.
    fn after_a_plan(&self) -> Vec<Mode> {
        let chosen = self.chosen();
        let plain = if chosen == Mode::ReadOnly { Mode::Ask } else { chosen };
        let edits = Some(Mode::AcceptEdits).filter(|edits| *edits > plain);
        std::iter::once(plain).chain(edits).filter(|mode| *mode <= self.widest).collect()
    }
}

impl PlanModes for PermissionModes {
    fn ways(&self) -> Vec<String> {
        let chosen = self.chosen();
        let way = |mode: Mode| match mode {
            mode if mode == chosen => "Approve".to_owned(),
            Mode::AcceptEdits => "Approve, and let it change files of the workspace unasked".to_owned(),
            mode => format!("Approve, in mode {mode}: {}", explain(mode)),
        };
        let ways: Vec<String> = self.after_a_plan().into_iter().map(way).collect();
        if ways.is_empty() { vec!["Approve".to_owned()] } else { ways }
    }

    fn choose(&self, way: usize) -> Result<Option<String>, String> {
        match self.after_a_plan().get(way) {
            Some(mode) if *mode != self.chosen() => {
                Self::choose(self, *mode)?;
                Ok(Some(format!(
                    "From the next request on the permission mode is {mode}: {}.",
                    explain(*mode)
                )))
            }
            Some(_) | None => Ok(None),
        }
    }
}

impl ModeChoice for PermissionModes {
    fn chosen(&self) -> Mode {
        Self::chosen(self)
    }

    fn changed(&self) -> Option<Mode> {
        Self::changed(self)
    }

    fn choose(&self, mode: Mode) -> Result<(), String> {
        Self::choose(self, mode)
    }

    fn cycle(&self) -> Mode {
        Self::cycle(self)
    }

    fn explain(&self, mode: Mode) -> &'static str {
        explain(mode)
    }
}

/// Explains what runs without a question in a mode.
fn explain(mode: Mode) -> &'static str {
    match mode {
        Mode::ReadOnly => "only what certainly only reads runs",
        Mode::Ask => "what only reads and what your rules allow runs unasked",
        Mode::AcceptEdits => "changes of the workspace's files run unasked as well",
        Mode::Auto => "what the sandbox bounds runs unasked",
        Mode::All => {
            "everything runs that no rule forbids, but for commands that leave the sandbox or container"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zk_permission::{HostPathClassifier, Rules};
    use zk_tools::PermissionGate;

    use super::*;

    #[test]
    fn no_way_leads_beyond_the_widest_mode() {
        for widest in Mode::ALL {
            let around = Arc::new(HostPathClassifier::new(&["/".into()], None, &[]));
            let judge = PermissionJudge::new(Mode::ReadOnly, Rules::default(), "/", around).contained();
            let modes =
                PermissionModes::new(judge, PermissionGate::new(PermissionMode::Ask).control(), widest);
            for mode in Mode::ALL {
                let chosen = modes.choose(mode);
                assert_eq!(chosen.is_ok(), mode <= widest, "{mode} where {widest} is the widest");
                let said = chosen.err().unwrap_or_default();
                assert!(said.is_empty() || said.contains(&format!("no mode beyond {widest}")), "{said}");
                assert!(modes.chosen() <= widest);
            }
            for _ in 0..2 * Mode::ALL.len() {
                assert!(modes.cycle() <= widest);
            }
            for way in 0..4 {
                let _ = PlanModes::choose(&modes, way);
                assert!(modes.chosen() <= widest, "a plan in {widest}");
            }
        }
    }
}
