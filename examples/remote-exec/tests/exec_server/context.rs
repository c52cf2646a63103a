//! Environment of the suites of zk's tools here: behind a socket of zk-exec's own server.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use zk_core::kernel::Bus;
use zk_core::service::{Exec, Files};
use zk_exec::{Environment, ExecServer, ProcessExec, Remote, WorkspaceFiles};

/// The other side.
struct Other(
    Option<Runtime>,
    #[expect(dead_code, reason = "kept for as long as its server")] tempfile::TempDir,
);

impl Drop for Other {
    fn drop(&mut self) {
        // From within a test's runtime it cannot be waited for.
        self.0.take().unwrap().shutdown_background();
    }
}

pub(crate) fn install(bus: &Bus, root: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let runtime = Runtime::new().unwrap();
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")]);
    let (exec, files) = (ProcessExec::new(environment), WorkspaceFiles::new([root]).unwrap());
    let guard = runtime.enter();
    let server = ExecServer::bind(&socket).unwrap();
    drop(guard);
    runtime.spawn(async move { server.serve(Arc::new(exec), Arc::new(files)).await });
    let remote = Remote::connect(&socket).unwrap();
    let scope = bus.scope("remote");
    scope.provide_service::<dyn Exec>(Arc::new(remote.exec()));
    scope.provide_service::<dyn Files>(Arc::new(remote.files()));
    // Lives as long as the bus.
    scope.provide_service(Arc::new(Other(Some(runtime), dir)));
}
