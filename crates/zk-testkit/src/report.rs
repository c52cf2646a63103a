use std::fmt;

/// Results of a conformance suite, such as [`check_store`](crate::check_store).
#[derive(Clone, Debug, Default)]
pub struct Conformance {
    /// Names of the passed checks.
    pub passed: Vec<&'static str>,
    /// Names of the failed checks, each with the reason.
    pub failed: Vec<(&'static str, String)>,
    /// Names of the checks of abilities that the implementation says it does not have.
    pub skipped: Vec<&'static str>,
}

impl Conformance {
    /// Whether all checks passed.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.failed.is_empty()
    }

    pub(crate) fn add_result(&mut self, check: &'static str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.passed.push(check),
            Err(why) => self.failed.push((check, why)),
        }
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} checks passed, {} failed", self.passed.len(), self.failed.len())?;
        self.skipped.iter().try_for_each(|check| writeln!(f, "skipped: {check}"))?;
        self.failed.iter().try_for_each(|(check, why)| writeln!(f, "{check}: {why}"))
    }
}
