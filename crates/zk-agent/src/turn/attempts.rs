use zk_core::model::{AgentError, Model, Usage};

use crate::budget::Reservation;

/// Usage of all attempts at one response. Failed attempts may be billed too.
pub(crate) struct Attempts<'a> {
    model: &'a Model,
    earlier: Usage,
    current: Usage,
    /// Reservation for the attempts, which is charged with their actual usage.
    reservation: Option<Reservation>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(model: &'a Model, reservation: Option<Reservation>) -> Self {
        Self { model, earlier: Usage::default(), current: Usage::default(), reservation }
    }

    pub(crate) fn model(&self) -> &'a Model {
        self.model
    }

    /// Sets the total usage of the current attempt so far.
    pub(crate) fn set_usage(&mut self, usage: Usage) {
        self.current = usage;
    }

    /// Begins the count of another attempt.
    ///
    /// # Errors
    /// The budget has no room for it after the cost of the last attempt.
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

    /// Returns the usage of all attempts. Prices are per attempt, because a price may depend on the size of
    /// the input.
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
