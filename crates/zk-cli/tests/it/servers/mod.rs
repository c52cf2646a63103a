//! Real servers on loopback: a web server with packages and repositories, and sshd.

mod packages;
mod sshd;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zk_testkit::CountingHost;

pub(crate) use packages::Packages;
pub(crate) use sshd::Sshd;

/// Whether a program is in the path and does what it is asked first; says so if not.
#[expect(clippy::disallowed_methods, reason = "programs of the machine are tried")]
pub(crate) fn has(program: &str, args: &[&str]) -> bool {
    let tried = Command::new(program).args(args).stdin(Stdio::null()).output();
    let works = tried.is_ok_and(|output| output.status.success());
    if !works {
        println!("skipped: there is no {program} here");
    }
    works
}

/// Runs a program for the set-up of a test, in a directory.
#[expect(clippy::disallowed_methods, reason = "the machine's own git and its like prepare what zk meets")]
pub(crate) fn set_up(dir: &Path, program: &str, args: &[&str]) -> String {
    let git = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")];
    let person = ["AUTHOR", "COMMITTER"]
        .into_iter()
        .flat_map(|role| [(format!("GIT_{role}_NAME"), "a"), (format!("GIT_{role}_EMAIL"), "a@example.org")]);
    let output = Command::new(program).args(args).current_dir(dir).envs(git).envs(person).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository at `dir/name` that takes pushes.
pub(crate) fn bare_repository(dir: &Path, name: &str) -> PathBuf {
    set_up(dir, "git", &["init", "-q", "--bare", "-b", "main", name]);
    let repository = dir.join(name);
    set_up(&repository, "git", &["config", "http.receivepack", "true"]);
    repository
}

/// Makes a repository with one commit, whose id it gives.
pub(crate) fn repository_with_commit(dir: &Path) -> String {
    set_up(dir, "git", &["init", "-q", "-b", "main"]);
    set_up(dir, "git", &["commit", "-q", "--allow-empty", "-m", "first"]);
    set_up(dir, "git", &["rev-parse", "HEAD"])
}

/// Whether a repository has this commit as its branch `main`.
pub(crate) fn has_pushed(repository: &Path, commit: &str) -> bool {
    std::fs::read_to_string(repository.join("refs/heads/main")).is_ok_and(|text| text.trim() == commit)
}

/// Name and password that repositories below `/private/` ask for, as a header of HTTP has them.
const PRIVATE: &str = "Basic bWU6c2VjcmV0";

/// One request of HTTP.
struct Asked {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Asked {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut asked = Self { method, path: path.into(), query: query.into(), headers, body: Vec::new() };
        let length: usize = asked.header("content-length").parse().unwrap_or_default();
        asked.body = vec![0; length];
        lines.read_exact(&mut asked.body).ok()?;
        Some(asked)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Web server: repositories of `dir` below `/git/`, those below `/private/` with a name and a password, and packages.
pub(crate) fn web_server(dir: &Path, packages: Packages) -> CountingHost {
    let dir = dir.to_owned();
    CountingHost::start(move |mut stream| {
        let Some(asked) = Asked::read(&stream) else { return };
        // The address that the client knows the server by, also through a proxy.
        let at = format!("http://{}", asked.header("host"));
        let is_private = asked.path.starts_with("/private/");
        if is_private && asked.header("authorization") != PRIVATE {
            let headers = "WWW-Authenticate: Basic realm=\"here\"\r\n";
            return answer(&mut stream, "401 Unauthorized", headers, b"");
        }
        if let Some(path) = asked.path.strip_prefix("/git/").or(asked.path.strip_prefix("/private/")) {
            return git_backend(&mut stream, &dir, path, &asked);
        }
        match packages.get(&asked.path, &at) {
            Some((kind, body)) => answer(&mut stream, "200 OK", &format!("Content-Type: {kind}\r\n"), &body),
            None => answer(&mut stream, "404 Not Found", "", b""),
        }
    })
    .unwrap()
}

/// Answers with git's own server of HTTP, a program that speaks CGI.
#[expect(clippy::disallowed_methods, reason = "git's own server answers")]
fn git_backend(stream: &mut TcpStream, dir: &Path, path: &str, asked: &Asked) {
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", dir)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("PATH_INFO", format!("/{path}"))
        .env("QUERY_STRING", &asked.query)
        .env("REQUEST_METHOD", &asked.method)
        .env("CONTENT_TYPE", asked.header("content-type"))
        .env("CONTENT_LENGTH", asked.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", asked.header("content-encoding"))
        .env("GIT_PROTOCOL", asked.header("git-protocol"))
        .env("REMOTE_USER", "me")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&asked.body).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let headers = head.lines().filter(|line| !line.starts_with("Status")).map(|line| format!("{line}\r\n"));
    answer(stream, status, &headers.collect::<String>(), &output[end + 4..]);
}
