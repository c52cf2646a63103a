//! A tool source whose tools change between turns: a server that offers other tools once somebody signed in.
//!
//! The model signs in, and from its next turn on it has the tools of the account. Signing out takes them away
//! again. `tools:changed` says what came and went, and whose it is.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::Agent;
use zk_core::events::{ToolChangeKind, ToolsChanged};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope, ScopeGuard};
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx};
use zk_testkit::{Script, ScriptedProvider};

/// Tools that an account offers.
const ACCOUNT: [&str; 2] = ["balance", "transfer"];

/// The plugin. The tools of an account live in a scope of their own: closing it takes them all away.
#[derive(Clone, Default)]
struct Bank {
    account: Arc<Mutex<Option<ScopeGuard>>>,
}

impl Plugin for Bank {
    fn name(&self) -> &str {
        "bank"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        for name in ["sign_in", "sign_out"] {
            scope.provide::<dyn Tool>(name, BankTool::new(name, self))?;
        }
        Ok(())
    }
}

struct BankTool {
    spec: Arc<ToolSpec>,
    bank: Bank,
}

impl BankTool {
    fn new(name: &str, bank: &Bank) -> Arc<Self> {
        let spec = ToolSpec::new(name, format!("{name} at the bank."), json!({"type": "object"}));
        Arc::new(Self { spec, bank: bank.clone() })
    }
}

#[async_trait]
impl Tool for BankTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        match &*self.spec.name {
            "sign_in" => {
                let scope = cx.cx.bus().scope("bank-account");
                for name in ACCOUNT {
                    let tool = BankTool::new(name, &self.bank);
                    scope
                        .provide::<dyn Tool>(name, tool)
                        .map_err(|error| ToolError::failed(error.to_string()))?;
                }
                *self.bank.account.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(scope.close_on_drop());
                Ok(ToolOutput::text("Signed in."))
            }
            "sign_out" => {
                let account = self.bank.account.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(account) = account {
                    account.close().await;
                }
                Ok(ToolOutput::text("Signed out."))
            }
            _ => Ok(ToolOutput::text("42")),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let script = Script::new()
        .turn(|turn| turn.call("sign_in", json!({})))
        .turn(|turn| turn.call("balance", json!({})))
        .turn(|turn| turn.call("sign_out", json!({})))
        .turn(|turn| turn.text("You have 42."));
    let provider = ScriptedProvider::new(script);
    // A bank without money: nobody is asked about its calls.
    let agent = Agent::builder(Arc::new(provider.clone())).plugin(Bank::default()).unguarded().build()?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    agent.bus().scope("watcher").on_sync(move |changed: &ToolsChanged, _: &Cx| {
        for change in &changed.changes {
            let sign = if change.kind == ToolChangeKind::Added { '+' } else { '-' };
            let line = format!("turn {}: {sign}{} of {}", changed.turn, change.name, change.source);
            println!("{line}");
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    });
    let outcome = agent.run("What is my balance?")?.wait().await;
    outcome.result?;
    println!("{}", outcome.text);

    // Tools that the model was offered, turn by turn: what comes stands behind what was there.
    let offered: Vec<String> = provider.asked().iter().map(|asked| asked.tools.join(" ")).collect();
    let signed_in = "sign_in sign_out balance transfer";
    assert_eq!(offered, ["sign_in sign_out", signed_in, signed_in, "sign_in sign_out"]);
    assert_eq!(
        *seen.lock().unwrap_or_else(PoisonError::into_inner),
        [
            "turn 2: +balance of bank-account",
            "turn 2: +transfer of bank-account",
            "turn 4: -balance of bank-account",
            "turn 4: -transfer of bank-account",
        ]
    );
    Ok(())
}
