use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::RwLock;
use zk_core::kernel::Bus;
use zk_core::model::{Concurrency, ToolError, ToolOutput};
use zk_core::service::{Tool, ToolCx};
use zk_mcp::{ServedCall, ServedTool, ServedTools};

use super::run_tool::{RUN, RunTool};
use crate::app::AppContext;
use crate::compose::{self, HostOptions};
use crate::exit::Outcome;
use crate::place;
use crate::sessions::Session;
use crate::settings::TOOLS_OF_RUNS;

/// Tools that `zk mcp serve` offers: those of an unattended bus, and `run`.
pub(super) struct ProgramTools {
    pub(super) app: AppContext,
    pub(super) bus: Bus,
    pub(super) run: Arc<RunTool>,
    /// Lock that exclusive calls hold for writing, and other calls for reading.
    pub(super) order: RwLock<()>,
}

impl ProgramTools {
    pub(super) async fn new(app: &AppContext) -> Outcome<Self> {
        let mut own = app.clone();
        // Tools of other MCP servers are not passed on.
        own.settings.leave_out_mcp_servers();
        let bus = compose::bus(&own, &Session::default(), HostOptions::unattended(&app.settings)).await?;
        Ok(Self { app: app.clone(), bus, run: Arc::new(RunTool::new(app)), order: RwLock::default() })
    }

    /// Carries out a call through all gates, like a call of a model.
    pub(super) async fn carry_out(
        &self,
        tool: Arc<dyn Tool>,
        call: ServedCall,
    ) -> Result<ToolOutput, ToolError> {
        let ServedCall { args, progress, stop, .. } = call;
        let cx = ToolCx {
            progress,
            ..ToolCx::new(
                self.bus.cx().with_stop(stop),
                place::cwd(&self.app.work, &self.app.settings, &self.bus),
            )
        };
        cx.run(tool, args).await?.into_output()
    }
}

/// Removes the display and the tool's own data from an output.
pub(super) fn content_only(output: ToolOutput) -> ToolOutput {
    ToolOutput { content: output.content, display: None, details: None }
}

#[async_trait]
impl ServedTools for ProgramTools {
    fn list(&self) -> Vec<ServedTool> {
        let place = ToolCx::new(self.bus.cx(), &self.app.work.cwd).place();
        let nothing = json!({});
        let own = self.bus.items::<dyn Tool>().into_iter();
        let own = own.filter(|tool| !TOOLS_OF_RUNS.contains(&&*tool.name)).map(|tool| ServedTool {
            spec: tool.value.spec().clone(),
            is_read_only: tool.value.effects(&nothing, &place).is_read_only(),
            output_schema: None,
        });
        let mut tools: Vec<ServedTool> = own.chain([self.run.served()]).collect();
        tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        tools
    }

    async fn call(&self, call: ServedCall) -> Result<ToolOutput, ToolError> {
        if call.name == RUN {
            // A run has its own bus and may take long, so it does not take the lock.
            let output = self.carry_out(self.run.clone(), call).await?;
            return Ok(ToolOutput { display: None, ..output });
        }
        let tool = self.bus.item::<dyn Tool>(&call.name);
        let tool = tool.ok_or_else(|| ToolError::failed(format!("there is no tool {}", call.name)))?;
        match tool.concurrency(&call.args) {
            Concurrency::Shared => {
                let _shared = self.order.read().await;
                self.carry_out(tool, call).await.map(content_only)
            }
            Concurrency::Exclusive | Concurrency::Resources(_) => {
                let _alone = self.order.write().await;
                self.carry_out(tool, call).await.map(content_only)
            }
        }
    }
}
