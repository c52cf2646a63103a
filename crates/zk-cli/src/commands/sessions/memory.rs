//! `zk memory`: lists and changes the remembered facts.

use std::io::IsTerminal;
use std::path::Path;

use serde_json::{Value, json};
use zk_core::service::visible_line;
use zk_memory::{
    Fact, FactFilter, FactOrigin, FactScope, FactState, MemoryError, MemoryStore, NewFact, Saved, report,
};

use super::super::print;
use crate::app::AppContext;
use crate::args::memory::MemoryAction;
use crate::compose;
use crate::exit::{Exit, Explain, Failure, Outcome};

impl Explain for MemoryError {
    fn exit(&self) -> Exit {
        if self.is_of_file() { Exit::Failed } else { Exit::Usage }
    }
}

/// Runs one command about the memory.
pub(crate) fn memory(app: &AppContext, action: MemoryAction) -> Outcome<Exit> {
    let store = compose::sessions::memory::store(&app.work)
        .ok_or_else(|| Failure::usage("the memory has no place here: set HOME or ZK_HOME"))?;
    let here = &app.work.project;
    let lines = match action {
        MemoryAction::List { all, proposed, json } => list(&store, here, (all, proposed), json)?,
        MemoryAction::Add { text, everywhere } => {
            require_terminal("a fact is kept", "/remember")?;
            let scope = if everywhere { FactScope::Everywhere } else { FactScope::Project(here.clone()) };
            let place = scope.describe(here);
            let fact = NewFact { text, scope, origin: FactOrigin::Person, session: None };
            vec![match store.keep(&fact)? {
                Saved::New(id) => visible_line(&format!("kept as {id}, {place}")),
                Saved::Known(id) => format!("it is kept already, as {id}"),
            }]
        }
        MemoryAction::Show { id } => report::show(&store.fact(id)?, here),
        MemoryAction::Forget { id } | MemoryAction::Reject { id } => report::forgotten(&store.forget(id)?),
        MemoryAction::Edit { id, text } => {
            require_terminal("a fact is changed", "/memory edit")?;
            let fact = store.edit(id, &text)?;
            vec![visible_line(&format!("{id} says now: {}", fact.text))]
        }
        MemoryAction::Why => report::why(store.last_recall(here, None)?.as_ref(), here),
        MemoryAction::Accept { id } => {
            require_terminal("a proposal is accepted", "/memory accept")?;
            let fact = store.accept(id)?;
            vec![visible_line(&format!("kept: {}", fact.text))]
        }
    };
    if !app.settings.memory.enabled {
        zk_tui::term::print_stderr(
            "zk: the memory is switched off here (`memory.enabled`): nothing is recalled or kept by a model",
        );
    }
    print(&app.work.machine, &lines)
}

/// Fails without a terminal, for commands that only a person may run: a model's command has no terminal.
fn require_terminal(what: &str, command: &str) -> Outcome<()> {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format!("{what} by a person: run this on a terminal, or {command} in a conversation")))
}

fn list(
    store: &MemoryStore,
    here: &Path,
    (all, proposed): (bool, bool),
    is_json: bool,
) -> Outcome<Vec<String>> {
    let filter = FactFilter { project: (!all).then(|| here.to_owned()), proposed };
    let facts = store.list(&filter)?;
    if is_json {
        let rows = Value::Array(facts.iter().map(as_json).collect());
        let text = serde_json::to_string_pretty(&rows).map_err(Failure::failed)?;
        return Ok(text.lines().map(str::to_owned).collect());
    }
    if proposed {
        return Ok(report::proposals(&facts, here));
    }
    Ok(report::list(&facts, store.count_proposals(here)?, here))
}

fn as_json(fact: &Fact) -> Value {
    let project = match &fact.scope {
        FactScope::Project(root) => Some(root.to_string_lossy()),
        FactScope::Everywhere => None,
    };
    let (origin, path) = match &fact.origin {
        FactOrigin::Person => ("person", None),
        FactOrigin::Model => ("model", None),
        FactOrigin::File(path) => ("file", Some(path.to_string_lossy())),
    };
    json!({
        "id": fact.id.to_string(), "text": fact.text, "project": project, "origin": origin, "path": path,
        "proposed": fact.state == FactState::Proposed, "session": fact.session, "changed_ms": fact.changed_ms,
        "used_ms": fact.used_ms, "uses": fact.uses,
    })
}
