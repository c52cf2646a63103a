/// Reason why no telemetry is sent.
#[derive(Debug, thiserror::Error)]
pub enum OtelError {
    /// A variable or a setting has a value that cannot be used.
    #[error("{name} is `{value}`: {expected}")]
    Value {
        /// Name of the variable or the setting.
        name: String,
        /// The value; a placeholder if it may be secret.
        value: String,
        /// Values that can be used.
        expected: &'static str,
    },
    /// The exporter cannot be made.
    #[error("the exporter cannot be made: {0}")]
    Exporter(String),
}
