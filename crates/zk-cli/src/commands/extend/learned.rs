use zk_core::service::visible_line;

use super::print;
use crate::app::Workplace;
use crate::args::actions::LearnedAction;
use crate::compose::compaction::learned_rules;
use crate::exit::{Exit, Failure, Outcome};

/// Lists or forgets the rules that outputs of this project taught.
pub(crate) fn learned(work: &Workplace, action: &LearnedAction) -> Outcome<Exit> {
    let rules = learned_rules(work)
        .ok_or_else(|| Failure::usage("no rules are kept: zk has no directory for its state"))?;
    let lines = match action {
        LearnedAction::List => {
            let rules = rules.list().map_err(Failure::failed)?;
            let row = |(at, rule): (usize, &zk_tools::LearnedRule)| {
                let (program, shape) = (visible_line(&rule.program), visible_line(&rule.shape));
                format!("{:>3}  {program:<20} {shape}  (in {} outputs)", at + 1, rule.outputs)
            };
            let lines: Vec<String> = rules.iter().enumerate().map(row).collect();
            if lines.is_empty() {
                vec!["no rule was learned from outputs of this project yet".to_owned()]
            } else {
                lines
            }
        }
        LearnedAction::Forget { number: None, all: true } => {
            let count = rules.forget(None).map_err(Failure::failed)?;
            vec![format!("forgotten: {count} of {count} rules, and what was about to become one")]
        }
        LearnedAction::Forget { number: Some(number), .. } => {
            if rules.forget(Some(*number)).map_err(Failure::failed)? == 0 {
                return Err(Failure::usage(format!("there is no rule {number}: `zk learned` lists them")));
            }
            vec![format!("forgotten: rule {number}")]
        }
        LearnedAction::Forget { number: None, all: false } => {
            return Err(Failure::usage("name the rule by its number in `zk learned`, or say --all"));
        }
    };
    print(&work.machine, &lines)
}
