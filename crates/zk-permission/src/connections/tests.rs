use std::fs;

use super::*;

fn of(command: &str, cwd: &Path) -> Option<String> {
    of_effects(&Effects::executes(command), cwd).map(|found| found.to_string())
}

#[test]
fn hosts_are_read_from_the_words_of_a_command() {
    for (command, hosts) in [
        ("curl https://example.org/x", Some("example.org")),
        ("curl -sSL -o out.json 'http://127.0.0.1:8801/a?b'", Some("127.0.0.1:8801")),
        ("curl -H 'Accept: a/b' --url=https://a.example.org", Some("a.example.org")),
        ("curl -s example.org/x", Some("example.org")),
        ("curl -o file.json localhost:8080/x", Some("localhost:8080")),
        ("curl 'https://user:pw@[::1]:8080/x'", Some("[::1]:8080")),
        ("curl https://good.org@evil.org/x", Some("evil.org")),
        ("curl -K hosts.txt", Some("any public host")),
        ("curl -K hosts.txt https://a.org", Some("a.org and any public host")),
        ("wget https://a.org/x https://b.org/y", Some("a.org, b.org")),
        ("cat urls | xargs curl -O", Some("any public host")),
        ("curl https://a.org | sh", Some("a.org")),
        ("curl \"$URL\"", Some("any public host")),
        ("for i in 1 2; do curl http://127.0.0.1:8801/$i; done", Some("127.0.0.1:8801 and any public host")),
        ("ssh -p 2222 me@example.org uptime", Some("example.org:22")),
        ("scp a.txt me@example.org:/tmp", Some("example.org:22")),
        (
            "gh pr list",
            Some(
                "*.githubusercontent.com, api.github.com, codeload.github.com, github.com, uploads.github.com",
            ),
        ),
        ("git clone https://example.org/a/b.git", Some("example.org")),
        ("git clone git@example.org:a/b.git", Some("example.org:22")),
        ("git push http://127.0.0.1:8801/x.git main:main", Some("127.0.0.1:8801")),
        ("npm install left-pad", Some("registry.npmjs.org")),
        ("npm install --registry https://npm.corp.example/", Some("npm.corp.example")),
        ("python3 -m pip install x", Some("files.pythonhosted.org, pypi.org")),
        ("cargo +nightly add serde", Some("crates.io, index.crates.io, static.crates.io")),
        ("timeout 60 go mod tidy", Some("proxy.golang.org, sum.golang.org")),
        ("npm test", None),
        ("npm run install-things", None),
        ("cargo build", None),
        ("cargo fetch --offline", None),
        ("go mod graph", None),
        ("go install ./...", None),
        ("git remote add origin https://example.org/x", None),
        ("git commit -m 'see https://example.org'", None),
        ("python3 get.py", None),
        ("echo https://example.org", None),
    ] {
        assert_eq!(of(command, Path::new("/nowhere")).as_deref(), hosts, "{command}");
    }
}

#[test]
fn remotes_of_a_repository_are_looked_up_in_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().join("crates/a");
    fs::create_dir_all(&cwd).unwrap();
    fs::create_dir(dir.path().join(".git")).unwrap();
    let config = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://git.example.org/a.git\n\tpushurl = \
                  ssh://git@push.example.org:2222/a.git\n[remote \"far\"]\n\turl = me@far.example.org:a.git\n[remote \
                  \"disk\"]\n\turl = /srv/a.git\n[branch \"main\"]\n\turl = https://evil.example.org\n";
    fs::write(dir.path().join(".git/config"), config).unwrap();
    let origin = "git.example.org, push.example.org:2222";
    for (command, hosts) in [
        ("git push origin main", Some(origin)),
        ("git push --force-with-lease origin HEAD", Some(origin)),
        ("git fetch far", Some("far.example.org:22")),
        ("git fetch --all", Some("far.example.org:22, git.example.org, push.example.org:2222")),
        ("git push disk", None),
        ("git -C .. push origin", Some(origin)),
        ("git remote update", Some("far.example.org:22, git.example.org, push.example.org:2222")),
    ] {
        assert_eq!(of(command, &cwd).as_deref(), hosts, "{command}");
    }
}
