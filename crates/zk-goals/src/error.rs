/// Reason for which a goal cannot be set or changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GoalError {
    /// Another goal is active or paused.
    #[error("the goal `{text}` is not reached: /goal clear removes it, /done says that it is reached")]
    Active {
        /// Beginning of that goal's text.
        text: String,
    },
    /// The settings allow no autonomous goals.
    #[error(
        "autonomous goals are off: write `autonomous = true` under [goals] in your settings.toml, or run `zk config set goals.autonomous true`"
    )]
    NotAllowed,
    /// There is no goal.
    #[error("this conversation has no goal: /goal TEXT sets one")]
    Nothing,
    /// The goal is active already.
    #[error("the goal is active already")]
    AlreadyActive,
    /// Arguments of `/goal` that cannot be parsed, with the reason.
    #[error("{0}")]
    Arguments(String),
}
