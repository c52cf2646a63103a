use zk_permission::{Mode, ModeSwitch};
use zk_tools::PlanModes;

/// Permission modes in which an approved plan is carried out.
#[derive(Debug)]
pub struct PlanWays {
    modes: ModeSwitch,
}

impl PlanWays {
    /// Creates the choices for the permission modes of a conversation.
    pub fn new(modes: ModeSwitch) -> Self {
        Self { modes }
    }

    /// The modes to choose from, the present one or the next that allows changes first.
    fn modes(&self) -> Vec<Mode> {
        let (chosen, widest) = (self.modes.chosen(), self.modes.widest());
        let plain = match self.modes.before_plan().unwrap_or(chosen) {
            Mode::ReadOnly => Mode::Ask,
            mode => mode,
        };
        let edits = Some(Mode::AcceptEdits).filter(|edits| *edits > plain);
        std::iter::once(plain).chain(edits).filter(|mode| *mode <= widest).collect()
    }
}

impl PlanModes for PlanWays {
    fn ways(&self) -> Vec<String> {
        let chosen = self.modes.chosen();
        let way = |mode: Mode| match mode {
            mode if mode == chosen => "Go on".to_owned(),
            mode if self.modes.before_plan() == Some(mode) => format!("Go on, in mode {mode} as before"),
            Mode::AcceptEdits => "Go on, and let it change files of the workspace unasked".to_owned(),
            mode => format!("Go on, in mode {mode}: {}", mode.describe()),
        };
        let ways: Vec<String> = self.modes().into_iter().map(way).collect();
        if ways.is_empty() { vec!["Go on".to_owned()] } else { ways }
    }

    fn plans(&self) -> bool {
        self.modes.before_plan().is_some()
    }

    fn choose(&self, way: usize) -> Result<Option<String>, String> {
        match self.modes().get(way) {
            Some(mode) if *mode != self.modes.chosen() => {
                self.modes.choose(*mode).map_err(|error| error.to_string())?;
                Ok(Some(format!(
                    "From the next request on the permission mode is {mode}: {}.",
                    mode.describe()
                )))
            }
            Some(_) | None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zk_permission::{HostPathClassifier, PermissionJudge, Rules};

    use super::*;

    #[test]
    fn no_choice_exceeds_the_widest_mode() {
        for widest in Mode::ALL {
            let around = Arc::new(HostPathClassifier::new(&["/".into()], None, &[]));
            let modes = ModeSwitch::new(Mode::ReadOnly).limited_to(widest);
            let judge = PermissionJudge::new(modes, Rules::default(), "/", around).contained();
            let modes = judge.modes();
            let ways = PlanWays::new(modes.clone());
            for mode in Mode::ALL {
                let chosen = modes.choose(mode);
                assert_eq!(chosen.is_ok(), mode <= widest, "{mode} where {widest} is the widest");
                let said = chosen.err().map(|error| error.to_string()).unwrap_or_default();
                assert!(said.is_empty() || said.contains(&format!("no mode beyond {widest}")), "{said}");
                assert!(modes.chosen() <= widest);
            }
            for _ in 0..2 * Mode::ALL.len() {
                assert!(modes.cycle() <= widest);
            }
            for way in 0..4 {
                let _ = ways.choose(way);
                assert!(modes.chosen() <= widest, "a plan in {widest}");
            }
        }
    }
}
