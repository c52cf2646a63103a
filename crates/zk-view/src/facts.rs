use std::collections::{HashMap, VecDeque};

use zk_core::model::CallId;

use crate::queues::Queues;
use crate::record::CallFact;

/// The facts of a turn's calls, as they become known. An id need not be unique: the last call of that id which is
/// not over is meant.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    all: Vec<CallFact>,
    /// Places of the facts of calls that are not over, by the ids of the calls.
    open: HashMap<CallId, VecDeque<usize>>,
}

impl Facts {
    /// Facts that were stored, of calls that are not over.
    pub(crate) fn from_stored(all: Vec<CallFact>) -> Self {
        let mut open: HashMap<CallId, VecDeque<usize>> = HashMap::with_capacity(all.len());
        for (at, fact) in all.iter().enumerate() {
            open.entry(fact.call_id.clone()).or_default().push_back(at);
        }
        Self { all, open }
    }

    /// The facts of the last call of this id which is not over; new ones if there is none.
    pub(crate) fn of(&mut self, call_id: &CallId) -> Option<&mut CallFact> {
        let known = self.open.get(call_id).and_then(|open| open.back().copied());
        let at = known.unwrap_or_else(|| {
            let at = self.add(call_id);
            self.open.entry(call_id.clone()).or_default().push_back(at);
            at
        });
        self.all.get_mut(at)
    }

    /// Notes that the last call of this id is over, and gives its facts.
    pub(crate) fn end(&mut self, call_id: &CallId) -> Option<&mut CallFact> {
        let at = self.open.get_mut(call_id).and_then(VecDeque::pop_back);
        let at = at.unwrap_or_else(|| self.add(call_id));
        self.all.get_mut(at)
    }

    /// Notes that the first call of this id which is not over is, and gives its facts.
    pub(crate) fn end_first(&mut self, call_id: &CallId) -> Option<&mut CallFact> {
        let at = self.open.get_mut(call_id).and_then(VecDeque::pop_front);
        let at = at.unwrap_or_else(|| self.add(call_id));
        self.all.get_mut(at)
    }

    fn add(&mut self, call_id: &CallId) -> usize {
        self.all.push(CallFact::new(call_id.clone()));
        self.all.len() - 1
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.open.clear();
    }

    /// All facts, in the order in which the calls became known.
    pub(crate) fn to_vec(&self) -> Vec<CallFact> {
        self.all.clone()
    }

    /// The facts by the ids of the calls, those of one id in their order.
    pub(crate) fn into_queues(self) -> Queues<CallId, CallFact> {
        self.all.into_iter().map(|fact| (fact.call_id.clone(), fact)).collect()
    }
}
