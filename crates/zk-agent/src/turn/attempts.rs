use zk_core::model::{AgentError, Model, Usage};

use crate::budget::Reservation;

/// Usage of the attempts at one response: those that are followed by another may be billed as well.
pub(crate) struct Attempts<'a> {
    model: &'a Model,
    earlier: Usage,
    current: Usage,
    /// Amount reserved for what the attempts may cost; charged with what they did.
    reservation: Option<Reservation>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(model: &'a Model, reservation: Option<Reservation>) -> Self {
        Self { model, earlier: Usage::default(), current: Usage::default(), reservation }
    }

    pub(crate) fn model(&self) -> &'a Model {
        self.model
    }

    /// Sets the usage of the whole current attempt so far.
    pub(crate) fn count(&mut self, usage: Usage) {
        self.current = usage;
    }

    /// Begins to count another attempt.
    ///
    /// # Errors
    /// When the budget has no room for it beside what the last one cost.
    pub(crate) fn begin_next(&mut self) -> Result<(), AgentError> {
        self.charge();
        self.earlier = self.total();
        self.current = Usage::default();
        self.reservation.as_ref().map_or(Ok(()), Reservation::check_again)
    }

    fn charge(&self) {
        if let Some(reservation) = &self.reservation {
            reservation.charge(self.model, &self.current);
        }
    }

    /// The usage of all of them. Each has its own price, since one depends on how much one request read.
    pub(crate) fn total(&self) -> Usage {
        if self.earlier == Usage::default() {
            return self.current;
        }
        let billed = |usage: Usage| Usage {
            billed: self.model.cost(&usage).map(|dollars| (dollars * 1e9).round() as u64),
            ..usage
        };
        let mut total = billed(self.earlier);
        total += billed(self.current);
        total.last_read = Some(self.current.context());
        total
    }
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.charge();
    }
}
