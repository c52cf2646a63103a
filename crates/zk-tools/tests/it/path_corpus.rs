//! Paths that lead out of the workspace, through every tool that takes one.

#[path = "../../../zk-exec/tests/it/corpus_paths.rs"]
mod corpus_paths;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zk_core::kernel::Bus;
use zk_core::model::Display;
use zk_core::service::{CallPlace, Tool, ToolCx};
use zk_tools::{NAMES, ToolsOptions, ToolsPlugin};

use self::corpus_paths::{CANARY, escapes, outside_is_untouched, trap};

/// A name that only directories outside have.
const ONLY_OUTSIDE: &str = "zk-only-outside";

/// The calls of a tool with one path of the corpus.
type Calls = fn(&str) -> Vec<Value>;

fn path(path: &str) -> Vec<Value> {
    vec![json!({ "path": path })]
}

const READING: [(&str, Calls); 4] = [
    ("read_file", path),
    ("list_files", path),
    ("glob", |path| {
        vec![
            json!({ "pattern": "**/*", "path": path, "ignored": true }),
            json!({ "pattern": path }),
            json!({ "pattern": format!("{path}/*"), "ignored": true }),
        ]
    }),
    ("grep", |path| {
        vec![
            json!({ "pattern": "canary|root:", "path": path, "mode": "content" }),
            json!({ "pattern": "canary|root:", "glob": path, "mode": "content" }),
        ]
    }),
];

const WRITING: [(&str, Calls); 3] = [
    ("write_file", |path| vec![json!({ "path": path, "content": "overwritten" })]),
    ("edit", |path| vec![json!({ "path": path, "old_string": "canary", "new_string": "overwritten" })]),
    ("multi_edit", |path| {
        vec![json!({ "path": path, "edits": [{ "old_string": "canary", "new_string": "overwritten" }] })]
    }),
];

struct Trap {
    _dir: tempfile::TempDir,
    bus: Bus,
    root: PathBuf,
    outside: PathBuf,
}

impl Trap {
    fn new() -> Self {
        let (_dir, root, outside) = trap();
        for dir in [outside.join("dir"), root.join("../root-twin")] {
            std::fs::write(dir.join(ONLY_OUTSIDE), CANARY).unwrap();
        }
        let bus = Bus::new();
        crate::context::install(&bus, &root);
        let options = ToolsOptions { read_before_edit: false, ..ToolsOptions::default() };
        bus.install(&ToolsPlugin::new(options)).unwrap();
        Self { _dir, bus, root, outside }
    }

    /// The directories that calls are made in.
    fn places(&self) -> [PathBuf; 3] {
        [self.root.clone(), self.root.join("src"), self.root.join("src/deep")]
    }

    /// Result of a call, and the preview before it.
    async fn attempt(&self, name: &str, args: &Value, cwd: &Path) -> (Result<String, String>, String) {
        let cx = ToolCx::new(self.bus.cx(), cwd);
        let tool = self.bus.item::<dyn Tool>(name).unwrap();
        let place = CallPlace { cx: self.bus.cx(), cwd: cwd.to_path_buf() };
        let preview = tool.preview(args, &place).await;
        let preview = preview.as_ref().map_or(String::new(), |shown: &Display| format!("{shown:?}"));
        let result = match cx.approve(tool.clone(), args.clone()).await {
            Ok(approved) => tool.call(&approved, &cx).await,
            Err(error) => Err(error),
        };
        let text = result.map(|output| output.content.to_text()).map_err(|error| error.message);
        (text, preview)
    }

    /// Tries every path from every directory; `check` examines each outcome.
    async fn attempt_all(
        &self,
        name: &str,
        calls: Calls,
        check: impl Fn(&Value, bool, &Result<String, String>),
    ) {
        let corpus = escapes(&self.root, &self.outside);
        let mut attempts = 0;
        for cwd in self.places() {
            for path in &corpus {
                for args in calls(path) {
                    attempts += 1;
                    let (result, preview) = self.attempt(name, &args, &cwd).await;
                    let told = match &result {
                        Ok(text) | Err(text) => format!("{text}\n{preview}"),
                    };
                    for leaked in [CANARY, ONLY_OUTSIDE, "root:x:0", "root:*:"] {
                        assert!(!told.contains(leaked), "{name} {args} in {}: {told}", cwd.display());
                    }
                    check(&args, cwd == self.root, &result);
                }
            }
        }
        assert!(attempts >= 376, "{attempts}");
    }
}

#[tokio::test]
async fn no_tool_reads_or_lists_what_is_outside_by_any_path_of_the_corpus() {
    let trap = Trap::new();
    for (name, calls) in READING {
        trap.attempt_all(name, calls, |args, is_root, result| {
            // From below, some of them stay inside; a dangling pattern finds nothing.
            let is_path = args.get("path").is_some() && args["path"] != "";
            assert!(!is_root || !is_path || result.is_err(), "{name} {args}: {result:?}");
        })
        .await;
    }
    outside_is_untouched(&trap.root, &trap.outside);
}

#[tokio::test]
async fn no_tool_writes_outside_by_any_path_of_the_corpus() {
    for (name, calls) in WRITING {
        // Each on unwritten files.
        let trap = Trap::new();
        trap.attempt_all(name, calls, |args, is_root, result| {
            assert!(!is_root || result.is_err(), "{name} {args}: {result:?}");
        })
        .await;
        outside_is_untouched(&trap.root, &trap.outside);
        for dir in [trap.outside.join("dir"), trap.root.join("../root-twin")] {
            let kept = std::fs::read_to_string(dir.join(ONLY_OUTSIDE)).unwrap();
            assert_eq!(kept, CANARY);
            assert_eq!(std::fs::read_dir(dir).unwrap().count(), 2, "nothing new outside");
        }
    }
}

#[tokio::test]
async fn the_corpus_goes_through_every_tool_that_takes_a_path() {
    let trap = Trap::new();
    let tested: BTreeSet<&str> =
        READING.iter().map(|(name, _)| *name).chain(WRITING.iter().map(|(name, _)| *name)).collect();
    let takes_path: BTreeSet<&str> = NAMES
        .into_iter()
        .filter(|name| {
            let tool = trap.bus.item::<dyn Tool>(name);
            tool.is_some_and(|tool| tool.spec().schema["properties"].get("path").is_some())
        })
        .collect();
    assert_eq!(tested, takes_path);
}
