use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Engine, EngineError, EngineName, Take};
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
    let given = args.name.as_deref().map(name).transpose()?;
    let mut named = BTreeMap::<EngineName, _>::new();
    for given in args.workspaces() {
        let (workspace, dir) =
            given.map_err(|given| Failure::usage(format!("--workspace {given}: give it as NAME=DIR")))?;
        named.insert(name(workspace)?, canonical(&app.work.cwd.join(dir))?);
    }
    let queues = args.queue.iter().map(|queue| name(queue)).collect::<Outcome<Vec<_>>>()?;
    let take = |worker| Take {
        queues: queues.clone(),
        max_legs: usize::from(args.legs),
        once: args.once,
        ..Take::new(worker)
    };
    let machine = &app.work.machine;
    let screen = SharedScreen::new(Screen::stderr(&machine.terminal()));
    let log = screen.clone();
    machine.notices.route_to(move |text| log.line(Style::PLAIN, &format!("zk: {text}")));
    let stop = CancellationToken::new();
    let signals = signals::watch(|| ()).map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    signals.arm_process(stop.clone(), || ());
    let engine = engine(machine)?;
    let kept = kept_workspaces(app)?;
    let places = LegPlaces { named, host: host_name(app).ok(), kept: kept.clone() };
    let agents = Arc::new(WorkerAgents::new(app.clone(), places, screen.clone()));
    let legs = Arc::new(AgentLegs::new(agents).with_runs(runs(machine)?));
    let place = engine_name(machine)?;
    let sweeping = async {
        match &kept {
            Some(kept) => {
                kept.keep_swept(&*engine, |text| screen.line(Style::PLAIN, &format!("zk: {text}"))).await
            }
            None => std::future::pending().await,
        }
    };
    let serving = async {
        let mut taken = BTreeSet::new();
        loop {
            let worker = match &given {
                Some(given) => given.clone(),
                None => free_name(&*engine, &taken).await?,
            };
            screen.line(Style::PLAIN, &format!("zk: {worker} serves {place}"));
            match engine.serve(take(worker.clone()), legs.clone(), stop.clone()).await {
                // Another worker took the name in this moment.
                Err(EngineError::NameTaken(name)) if given.is_none() => taken.insert(name),
                served => {
                    served?;
                    screen.line(Style::PLAIN, &format!("zk: {worker} ends"));
                    return Outcome::Ok(());
                }
            };
        }
    };
    runtime()?.block_on(async {
        tokio::select! {
            served = serving => served,
            () = sweeping => Ok(()),
        }
    })?;
    Ok(signals.seen().map_or(Exit::Done, exit_of))
}

/// Returns the first name `worker-1`, `worker-2`, … that no worker has, so that a worker that is started again takes
/// the legs of the one that died.
async fn free_name(engine: &dyn Engine, taken: &BTreeSet<EngineName>) -> Outcome<EngineName> {
    let workers = engine.health().await?.workers;
    let is_alive = |name: &EngineName| workers.iter().any(|worker| worker.is_alive && worker.name == *name);
    for number in 1_u32.. {
        let free = name(&format!("worker-{number}"))?;
        if !taken.contains(&free) && !is_alive(&free) {
            return Ok(free);
        }
    }
    Err(Failure::failed("every name of a worker is taken: give one with --name".to_owned()))
}
