//! The states of a goal, by hand: two answers, the second of which says that it is reached.

#![expect(clippy::print_stdout, reason = "examples print")]

use zk_goals::{GoalInput, GoalMachine, GoalSettings, GoalSpec, GoalSpecError};

fn main() -> Result<(), GoalSpecError> {
    let mut machine = GoalMachine::new(GoalSettings::default().rules());
    machine.apply(GoalInput::Set(GoalSpec::new("make the tests pass")?.autonomous(Some(50), None)));
    for answer in ["Two of three pass.", "All pass.\n\nThe goal is reached."] {
        let (answer, calls) = (Some(answer.to_owned()), String::new());
        let effects = machine.apply(GoalInput::Turn { answer, calls, is_plan_finished: false });
        println!("{:?}: {effects:?}", machine.state());
    }
    Ok(())
}
