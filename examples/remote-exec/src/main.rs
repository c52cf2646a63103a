//! Serves a directory and its commands to another process, and shows tools at work there.
//!
//! `example-remote-exec serve SOCKET DIR` is the one side; without arguments this starts it and is the other.

use std::error::Error;
use std::sync::Arc;

use example_remote_exec::{SocketExec, SocketFiles};
use zk_core::kernel::Bus;
use zk_core::service::{Exec, Files, Tool, ToolCx};
use zk_exec::{Environment, ProcessExec, WorkspaceFiles};
use zk_tools::{ToolsOptions, ToolsPlugin};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, command, socket, dir] = &args[..]
        && command == "serve"
    {
        let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")]);
        let (exec, files) = (ProcessExec::new(environment), WorkspaceFiles::new([dir])?);
        let listener = std::os::unix::net::UnixListener::bind(socket)?;
        tokio::task::block_in_place(|| {
            example_remote_exec::serve(&listener, Arc::new(exec), Arc::new(files))
        })?;
        return Ok(());
    }
    let dir = std::env::temp_dir().join(format!("zk-remote-exec-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("work"))?;
    let (socket, work) = (dir.join("socket"), dir.join("work").canonicalize()?);
    #[expect(clippy::disallowed_methods, reason = "this program is what runs on the other side")]
    let mut other =
        std::process::Command::new(std::env::current_exe()?).arg("serve").args([&socket, &work]).spawn()?;
    let files = loop {
        match SocketFiles::connect(&socket) {
            Ok(files) => break files,
            Err(error) if other.try_wait()?.is_some() => return Err(error.into()),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };

    let bus = Bus::new();
    let scope = bus.scope("remote");
    scope.provide_service::<dyn Exec>(Arc::new(SocketExec::new(&*socket)));
    scope.provide_service::<dyn Files>(Arc::new(files));
    bus.install(&ToolsPlugin::new(ToolsOptions::default()))?;
    for (name, args) in [
        ("write_file", serde_json::json!({ "path": "a.txt", "content": "one\ntwo\n" })),
        ("grep", serde_json::json!({ "pattern": "t.o", "mode": "content" })),
        ("shell", serde_json::json!({ "command": "wc -l a.txt" })),
    ] {
        let cx = ToolCx::new(bus.cx(), &work);
        let tool = bus.item::<dyn Tool>(name).ok_or("no such tool")?;
        let output = tool.call(&cx.approve(tool.clone(), args).await?, &cx).await?;
        println!("{name}: {}", output.content.to_text().trim_end());
    }
    other.kill()?;
    other.wait()?;
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
