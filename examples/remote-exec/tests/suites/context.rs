//! Environment of the suites of zk's tools here: in another process, behind a socket.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use example_remote_exec::{SocketExec, SocketFiles};
use zk_core::kernel::Bus;
use zk_core::service::{Exec, Files};

/// Ends the other side.
struct Other(
    Mutex<Child>,
    #[expect(dead_code, reason = "kept for as long as its process")] tempfile::TempDir,
);

impl Drop for Other {
    fn drop(&mut self) {
        let child = self.0.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the other side is another process")]
pub(crate) fn install(bus: &Bus, root: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let program = env!("CARGO_BIN_EXE_example-remote-exec");
    let mut child = Command::new(program).arg("serve").args([&*socket, root]).spawn().unwrap();
    // The file of a socket is there before anybody listens at it.
    let files = loop {
        if let Ok(files) = SocketFiles::connect(&socket) {
            break files;
        }
        assert!(child.try_wait().unwrap().is_none(), "the other side ended before it listened");
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    let scope = bus.scope("remote");
    scope.provide_service::<dyn Exec>(Arc::new(SocketExec::new(&*socket)));
    scope.provide_service::<dyn Files>(Arc::new(files));
    // Lives as long as the bus.
    scope.provide_service(Arc::new(Other(Mutex::new(child), dir)));
}
