//! Decides when the model is told of the tools of each server.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use zk_core::model::Disclosure;

use crate::config::server_config::{ServerConfig, ServerDisclosure};

/// Default limit of tokens that the tools of all servers may use in every request.
pub(crate) const EAGER_TOKENS: u32 = 10_000;
/// Approximate bytes per token.
const BYTES_PER_TOKEN: usize = 4;

/// Token budget shared by the tools of servers whose settings do not decide on disclosure.
///
/// If all tools together do not fit before the first run, the model has to search for all of them. From then
/// on, disclosed tools stay disclosed, and tools that do not fit besides them have to be searched for.
pub(crate) struct Disclosures {
    usual: Option<ServerDisclosure>,
    /// Budget for tool specifications in bytes.
    budget: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes of the tools in every request, by server.
    eager: BTreeMap<String, usize>,
    is_over: bool,
    has_begun: bool,
}

/// Decision on the disclosure of a server's tools.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disclosed {
    pub(super) own: Disclosure,
    /// Other servers whose tools become lazy with this decision.
    pub(super) others: Vec<String>,
}

impl Disclosures {
    pub(crate) fn new(usual: Option<ServerDisclosure>, tokens: u32) -> Self {
        let budget = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        Self { usual, budget, state: Mutex::default() }
    }

    /// Records the start of a run, in which the model got the current tools.
    pub(crate) fn begin_run(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_begun = true;
    }

    /// Decides for a server whose tools have this size in bytes.
    pub(super) fn decide(&self, server: &ServerConfig, bytes: usize) -> Disclosed {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.eager.remove(&server.name);
        let only = |own| Disclosed { own, others: Vec::new() };
        match server.disclosure.or(self.usual) {
            Some(ServerDisclosure::Lazy) => return only(Disclosure::Lazy),
            Some(ServerDisclosure::Eager) => return only(Disclosure::Always),
            None => {}
        }
        let filled: usize = state.eager.values().sum();
        if !state.is_over && filled.saturating_add(bytes) <= self.budget {
            state.eager.insert(server.name.clone(), bytes);
            return only(Disclosure::Always);
        }
        if state.has_begun {
            return only(Disclosure::Lazy);
        }
        state.is_over = true;
        let others = std::mem::take(&mut state.eager).into_keys().collect();
        Disclosed { own: Disclosure::Lazy, others }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(name: &str) -> ServerConfig {
        ServerConfig::read(name, &json!({ "command": "x" })).unwrap()
    }

    fn decided(of: &Disclosures, name: &str, bytes: usize) -> (Disclosure, Vec<String>) {
        let Disclosed { own, others } = of.decide(&server(name), bytes);
        (own, others)
    }

    #[test]
    fn servers_that_do_not_fit_together_before_the_first_run_are_all_lazy() {
        let of = Disclosures::new(None, 10);
        assert_eq!(decided(&of, "a", 30), (Disclosure::Always, Vec::new()));
        assert_eq!(decided(&of, "a", 20), (Disclosure::Always, Vec::new()), "it counts once");
        assert_eq!(decided(&of, "b", 20), (Disclosure::Always, Vec::new()));
        let others = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(decided(&of, "c", 1), (Disclosure::Lazy, others));
        assert_eq!(decided(&of, "d", 1), (Disclosure::Lazy, Vec::new()));
        assert_eq!(decided(&of, "a", 20), (Disclosure::Lazy, Vec::new()), "also when it is started again");
    }

    #[test]
    fn disclosed_tools_stay_disclosed_in_later_runs() {
        let of = Disclosures::new(None, 10);
        assert_eq!(decided(&of, "a", 30).0, Disclosure::Always);
        of.begin_run();
        assert_eq!(decided(&of, "b", 20), (Disclosure::Lazy, Vec::new()));
        assert_eq!(decided(&of, "c", 10), (Disclosure::Always, Vec::new()), "it fits");
        assert_eq!(decided(&of, "a", 30).0, Disclosure::Always);
    }

    #[test]
    fn the_settings_of_a_server_go_before_those_of_all_and_those_before_the_budget() {
        let of = Disclosures::new(Some(ServerDisclosure::Lazy), 10);
        assert_eq!(decided(&of, "a", 1).0, Disclosure::Lazy);
        let mut eager = server("b");
        eager.disclosure = Some(ServerDisclosure::Eager);
        assert_eq!(of.decide(&eager, 1000).own, Disclosure::Always);
        let of = Disclosures::new(None, 10);
        assert_eq!(of.decide(&eager, 1000).own, Disclosure::Always);
        assert_eq!(decided(&of, "c", 40).0, Disclosure::Always, "what a person chose counts for itself");
    }
}
