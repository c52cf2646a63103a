use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::service::{EngineName, Take};
use zk_engine::{AgentLegs, LegPlaces};
use zk_tui::Style;
use zk_tui::plain::{Screen, SharedScreen};

use crate::app::{AppContext, runtime};
use crate::args::fleet::WorkerArgs;
use crate::commands::runs::{engine, engine_name, host_name, kept_workspaces, name, runs};
use crate::configure::canonical;
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::WorkerAgents;
use crate::signals::{self, exit_of};
use zk_chat::Interrupts;

/// Serves runs until a signal ends it; their legs are then handed over to other workers.
pub(crate) fn worker(app: &AppContext, args: &WorkerArgs) -> Outcome<Exit> {
    let worker = match &args.name {
        Some(given) => name(given)?,
        None => name(&format!("worker-{}", std::process::id()))?,
    };
    let mut named = BTreeMap::<EngineName, _>::new();
    for given in args.workspaces() {
        let (workspace, dir) =
            given.map_err(|given| Failure::usage(format!("--workspace {given}: give it as NAME=DIR")))?;
        named.insert(name(workspace)?, canonical(&app.work.cwd.join(dir))?);
    }
    let take = Take {
        queues: args.queue.iter().map(|queue| name(queue)).collect::<Outcome<_>>()?,
        max_legs: usize::from(args.legs),
        once: args.once,
        ..Take::new(worker.clone())
    };
    let machine = &app.work.machine;
    let screen = SharedScreen::new(Screen::stderr(&machine.terminal()));
    let log = screen.clone();
    machine.notices.route_to(move |text| log.line(Style::PLAIN, &format!("zk: {text}")));
    let stop = CancellationToken::new();
    let signals = signals::watch(|| ()).map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    signals.arm_process(stop.clone(), || ());
    let engine = engine(machine)?;
    screen.line(Style::PLAIN, &format!("zk: {worker} serves {}", engine_name(machine)?));
    let places = LegPlaces { named, host: host_name(app).ok(), kept: kept_workspaces(app)? };
    let agents = Arc::new(WorkerAgents::new(app.clone(), places, screen.clone()));
    let legs = AgentLegs::new(agents).with_runs(runs(machine)?);
    runtime()?.block_on(engine.serve(take, Arc::new(legs), stop))?;
    screen.line(Style::PLAIN, &format!("zk: {worker} ends"));
    Ok(signals.seen().map_or(Exit::Done, exit_of))
}
