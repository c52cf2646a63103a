use std::collections::{HashMap, VecDeque};

use zk_core::model::CallId;

use crate::queues::Queues;
use crate::record::CallFact;

/// Facts about the calls of a turn. Ids need not be unique: an id refers to the last unfinished call with it.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    all: Vec<CallFact>,
    /// Indexes of unfinished calls' facts, by call id.
    open: HashMap<CallId, VecDeque<usize>>,
}

impl Facts {
    /// Restores stored facts of unfinished calls.
    pub(crate) fn from_stored(all: Vec<CallFact>) -> Self {
        let mut open: HashMap<CallId, VecDeque<usize>> = HashMap::with_capacity(all.len());
        for (at, fact) in all.iter().enumerate() {
            open.entry(fact.call_id.clone()).or_default().push_back(at);
        }
        Self { all, open }
    }

    /// Facts of the last unfinished call with this id; new ones if there is none.
    pub(crate) fn find_or_add(&mut self, call_id: &CallId) -> Option<&mut CallFact> {
        let known = self.open.get(call_id).and_then(|open| open.back().copied());
        let at = known.unwrap_or_else(|| {
            let at = self.add(call_id);
            self.open.entry(call_id.clone()).or_default().push_back(at);
            at
        });
        self.all.get_mut(at)
    }

    /// Marks the last unfinished call with this id as finished and returns its facts.
    pub(crate) fn end_last(&mut self, call_id: &CallId) -> Option<&mut CallFact> {
        let at = self.open.get_mut(call_id).and_then(VecDeque::pop_back);
        let at = at.unwrap_or_else(|| self.add(call_id));
        self.all.get_mut(at)
    }

    /// Marks the first unfinished call with this id as finished and returns its facts.
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

    /// All facts, in the order of the calls.
    pub(crate) fn to_vec(&self) -> Vec<CallFact> {
        self.all.clone()
    }

    /// Queues of facts by call id; facts of calls with the same id keep their order.
    pub(crate) fn into_queues(self) -> Queues<CallId, CallFact> {
        self.all.into_iter().map(|fact| (fact.call_id.clone(), fact)).collect()
    }
}
