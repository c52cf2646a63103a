//! A client for the conformance suite of the protocol: it uses everything that a server offers once, in every
//! scenario. Without an address it prints its purpose. With `ZK_LOAD_SKILLS` it loads every skill and reads
//! the skill's files, which is otherwise done on demand only.
//!
//! `cargo run -p zk-harness-mcp --example conformance -- URL`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example shows its result, and the suite tells by a variable"
)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use zk_auth::{AuthError, AuthorizationCode, Http, Login};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{ToolError, ToolErrorKind, ToolOutput};
use zk_core::service::{Command, HostFiles, Tool, ToolCx};
use zk_exec::LocalHostFiles;
use zk_mcp::{McpPlugin, McpServers, ServerConfig, ServerState, SignInOptions, SignInPage};
use zk_skills::{ServedSkill, SkillHost, SkillRoots, SkillsOptions, SkillsPlugin};

/// Time limit longer than any scenario and shorter than the suite's own.
const LONG: Duration = Duration::from_secs(20);
/// URL of the client metadata document that the suite expects.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let Some(url) = std::env::args().nth(1) else {
        println!("usage: conformance URL (the conformance suite appends it)");
        return Ok(());
    };
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let mut oauth = Map::new();
    for name in ["client_id", "client_secret"] {
        oauth.extend(context.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let definition =
        json!({ "url": url, "oauth": oauth, "skills": "allow", "timeout": 15_000, "start_timeout": 15_000 });
    let bus = Bus::new();
    bus.install(&McpPlugin::new([ServerConfig::read("server", &definition)?], std::env::temp_dir()))?;
    let mut done = use_all(&bus, &context).await;
    if done.is_ok() && std::env::var_os("ZK_LOAD_SKILLS").is_some() {
        done = load_skills(&bus).await;
    }
    bus.close().await;
    done
}

/// Starts the server, signs in as often as it asks, and uses everything that it offers.
async fn use_all(bus: &Bus, context: &Value) -> Result<(), Failure> {
    let servers = bus.service::<McpServers>().ok_or("the plugin is not there")?;
    servers.warm_up(LONG).await;
    while !is_ready(&servers) && servers.wants_sign_in("server").await {
        sign_in(&servers).await?;
        servers.warm_up(LONG).await;
    }
    servers.skills_ready(LONG).await;
    if !is_ready(&servers) {
        return Err(format!("{:?}", servers.status()).into());
    }
    let calls: Vec<(String, Value)> = match context.get("toolCalls").and_then(Value::as_array) {
        Some(calls) => calls.iter().filter_map(given).collect(),
        None => bus.items::<dyn Tool>().iter().filter_map(|tool| made_up(&*tool.value)).collect(),
    };
    for (name, args) in calls {
        match call(bus, &servers, &name, args).await {
            // A tool may fail; a refused sign-in ends the scenario.
            Ok(output) => {
                println!("{name}: {}", output.content.to_text().chars().take(100).collect::<String>())
            }
            Err(error) if error.kind == ToolErrorKind::Denied => return Err(error.message.into()),
            Err(error) => println!("{name} failed: {}", error.message),
        }
    }
    read_resource(bus, &servers).await;
    for command in bus.items::<dyn Command>() {
        let asked = tokio::time::timeout(LONG, command.value.run("text", &bus.cx())).await;
        println!("{}: {asked:?}", command.name);
    }
    Ok(())
}

fn is_ready(servers: &McpServers) -> bool {
    servers.status().iter().all(|status| matches!(status.state, ServerState::Ready { .. }))
}

fn given(call: &Value) -> Option<(String, Value)> {
    let name = call.get("name")?.as_str()?;
    Some((format!("mcp_server_{name}"), call.get("arguments").cloned().unwrap_or_else(|| json!({}))))
}

/// Makes up a call whose arguments fit the tool's schema.
fn made_up(tool: &dyn Tool) -> Option<(String, Value)> {
    let spec = tool.spec();
    spec.name.strip_prefix("mcp_server_")?;
    let properties = spec.schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let args: Map<String, Value> =
        properties.iter().map(|(name, schema)| (name.clone(), value_of(schema))).collect();
    Some((spec.name.clone(), Value::Object(args)))
}

fn value_of(schema: &Value) -> Value {
    let first = |name: &str| schema.get(name).and_then(Value::as_array).and_then(|all| all.first()).cloned();
    if let Some(value) =
        schema.get("default").or_else(|| schema.get("const")).cloned().or_else(|| first("enum"))
    {
        return value;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some(_) | None => json!("text"),
    }
}

/// Calls a tool, and signs in again if the token lacks a scope.
async fn call(bus: &Bus, servers: &McpServers, name: &str, args: Value) -> Result<ToolOutput, ToolError> {
    loop {
        let Some(tool) = bus.item::<dyn Tool>(name) else {
            return Err(ToolError::failed("it is not offered"));
        };
        let cx = ToolCx::new(bus.cx(), std::env::temp_dir());
        let approved = cx.approve(Arc::clone(&tool), args.clone()).await?;
        match tool.call(&approved, &cx).await {
            Err(error) if error.kind == ToolErrorKind::Denied && servers.wants_sign_in("server").await => {
                sign_in(servers)
                    .await
                    .map_err(|error| ToolError::new(ToolErrorKind::Denied, error.to_string()))?;
            }
            done => return done,
        }
    }
}

async fn read_resource(bus: &Bus, servers: &McpServers) {
    let Ok(listed) = call(bus, servers, "mcp_list_resources", json!({})).await else { return };
    let listed = listed.content.to_text();
    let uri = listed.split_whitespace().find(|word| word.contains("://"));
    if let Some(uri) = uri {
        let args = json!({"server": "server", "uri": uri});
        let read = call(bus, servers, "mcp_read_resource", args).await;
        println!("{uri}: {}", read.map_or_else(|error| error.message, |output| output.content.to_text()));
    }
}

/// Skills of the server as a source for the conversation.
struct Served(Arc<McpServers>);

#[async_trait]
impl SkillHost for Served {
    fn skills(&self) -> Vec<ServedSkill> {
        let listed = self.0.skills().into_iter();
        listed
            .map(|skill| ServedSkill {
                uri: skill.uri,
                frontmatter: skill.frontmatter,
                files: skill.files.into_iter().map(|file| (file.uri, file.digest)).collect(),
                is_allowed: skill.is_allowed,
            })
            .collect()
    }

    async fn read(&self, skill: &str, file: &str, cx: &Cx) -> Result<Vec<u8>, String> {
        self.0.read_skill("server", skill, file, cx).await
    }
}

/// Loads each skill and reads its files; fails at the first refusal.
async fn load_skills(bus: &Bus) -> Result<(), Failure> {
    let servers = bus.service::<McpServers>().ok_or("the plugin is not there")?;
    let scope = bus.scope("skills");
    scope.provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    scope.provide::<dyn SkillHost>("server", Arc::new(Served(servers.clone())))?;
    let options = SkillsOptions { max_active: usize::MAX, ..SkillsOptions::new(SkillRoots::default()) };
    let plugin = SkillsPlugin::new(options);
    bus.install(&plugin)?;
    let found = plugin.skills().reload(&bus.cx()).await?;
    for skill in &found.skills {
        let used = call(bus, &servers, "skills_use", json!({"skill": skill.name()})).await?;
        println!("{}: {}", skill.name(), used.content.to_text());
        let files = skill.served.iter().flat_map(|served| &served.entry.files);
        for (uri, _) in files {
            let Some((_, path)) =
                uri.rsplit_once(&format!("/{}/", skill.manifest.name.trim_start_matches("server:")))
            else {
                continue;
            };
            let read =
                call(bus, &servers, "skills_read", json!({"skill": skill.name(), "path": path})).await?;
            println!("{path}: {}", read.content.to_text());
        }
    }
    Ok(())
}

async fn sign_in(servers: &McpServers) -> Result<(), Failure> {
    let options = SignInOptions { client_metadata_url: Some(METADATA.to_owned()) };
    servers.sign_in("server", &Redirected, &options).await?;
    Ok(())
}

/// Sign-in page of a server that redirects at once.
struct Redirected;

#[async_trait]
impl SignInPage for Redirected {
    async fn code(&self, login: &Login) -> Result<AuthorizationCode, AuthError> {
        let failed = |reason: String| AuthError::Unavailable { place: "the page".to_owned(), reason };
        let url = reqwest::Url::parse(login.url()).map_err(|error| failed(error.to_string()))?;
        let client = Http::new().client(&url).map_err(|error| failed(error.to_string()))?;
        let page = client.get(url).send().await.map_err(|error| failed(error.to_string()))?;
        let place = page.headers().get("location").and_then(|place| place.to_str().ok());
        login.pasted(place.unwrap_or_default())
    }
}
