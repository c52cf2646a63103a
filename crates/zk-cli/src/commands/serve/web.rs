use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zk_serve::rpc::RpcWebSocket;
use zk_serve::web::WebDoor;
use zk_tui::Style;
use zk_tui::plain::Screen;
use zk_tui::term::print_stderr;

use super::rpc::{server, until_signal};
use crate::app::{AppContext, Machine, runtime};
use crate::exit::{Exit, Failure, Outcome};

/// Serves a page that drives zk, until a signal ends it. Prints a link to the page, and a new link for each
/// typed line.
pub(crate) fn web(app: &AppContext, address: SocketAddr) -> Outcome<Exit> {
    let server = server(app)?;
    let door = Arc::<WebDoor>::default();
    runtime()?.block_on(until_signal(&server, async {
        let cannot = |error| Failure::failed(format!("cannot listen at {address}: {error}"));
        let socket = RpcWebSocket::bind(address).await.map_err(cannot)?;
        print_link(&app.work.machine, &door, &socket)?;
        print_stderr(
            "zk: the link works once, on this machine; Enter prints another one, Ctrl-C ends the server",
        );
        let mut typed = typed_lines();
        let more_links = async {
            while typed.recv().await.is_some() {
                print_link(&app.work.machine, &door, &socket)?;
            }
            // Standard input ended; the page is still served.
            std::future::pending().await
        };
        tokio::select! {
            served = server.serve_web(&socket, &door) => served.map_err(Failure::failed),
            failed = more_links => failed,
        }
    }))
}

fn print_link(machine: &Machine, door: &WebDoor, socket: &RpcWebSocket) -> Outcome<()> {
    let link = door.new_link(socket.address()).map_err(Failure::failed)?;
    let mut screen = Screen::stdout(&machine.terminal());
    screen.line(Style::PLAIN, &link);
    Ok(screen.finish()?)
}

/// Returns a receiver that gets a message for each line of standard input, which a separate thread reads.
fn typed_lines() -> UnboundedReceiver<()> {
    let (sender, typed) = unbounded_channel();
    let read = move || {
        let is_wanted = |line: io::Result<String>| line.is_ok() && sender.send(()).is_ok();
        while io::stdin().lines().next().is_some_and(is_wanted) {}
    };
    // Without the thread, only the first link is printed.
    let _ = std::thread::Builder::new().name("links".to_owned()).spawn(read);
    typed
}
