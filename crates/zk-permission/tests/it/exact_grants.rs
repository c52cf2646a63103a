use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use zk_core::events::CallRef;
use zk_core::model::{CallId, TurnId};
use zk_core::service::{Tool, Trust, UiAnswer};
use zk_permission::{Mode, PermissionGate};

use crate::asking::{Remembered, person, refusal_in};
use crate::desk::Desk;

async fn is_asked(desk: &Desk, cwd: &Path, command: &str) -> bool {
    let call = Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::from("same"),
        name: "shell".into(),
        display_name: "shell".into(),
    });
    let tool = desk.bus.item::<dyn Tool>("shell");
    refusal_in(&desk.bus, cwd, call, tool, json!({ "command": command })).await.is_some()
}

#[tokio::test]
async fn exactly_this_call_is_another_call_in_another_directory() {
    let desk = Desk::new();
    desk.bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
    let asked = person(&desk, UiAnswer::Session);
    let root = desk.root.as_path();
    for (directory, count) in [(root.to_owned(), 1), (root.to_owned(), 1), (root.join("sub"), 2)] {
        assert!(!is_asked(&desk, &directory, "rm -rf build").await);
        assert_eq!(asked.approvals().len(), count, "{}", directory.display());
    }
}

#[tokio::test]
async fn always_exactly_this_ends_when_the_script_that_it_names_changes() {
    let trust = Arc::new(Remembered::default());
    let desk = Desk::new();
    desk.bus.scope("host").provide_service::<dyn Trust>(trust.clone());
    desk.bus.install(&PermissionGate::new(Mode::Ask).remembering("/project")).unwrap();
    let asked = person(&desk, UiAnswer::Always);
    let root = desk.root.as_path();
    let commands =
        ["./deploy", "bash build", "sh -c 'python3 tools/gen.py'", "cd tools && ./run.sh", "rm notes"];
    for name in ["deploy", "build", "tools/gen.py", "tools/run.sh", "notes"] {
        desk.put(name, if name == "deploy" { "#!/bin/sh\necho" } else { "echo" });
    }
    for round in [1, 2] {
        for command in commands {
            assert!(!is_asked(&desk, root, command).await, "{round}: {command}");
        }
        assert_eq!(asked.approvals().len(), commands.len());
    }
    for name in ["deploy", "build", "tools/gen.py", "tools/run.sh", "notes"] {
        desk.put(name, if name == "deploy" { "#!/bin/sh\nrm -rf x" } else { "rm -rf x" });
    }
    for command in commands {
        assert!(!is_asked(&desk, root, command).await, "{command}");
    }
    assert_eq!(asked.approvals().len(), 2 * commands.len() - 1, "`rm` runs nothing of what it names");
}
