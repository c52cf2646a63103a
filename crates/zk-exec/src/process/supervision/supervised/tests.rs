use std::fs::File;
use std::io::Read;

use rustix::process::{WaitOptions, waitpid};
use zk_core::service::ExecRequest;

use super::super::ends;
use super::supervisor::{Side, fork, leave, run_supervisor};
use super::*;

/// Not a test: the supervisor of another one.
#[test]
#[ignore = "started by another test"]
fn supervisor() {
    match fork().unwrap() {
        Side::Child => leave(i32::from(run_supervisor().is_err())),
        Side::Parent(pid) => {
            rustix::stdio::dup2_stdin(File::open("/dev/null").unwrap()).unwrap();
            waitpid(Some(pid), WaitOptions::empty()).unwrap();
        }
    }
}

#[tokio::test]
async fn of_200_commands_whose_cancel_comes_right_behind_their_order_none_starts() {
    let dir = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let name = format!("{}::supervisor", module_path!().split_once("::").unwrap().1);
    let supervisor = Supervisor::new(Supervision::with(own, ["--ignored", "--exact", &name]));
    let ordered: Vec<UnixStream> = (0..200)
        .map(|n| {
            let launch = Launch {
                makes_repository: false,
                program: "mkdir".into(),
                args: vec![n.to_string().into()],
                cwd: dir.path().into(),
                env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
                connects: false,
                terminal: false,
                limits: Limits::default(),
            };
            let bytes = launch.encode();
            let mut order = Vec::new();
            put_len(&mut order, bytes.len());
            order.extend_from_slice(&bytes);
            // The last one is not cancelled, to show that such an order does start a command.
            order.extend((n < 199).then_some(ask::END));
            let (_, [stdin, stdout, stderr]) = ends::open(&ExecRequest::shell("", dir.path())).unwrap();
            let (mut socket, of_reaper) = UnixStream::pair().unwrap();
            socket.write_all(&order).unwrap();
            let fds = [of_reaper.as_fd(), stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
            supervisor.request_reaper(&fds).unwrap();
            socket
        })
        .collect();
    let mut said = Vec::new();
    for mut socket in ordered {
        let mut bytes = Vec::new();
        // The read fails if the reaper left the cancel unread.
        let _ = socket.read_to_end(&mut bytes);
        said.push(bytes);
    }
    let started = said.pop().unwrap();
    assert_eq!((started[0], started[5]), (say::READY, say::STARTED));
    let cancelled = rustix::io::Errno::CANCELED.raw_os_error().to_le_bytes();
    let refused = [&[say::READY, 0, 0, 0, 0, say::FAILED][..], &cancelled].concat();
    assert!(said.iter().all(|said| *said == refused), "{said:?}");
    let made: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|made| made.unwrap().file_name()).collect();
    assert_eq!(made, ["199"]);
}
