//! Hosts that commands reach through the proxy.

use std::io::Write;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Connections, DeniedAct, Exec, ExecOutcome, ExecRequest, OutputStream};
use zk_exec::{HostRules, Network, SandboxExec, SandboxPolicy};
use zk_testkit::CountingHost;

use super::{run, sandboxed};
use crate::support::{bash_in, environment, supervision};

/// A host outside that greets everybody.
fn greeting_host() -> CountingHost {
    CountingHost::start(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    })
    .unwrap()
}

/// Requests a host from the proxy, inside, and prints the answer.
fn tunnel(target: &str) -> String {
    format!(
        r#"exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}} && printf 'CONNECT {target} HTTP/1.1\r\n\r\n' >&3 && cat <&3 | tee /tmp/got; grep -q hello /tmp/got"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_host_is_reached_through_the_proxy_and_only_there() {
    let dir = tempfile::tempdir().unwrap();
    let host = greeting_host();
    let port = host.port();
    let rules = HostRules::parse([format!("127.0.0.1:{port}"), "crates.io".to_owned()]).unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(dir.path()).hosts(rules)) else { return };
    let (code, out) = run(&exec, &tunnel(&format!("127.0.0.1:{port}")), dir.path()).await;
    assert!(
        code == 0 && out.contains("200 Connection established") && out.ends_with("hello"),
        "{out}({code})"
    );
    assert_eq!(host.connections(), 1);
    // Without the proxy there is no route, and datagrams are lost.
    let (code, out) = run(&exec, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), dir.path()).await;
    assert!(code != 0 && host.connections() == 1, "{out}");
    let (_, out) = run(&exec, "env | grep -i _proxy | sort | tr '\\n' ' '", dir.path()).await;
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        assert!(out.contains(&format!("{name}=http://127.0.0.1:3128 ")), "{name}: {out}");
    }
    exec.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_named_is_denied_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let host = greeting_host();
    let port = host.port();
    let rules = HostRules::parse(["crates.io", "*.npmjs.org"]).unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(dir.path()).hosts(rules)) else { return };
    for target in
        ["evil.example.org:443".to_owned(), format!("127.0.0.1:{port}"), format!("localhost:{port}")]
    {
        let (outcome, out) = bash_in(&exec, &tunnel(&target), dir.path(), None).await;
        assert!(out.starts_with("HTTP/1.1 403 Forbidden"), "{target}: {out} ({outcome:?})");
        let denials = outcome.unwrap().denials;
        let told = denials.iter().any(|denial| denial.act == DeniedAct::Connect && denial.target == target);
        assert!(told, "{target}: {denials:?}");
    }
    assert_eq!(host.connections(), 0);
    exec.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_with_named_hosts_holds_and_commands_in_it_reach_each_other() {
    let (dir, state) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let policy =
        SandboxPolicy::new(dir.path()).state(state.path()).hosts(HostRules::parse(["crates.io"]).unwrap());
    if sandboxed(&policy).is_none() {
        return;
    }
    let exec = SandboxExec::new(&policy, environment(), supervision()).unwrap();
    let test = exec.self_test().await.unwrap();
    assert!(test.held.iter().any(|name| name == "send a datagram"), "{test:?}");
    exec.close().await;
}

/// Requests a host from the proxy of this command, and prints the answer.
fn asked(target: &str) -> String {
    format!(
        r#"at=${{HTTP_PROXY#http://}}; exec 3<>/dev/tcp/${{at%:*}}/${{at##*:}} && printf 'CONNECT {target} HTTP/1.1\r\n\r\n' >&3 && cat <&3"#
    )
}

async fn connected(
    exec: &SandboxExec,
    command: &str,
    dir: &std::path::Path,
    connections: Option<Connections>,
) -> (ExecOutcome, String) {
    let mut out = Vec::new();
    let mut sink = |_: OutputStream, bytes: &[u8]| out.extend_from_slice(bytes);
    let request = ExecRequest { connections, ..ExecRequest::shell(&format!("exec 2>&1; {command}"), dir) };
    let outcome = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
    (outcome, String::from_utf8_lossy(&out).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_command_reaches_the_hosts_of_its_request_and_all_others_have_no_network() {
    let dir = tempfile::tempdir().unwrap();
    let host = greeting_host();
    let port = host.port();
    let other = greeting_host();
    let target = format!("127.0.0.1:{port}");
    let granted = || Some(Connections { hosts: vec![target.clone()], any_public: true });
    for network in [Network::None, Network::Loopback] {
        let policy = SandboxPolicy::new(dir.path()).network(network).grant_connections();
        let Some(exec) = sandboxed(&policy) else { return };
        let before = host.connections();
        let (outcome, out) = connected(&exec, &asked(&target), dir.path(), granted()).await;
        assert!(out.ends_with("hello"), "{out} {outcome:?}");
        assert_eq!(host.connections(), before + 1);
        // Another of its port is not named.
        let unnamed = other.address();
        let command = format!("{}; false", asked(&unnamed));
        let (outcome, out) = connected(&exec, &command, dir.path(), granted()).await;
        assert!(out.contains("not a public address"), "{out}");
        assert!(outcome.denials.iter().any(|denial| denial.target == unnamed), "{outcome:?}");
        // The next command has no grant, and the proxy's address does not help it.
        let at = "HTTP_PROXY=http://127.9.9.9:3128";
        let (_, out) = connected(&exec, &format!("{at}; {}", asked(&target)), dir.path(), None).await;
        assert!(!out.contains("hello"), "{out}");
        let (_, out) = connected(&exec, "env", dir.path(), None).await;
        assert!(!out.contains("127."), "{out}");
        assert_eq!(host.connections(), before + 1);
        exec.close().await;
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_speak_socks_or_take_a_program_to_connect_reach_what_their_command_names() {
    if !super::has("curl") || !super::has("git") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (host, other) = (greeting_host(), greeting_host());
    let Some(exec) = sandboxed(&SandboxPolicy::new(dir.path()).grant_connections()) else { return };
    let (named, unnamed) = (host.address(), other.address());
    let granted = || Some(Connections { hosts: vec![named.clone()], any_public: false });
    let by_socks = |at: &str| format!("curl -sS -x $SOCKS_PROXY http://{at}/");
    let (outcome, out) = connected(&exec, &by_socks(&named), dir.path(), granted()).await;
    assert_eq!(out, "hello", "{outcome:?}");
    let (outcome, out) = connected(&exec, &by_socks(&unnamed), dir.path(), granted()).await;
    assert!(!out.contains("hello"), "{out}");
    assert!(outcome.denials.iter().any(|denial| denial.target == unnamed), "{outcome:?}");
    // Git's own protocol, which this host does not speak: the received answer is shown.
    let by_program = |at: &str| format!("git ls-remote git://{at}/x.git");
    let (_, out) = connected(&exec, &by_program(&named), dir.path(), granted()).await;
    assert!(out.contains("protocol error: bad line length character: HTTP"), "{out}");
    let (_, out) = connected(&exec, &by_program(&unnamed), dir.path(), granted()).await;
    assert!(out.contains("zk: ") && out.contains("not among the hosts that this command names"), "{out}");
    assert_eq!((host.connections(), other.connections()), (2, 0));
    exec.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_grants_nothing_ignores_what_a_request_names() {
    let dir = tempfile::tempdir().unwrap();
    let host = greeting_host();
    let port = host.port();
    let Some(exec) = sandboxed(&SandboxPolicy::new(dir.path())) else { return };
    let target = format!("127.0.0.1:{port}");
    let granted = Some(Connections { hosts: vec![target.clone()], any_public: true });
    let (_, out) = connected(&exec, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}"), dir.path(), granted).await;
    assert!(out.contains("Operation not permitted") && host.connections() == 0, "{out}");
    exec.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packages_that_one_command_fetches_are_there_for_the_next_and_not_on_the_machine() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (cargo, project) = (place.path().join("cargo"), place.path().join("project"));
    std::fs::create_dir_all(cargo.join("registry/cache")).unwrap();
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(cargo.join("registry/cache/old"), "old").unwrap();
    // Also seen if the target directory is temporary, which is private in a sandbox.
    let policy = SandboxPolicy::new(&project).readable(&cargo).grant_connections();
    let environment = environment().grant("CARGO_HOME", &cargo).grant("GOPATH", place.path());
    let exec = SandboxExec::new(&policy, environment, supervision()).unwrap();
    if sandboxed(&policy).is_none() {
        return;
    }
    let connections = Some(Connections { hosts: vec!["crates.io".to_owned()], any_public: false });
    let command = "cd $CARGO_HOME/registry && mkdir src && echo new > src/new && echo other > cache/old && \
                   mkdir -p $npm_config_cache $XDG_CACHE_HOME/x $GOPATH/pkg && echo done";
    let (_, out) = connected(&exec, command, &project, connections).await;
    assert_eq!(out, "done\n");
    let (_, out) =
        run(&exec, "cat $CARGO_HOME/registry/src/new $CARGO_HOME/registry/cache/old", &project).await;
    assert_eq!(out, "new\nother\n");
    let (code, out) = run(&exec, "touch $CARGO_HOME/config.toml", &project).await;
    assert!(code != 0, "{out}");
    exec.close().await;
    assert_eq!(std::fs::read_to_string(cargo.join("registry/cache/old")).unwrap(), "old");
    assert!(!cargo.join("registry/src").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_of_the_environment_counts_before_that_of_the_hidden_settings() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (home, project) = (place.path().join("home"), place.path().join("project"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&project).unwrap();
    let npmrc = "registry=https://home.example/\n@team:registry=https://team.example/\n";
    std::fs::write(home.join(".npmrc"), npmrc).unwrap();
    let policy = SandboxPolicy::new(&project).home(&home).grant_connections();
    if sandboxed(&policy).is_none() {
        return;
    }
    let team = "npm_config_@team:registry=https://team.example/";
    for (name, own) in [
        ("UNRELATED", "npm_config_registry=https://home.example/"),
        ("NPM_CONFIG_REGISTRY", "NPM_CONFIG_REGISTRY=https://own.example/"),
        ("npm_config_registry", "npm_config_registry=https://own.example/"),
    ] {
        let environment = environment().grant(name, "https://own.example/");
        let exec = SandboxExec::new(&policy, environment, supervision()).unwrap();
        let connections = Some(Connections { hosts: vec!["own.example".to_owned()], any_public: false });
        let (_, out) = connected(&exec, "env -0 | tr '\\0' '\\n'", &project, connections).await;
        let names_registry = |line: &&str| line.to_ascii_lowercase().contains("registry=");
        let mut told: Vec<&str> = out.lines().filter(names_registry).collect();
        told.sort_unstable();
        let mut wanted = [own, team];
        wanted.sort_unstable();
        assert_eq!(told, wanted, "{name}");
        exec.close().await;
    }
}
