//! A server of `zk rpc` inside of a program, with a scripted model: one prompt, and the lines that tell of it.
#![expect(clippy::print_stdout, reason = "an example shows its lines")]

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex, split};
use zk_agent::Agent;
use zk_chat::{AgentFactory, ChatSetup, ConversationFactory, ConversationLauncher, LaunchRequest};
use zk_core::kernel::BoxError;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Redactor, SessionStore};
use zk_exec::LocalHostFiles;
use zk_serve::rpc::{RpcOptions, RpcServer, RpcTokens};
use zk_testkit::{Script, ScriptedProvider};

struct Scripted;

#[async_trait]
impl ConversationLauncher for Scripted {
    fn launch(&self, _: &LaunchRequest) -> Result<Arc<dyn ConversationFactory>, BoxError> {
        let setup = ChatSetup::new(std::env::temp_dir(), Arc::new(LocalHostFiles::default()));
        Ok(Arc::new(AgentFactory::new(setup, |bus| {
            let provider = ScriptedProvider::new(Script::new().turn(|turn| turn.text("Hello.")));
            Ok(Agent::builder(Arc::new(provider)).bus(bus).model_id("scripted").build()?)
        })))
    }

    fn store(&self) -> Result<Arc<dyn SessionStore>, BoxError> {
        Err("this program keeps no sessions".into())
    }

    async fn copy(&self, _: &SessionId, _: Option<&EntryId>) -> Result<SessionId, BoxError> {
        Err("this program keeps no sessions".into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = RpcServer::new(RpcOptions {
        launcher: Arc::new(Scripted),
        redactor: Arc::new(Redactor::new()),
        tokens: RpcTokens::generate()?,
        cwd: std::env::temp_dir(),
        version: "0.1.0".to_owned(),
    });
    let (own, other) = duplex(64 * 1024);
    let serving = tokio::spawn({
        let (server, (from, to)) = (server.clone(), split(other));
        async move { server.serve_parent(from, to).await }
    });
    let (from, mut to) = split(own);
    let mut lines = BufReader::new(from).lines();
    to.write_all(
        b"{\"id\":1,\"method\":\"initialize\",\"params\":{\"protocol_version\":\"1.0\",\"role\":\"driver\"}}\n\
          {\"id\":2,\"method\":\"session/new\"}\n",
    )
    .await?;
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        if let Some((_, rest)) = line.split_once("\"conversation\":\"").filter(|_| line.contains("\"id\":2"))
        {
            let id = rest.split('"').next().unwrap_or_default();
            for (number, method, more) in [(3, "subscribe", ""), (4, "submit", ",\"text\":\"Hi.\"")] {
                let params = format!("{{\"conversation\":\"{id}\"{more}}}");
                let line = format!("{{\"id\":{number},\"method\":\"{method}\",\"params\":{params}}}\n");
                to.write_all(line.as_bytes()).await?;
            }
        }
        if line.contains("conversation/settled") {
            break;
        }
    }
    drop((to, lines));
    serving.await?;
    server.close().await;
    Ok(())
}
