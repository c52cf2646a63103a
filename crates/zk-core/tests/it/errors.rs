use zk_core::model::AgentError;

#[test]
fn a_limit_of_turns_counts_them_as_one_does() {
    let text = |turns| AgentError::TurnLimit { turns }.to_string();
    assert!(text(1).starts_with("stopped after 1 turn, ") && text(2).starts_with("stopped after 2 turns, "));
}
