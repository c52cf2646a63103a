use zk_core::model::AgentError;

#[test]
fn the_turn_limit_error_uses_singular_and_plural() {
    let text = |turns| AgentError::TurnLimit { turns }.to_string();
    assert!(text(1).starts_with("stopped after 1 turn, ") && text(2).starts_with("stopped after 2 turns, "));
}
