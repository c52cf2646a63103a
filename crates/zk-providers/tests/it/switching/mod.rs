//! One session that goes from provider to provider, over real sockets, at servers that check every request.

pub(crate) mod station;
mod visit;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt;
use zk_core::model::Message;
use zk_testkit::FakeServer;

use station::{Back, STATIONS, Station};
use visit::{Stop, call_by, stay};

/// Bodies of one station's requests, visit by visit.
struct Heard {
    server: FakeServer,
    until: Vec<usize>,
}

impl Heard {
    fn at(station: &Station) -> Self {
        Self { server: station.server(visit::script()), until: Vec::new() }
    }

    /// The bodies of the requests of the `number`th visit, from 0.
    fn visit(&self, number: usize) -> Vec<String> {
        let from = number.checked_sub(1).map_or(0, |before| self.until[before]);
        let bodies = self.server.bodies();
        bodies[from..self.until[number]].iter().map(ToString::to_string).collect()
    }
}

/// The session goes to each stop in turn. All that its models thought is marked with their names.
async fn travel(route: &[Stop<'_>]) -> BTreeMap<&'static str, Heard> {
    let mut heard = BTreeMap::new();
    let mut history: Vec<Arc<Message>> = Vec::new();
    for (number, stop) in route.iter().enumerate() {
        let at = heard.entry(stop.station.name).or_insert_with(|| Heard::at(stop.station));
        // Coming back is enough to see the next request.
        if number < 2 {
            stay(stop, &at.server, &mut history).await;
        } else {
            call_by(stop, &at.server, &mut history).await;
        }
        at.until.push(at.server.bodies().len());
        let bodies: Vec<String> = at.server.bodies().iter().map(ToString::to_string).collect();
        assert_none(&bodies, visit::PAINTER, route);
        let provider = stop.station.provider(&at.server);
        let shows = provider.rules(&provider.model(stop.model)).image_in_answer;
        let is_shown = bodies.iter().any(|body| body.contains(visit::PAINTED));
        assert_eq!(is_shown, shows, "{}: what another model drew", stop.station.name);
        let broken = at.server.violations();
        assert!(broken.is_empty(), "{} after {:?}: {broken:?}", stop.station.name, names(route));
    }
    heard
}

fn names<'a>(route: &[Stop<'a>]) -> Vec<&'a str> {
    route.iter().map(|stop| stop.model).collect()
}

fn assert_none(bodies: &[String], of: &str, route: &[Stop<'_>]) {
    for mark in [visit::thought(of), visit::proof(of)] {
        let leak = bodies.iter().find(|body| body.contains(&mark));
        assert!(leak.is_none(), "{mark:?} went to another model on {:?}: {leak:?}", names(route));
    }
}

/// Checks that the data of `back` was sent back to the model it came from.
fn assert_back(bodies: &[String], of: &str, back: Back, route: &[Stop<'_>]) {
    let last = bodies.last().expect("a visit has requests");
    let has = |mark: String| last.contains(&mark);
    let found = (has(visit::thought(of)), has(visit::proof(of)));
    let expected = match back {
        Back::Nothing => (false, false),
        Back::Proof => (found.0, true),
        Back::Thought => (true, found.1),
        Back::Both => (true, true),
    };
    assert_eq!(found, expected, "thought and proof of {of} on {:?}: {last}", names(route));
}

#[tokio::test]
async fn a_session_goes_from_every_provider_to_every_other_and_back() {
    let pairs = STATIONS.iter().flat_map(|one| STATIONS.iter().map(move |other| (one, other)));
    let pairs: Vec<_> = pairs.filter(|(one, other)| one.name != other.name).collect();
    let done = futures_util::stream::iter(pairs.iter().map(|(one, other)| async move {
        let (here, there) = (Stop::first(one), Stop::first(other));
        let route = [here, there, here];
        let heard = travel(&route).await;
        assert_none(&heard[other.name].visit(0), here.model, &route);
        let back = heard[one.name].visit(1);
        assert_none(&back, there.model, &route);
        assert_back(&back, here.model, one.back, &route);
    }));
    let count = done.buffer_unordered(8).count().await;
    assert_eq!(count, STATIONS.len() * (STATIONS.len() - 1));
    println!("{count} ordered pairs of {} providers", STATIONS.len());
}

#[tokio::test]
async fn a_session_goes_from_every_model_to_another_of_its_provider_and_back() {
    let done = futures_util::stream::iter(STATIONS.iter().map(|station| async move {
        for turned in [false, true] {
            let (mut here, mut there) = (Stop::first(station), Stop::second(station));
            if turned {
                std::mem::swap(&mut here, &mut there);
            }
            let route = [here, there, here];
            let heard = &travel(&route).await[station.name];
            assert_none(&heard.visit(1), here.model, &route);
            assert_none(&heard.visit(2), there.model, &route);
            assert_back(&heard.visit(2), here.model, station.back, &route);
        }
    }));
    let count = 2 * done.buffer_unordered(8).count().await;
    println!("{count} ordered pairs of models within {} providers", STATIONS.len());
}
