//! Files in a place that cannot be searched.

use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::service::{
    FileStat, Files, PathError, Resolved, SearchFound, SearchQuery, Tool, WalkEntry, WalkOptions, WalkReport,
    WriteReceipt,
};
use zk_exec::WorkspaceFiles;
use zk_tools::{NAMES, ToolsOptions, ToolsPlugin};

struct Unsearched(WorkspaceFiles);

impl Files for Unsearched {
    fn roots(&self) -> Vec<PathBuf> {
        self.0.roots()
    }

    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError> {
        self.0.resolve(cwd, path)
    }

    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, PathError> {
        self.0.open(at, range)
    }

    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError> {
        self.0.stat(at)
    }

    fn list(&self, at: &Resolved) -> Result<Vec<(String, FileStat)>, PathError> {
        self.0.list(at)
    }

    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError> {
        self.0.walk(from, options, visit)
    }

    fn can_search(&self) -> bool {
        false
    }

    fn search(
        &self,
        from: &Resolved,
        query: &SearchQuery,
        stop: &CancellationToken,
    ) -> Result<SearchFound, PathError> {
        self.0.search(from, query, stop)
    }

    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError> {
        self.0.write(at, bytes)
    }
}

#[test]
fn where_files_cannot_be_searched_no_search_is_offered() {
    let root = std::env::temp_dir();
    let offered = |only: Option<Vec<String>>| {
        let bus = Bus::new();
        let files = Unsearched(WorkspaceFiles::new([&root]).unwrap());
        bus.scope("files").provide_service::<dyn Files>(Arc::new(files));
        bus.install(&ToolsPlugin::new(ToolsOptions { only, ..ToolsOptions::default() })).unwrap();
        bus.items::<dyn Tool>().into_iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
    };
    let others: Vec<&str> = NAMES.into_iter().filter(|name| *name != "grep").collect();
    assert_eq!(offered(None), others);
    assert_eq!(offered(Some(vec!["grep".into(), "glob".into()])), ["glob"]);
}
