//! An extension: a shell script that sees every call before it runs and refuses force pushes.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::Agent;
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx};
use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
use zk_extensions::{Extension, ExtensionConfig};
use zk_testkit::{Script, ScriptedProvider};

/// A shell that only writes down what it is to run.
struct Shell {
    spec: Arc<ToolSpec>,
    ran: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        let command = call.args()["command"].as_str().unwrap_or_default().to_owned();
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        Ok(ToolOutput::text("done"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Script::new()
        .turn(|turn| turn.call("shell", json!({"command": "git push"})))
        .turn(|turn| turn.call("shell", json!({"command": "git push --force"})))
        .turn(|turn| turn.text("The second push was refused."));
    let provider = ScriptedProvider::new(model);

    let here = env!("CARGO_MANIFEST_DIR");
    let guard = Extension::new(ExtensionConfig::new("command-guard", ["bash", "guard.sh"]), here);

    let ran = Arc::new(Mutex::new(Vec::new()));
    let spec = ToolSpec::new("shell", "Runs a command.", json!({"type": "object"}));
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let agent = Agent::builder(Arc::new(provider.clone()))
        .plugin(LocalPlugin::new(environment, WorkspaceFiles::new([here])?))
        .plugin(guard)
        .tool(Arc::new(Shell { spec, ran: ran.clone() }))
        // Nobody is asked about calls that the script lets through.
        .unguarded()
        .build()?;
    let outcome = agent.run("Push, whatever it takes.")?.wait().await;
    outcome.result?;
    agent.close().await;

    let refused = provider.last_results().first().map(|result| result.text.clone()).unwrap_or_default();
    println!("ran: {:?}\nrefused: {refused}", ran.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(*ran.lock().unwrap_or_else(PoisonError::into_inner), ["git push"]);
    assert!(refused.contains("no force push here"), "{refused}");
    Ok(())
}
