use std::sync::Arc;

use zk_core::kernel::Cx;
use zk_core::service::{PromptSection, RunTool, RunTools, Tool, UnknownTool};
use zk_tools::ToolsOptions;

use crate::support::Desk;

/// The tools of a run that may use some only.
struct Only(Vec<&'static str>);

impl RunTools for Only {
    fn tools(&self) -> Vec<RunTool> {
        let tool = |name: &&str| RunTool {
            name: (*name).into(),
            spec: zk_core::model::ToolSpec::new(*name, "", serde_json::json!({})),
            is_lazy: false,
            unlocked: true,
        };
        self.0.iter().map(tool).collect()
    }

    fn unlock(&self, name: &str) -> Result<(), UnknownTool> {
        Err(UnknownTool { name: name.to_owned() })
    }
}

async fn guidance(cx: &Cx) -> String {
    cx.item::<dyn PromptSection>("tools").unwrap().text(cx).await.unwrap()
}

#[tokio::test]
async fn the_prompt_says_of_a_tool_only_what_a_run_needs_that_has_it() {
    let desk = Desk::new();
    let all = guidance(&desk.bus.cx()).await;
    assert!(
        all.contains("`todo_write`") && all.contains("`ask_user`") && all.contains("`present_plan`"),
        "{all}"
    );
    assert!(all.len() <= 600, "{} bytes", all.len());
    let run = |names| desk.bus.cx().with_service::<dyn RunTools>(Arc::new(Only(names)));
    let some = guidance(&run(vec!["todo_write", "shell"])).await;
    assert!(some.contains("`todo_write`") && !some.contains("`ask_user`"), "{some}");
    assert_eq!(guidance(&run(vec!["shell"])).await, "");
    let without = ToolsOptions { only: Some(vec!["shell".to_owned()]), ..ToolsOptions::default() };
    let desk = Desk::with(without);
    assert_eq!(guidance(&desk.bus.cx()).await, "");
    assert!(desk.bus.item::<dyn Tool>("todo_write").is_none());
}
