use std::ops::Range;
use std::sync::Arc;

use super::{Change, Comparing, Difference, Place};
use crate::log::PartFacts;
use crate::recording::{RecordedRequest, RecordedRun};

impl Comparing<'_> {
    /// Compares the requests with these numbers, as far as both recordings have them.
    pub(super) fn compare_requests(&mut self, one: &RecordedRun, other: &RecordedRun, range: Range<usize>) {
        let (Some(recorded), Some(replayed)) = (&one.requests, &other.requests) else { return };
        for index in range {
            let place = Place { run: self.run, turn: None, request: Some(self.requests + index + 1) };
            match (recorded.get(index), replayed.get(index)) {
                (Some(one), Some(other)) => {
                    // A change that persists from one request to the next is reported once.
                    let before = index.checked_sub(1);
                    let before = before.and_then(|at| Some((recorded.get(at)?, replayed.get(at)?)));
                    let changes = request_changes(one, other, before);
                    self.found.extend(changes.into_iter().map(|change| Difference { place, change }));
                }
                (None, Some(_)) => {
                    self.found.push(Difference { place, change: Change::RequestAdded });
                    return;
                }
                (Some(_), None) | (None, None) => return,
            }
        }
    }
}

fn request_changes(
    one: &RecordedRequest,
    other: &RecordedRequest,
    before: Option<(&RecordedRequest, &RecordedRequest)>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let is_new = |same: fn(&RecordedRequest, &RecordedRequest) -> bool| {
        before.is_none_or(|(recorded, replayed)| !(same(recorded, one) && same(replayed, other)))
    };
    if one.model != other.model && is_new(|a, b| a.model == b.model) {
        let (recorded, replayed) = (one.model.to_string(), other.model.to_string());
        changes.push(Change::Model { recorded, replayed });
    }
    if one.thinking != other.thinking && is_new(|a, b| a.thinking == b.thinking) {
        changes.push(Change::Thinking { recorded: one.thinking, replayed: other.thinking });
    }
    if one.system != other.system && is_new(|a, b| a.system == b.system) {
        changes.extend(system_changes(&one.system, &other.system));
    }
    if one.tools != other.tools && is_new(|a, b| a.tools == b.tools) {
        changes.push(tools_change(&one.tools, &other.tools));
    }
    changes.extend(messages_change(&one.messages, &other.messages, before));
    changes
}

/// Changed, added and removed sections, in the order of the prompt.
fn system_changes(one: &[PartFacts], other: &[PartFacts]) -> Vec<Change> {
    let find = |all: &[PartFacts], name: &str| all.iter().find(|part| part.name == name).cloned();
    let mut changes = Vec::new();
    for part in one {
        let section = part.name.clone();
        match find(other, &part.name) {
            None => changes.push(Change::SectionRemoved { section, bytes: part.bytes }),
            Some(now) if now.digest != part.digest => {
                changes.push(Change::Section {
                    section,
                    recorded_bytes: part.bytes,
                    replayed_bytes: now.bytes,
                });
            }
            Some(_) => {}
        }
    }
    let added = other.iter().filter(|part| find(one, &part.name).is_none());
    changes.extend(added.map(|part| Change::SectionAdded { section: part.name.clone(), bytes: part.bytes }));
    if changes.is_empty() {
        changes.push(Change::SectionOrder);
    }
    changes
}

fn tools_change(one: &[PartFacts], other: &[PartFacts]) -> Change {
    let has = |all: &[PartFacts], name: &str| all.iter().any(|part| part.name == name);
    let names = |all: &[PartFacts], not_in: &[PartFacts]| -> Vec<String> {
        all.iter().filter(|part| !has(not_in, &part.name)).map(|part| part.name.clone()).collect()
    };
    let is_changed =
        |part: &&PartFacts| other.iter().any(|now| now.name == part.name && now.digest != part.digest);
    Change::Tools {
        added: names(other, one),
        removed: names(one, other),
        changed: one.iter().filter(is_changed).map(|part| part.name.clone()).collect(),
    }
}

/// First message of the history that differs, unless the request before had it already.
fn messages_change(
    one: &[Arc<PartFacts>],
    other: &[Arc<PartFacts>],
    before: Option<(&RecordedRequest, &RecordedRequest)>,
) -> Option<Change> {
    if one == other {
        return None;
    }
    let differs = |(one, other): (Option<&Arc<PartFacts>>, Option<&Arc<PartFacts>>)| {
        one.map(|part| &part.digest) != other.map(|part| &part.digest)
    };
    let first = |one: &[Arc<PartFacts>], other: &[Arc<PartFacts>]| {
        (0..one.len().max(other.len())).find(|at| differs((one.get(*at), other.get(*at))))
    };
    let at = first(one, other)?;
    if before
        .is_some_and(|(one, other)| first(&one.messages, &other.messages).is_some_and(|known| known <= at))
    {
        return None;
    }
    let role = one.get(at).or(other.get(at)).map(|part| part.name.clone()).unwrap_or_default();
    let bytes = |all: &[Arc<PartFacts>]| all.get(at).map(|part| part.bytes);
    Some(Change::History {
        message: at + 1,
        role,
        recorded_messages: one.len(),
        replayed_messages: other.len(),
        recorded_bytes: bytes(one),
        replayed_bytes: bytes(other),
    })
}
