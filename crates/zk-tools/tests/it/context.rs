//! Context that the suites run in. Another context brings a file like this and includes the suites by their
//! path, as `examples/remote-exec` does.

use std::path::Path;

use zk_core::kernel::Bus;
use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};

/// Serves `dyn Exec` and `dyn Files` with `root` as the one directory.
pub(crate) fn install(bus: &Bus, root: &Path) {
    let env = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")]);
    bus.install(&LocalPlugin::new(env, WorkspaceFiles::new([root]).unwrap())).unwrap();
}
