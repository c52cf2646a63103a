use std::fs;

use super::*;
use crate::HostPathClassifier;
use crate::classifier::TextPathClassifier;

fn connections_of(command: &str, cwd: &Path) -> Option<String> {
    connections_with(command, cwd, &TextPathClassifier::default(), true)
}

fn connections_with(
    command: &str,
    cwd: &Path,
    classifier: &dyn PathClassifier,
    trusts_project: bool,
) -> Option<String> {
    let near = Vicinity { cwd, classifier, trusts_project };
    of_effects(&Effects::executes(command), near).map(|found| found.to_string())
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
        ("ssh me@example.org uptime", Some("example.org:22")),
        ("ssh -p 2222 me@example.org uptime", Some("example.org:2222")),
        ("ssh -oPort=2222 example.org", Some("example.org:2222")),
        ("scp a.txt me@example.org:/tmp", Some("example.org:22")),
        ("scp -P 2222 a.txt me@example.org:/tmp", Some("example.org:2222")),
        ("PIP_INDEX_URL=http://127.0.0.1:8801/simple pip install x", Some("127.0.0.1:8801")),
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
        assert_eq!(connections_of(command, Path::new("/nowhere")).as_deref(), hosts, "{command}");
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
        assert_eq!(connections_of(command, &cwd).as_deref(), hosts, "{command}");
    }
}

/// Command, variables, whether files of the project count, and hosts.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], bool, &'a str);

#[test]
fn registries_of_settings_take_the_place_of_the_usual_ones_with_their_ports() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let (home, project) = (dir.join("home"), dir.join("home/work"));
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(&project.join("a/package.json"), "{}");
    let here = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        HostPathClassifier::new(std::slice::from_ref(&project), Some(&home), &[]).with_variables(variables)
    };
    let cwd = project.join("a");
    let check = |rows: &[Row<'_>]| {
        for (command, variables, trusts_project, hosts) in rows {
            let found = connections_with(command, &cwd, &here(variables), *trusts_project);
            assert_eq!(found.as_deref(), Some(*hosts), "{command} {variables:?} {trusts_project}");
        }
    };
    check(&[
        ("npm ci", &[], true, "registry.npmjs.org"),
        ("pip install x", &[("PIP_INDEX_URL", "https://pip.corp:8443/simple")], true, "pip.corp:8443"),
        (
            "python3 -m pip install x",
            &[("PIP_EXTRA_INDEX_URL", "http://10.0.0.7:3141/simple")],
            true,
            "10.0.0.7:3141, files.pythonhosted.org, pypi.org",
        ),
        ("go get x", &[("GOPROXY", "https://go.corp.example,direct")], true, "go.corp.example"),
        (
            "pip install x",
            &[("PIP_INDEX_URL", "https://pypi.org/simple")],
            true,
            "files.pythonhosted.org, pypi.org",
        ),
    ]);
    write(
        &home.join(".npmrc"),
        "//npm.corp:4873/:_authToken=x\n@corp:registry = \"https://npm.corp:4873/\"\n",
    );
    write(&home.join(".config/pip/pip.conf"), "[global]\nindex-url = https://devpi.corp.example/simple\n");
    write(
        &home.join(".cargo/config.toml"),
        "[registries.corp]\nindex = \"sparse+https://crates.corp:9000/index/\"\n",
    );
    check(&[
        ("npm ci", &[], true, "npm.corp:4873, registry.npmjs.org"),
        ("pip install x", &[], true, "devpi.corp.example"),
        ("cargo add serde", &[], true, "crates.corp:9000, crates.io, index.crates.io, static.crates.io"),
    ]);
    write(&project.join(".npmrc"), "registry=http://127.0.0.1:4873/\n");
    write(
        &project.join(".cargo/config.toml"),
        "[source.crates-io]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+http://127.0.0.1:8801/\"\n",
    );
    write(&cwd.join("requirements.txt"), "--extra-index-url http://127.0.0.1:3141/simple\nx==1\n");
    check(&[
        ("npm ci", &[], true, "127.0.0.1:4873, npm.corp:4873"),
        ("cargo add serde", &[], true, "127.0.0.1:8801, crates.corp:9000"),
        ("pip install -r requirements.txt", &[], true, "127.0.0.1:3141, devpi.corp.example"),
        // Commands could have written the project's files, and no question shows their hosts.
        ("npm ci", &[], false, "npm.corp:4873, registry.npmjs.org"),
        ("pip install -r requirements.txt", &[], false, "devpi.corp.example"),
        (
            "npm ci --registry http://127.0.0.1:4874",
            &[],
            true,
            "127.0.0.1:4873, 127.0.0.1:4874, npm.corp:4873",
        ),
    ]);
}

#[test]
fn git_addresses_are_rewritten_by_instead_of_rules() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let (home, project) = (dir.join("home"), dir.join("home/work"));
    fs::create_dir_all(project.join(".git")).unwrap();
    let mine = "[url \"ssh://git@git.corp:2222/\"]\n\tpushInsteadOf = https://git.corp/\n[url \"https://git.corp/\"]\n\tinsteadOf \
                = corp:\n";
    fs::write(home.join(".gitconfig"), mine).unwrap();
    let config = "[remote \"origin\"]\n\turl = https://git.corp/a.git\n[url \"http://127.0.0.1:8801/\"]\n\tinsteadOf = \
                  https://near.example/\n";
    fs::write(project.join(".git/config"), config).unwrap();
    let here = HostPathClassifier::new(std::slice::from_ref(&project), Some(&home), &[]);
    for (command, hosts) in [
        ("git fetch", "git.corp"),
        ("git push origin main", "git.corp:2222"),
        ("git clone corp:a.git", "git.corp"),
        ("git push https://near.example/x.git main", "127.0.0.1:8801"),
    ] {
        assert_eq!(connections_with(command, &project, &here, false).as_deref(), Some(hosts), "{command}");
    }
}

#[test]
fn repositories_that_commands_can_have_written_name_no_hosts_where_nobody_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().canonicalize().unwrap().join("work");
    let write_repository = |root: &Path, host: &str| {
        fs::create_dir_all(root.join(".git")).unwrap();
        let config = format!(
            "[remote \"origin\"]\n\turl = http://{host}/a.git\n[url \"http://{host}/\"]\n\tinsteadOf = https://near.example/\n"
        );
        fs::write(root.join(".git/config"), config).unwrap();
    };
    write_repository(&project, "git.corp");
    let here = HostPathClassifier::new(std::slice::from_ref(&project), None, &[]);
    let late = dir.path().canonicalize().unwrap().join("late");
    fs::create_dir(&late).unwrap();
    let of_late = HostPathClassifier::new(std::slice::from_ref(&late), None, &[]);
    write_repository(&late, "127.0.0.1:8801");
    write_repository(&project.join("sub"), "127.0.0.1:8801");
    fs::create_dir_all(project.join("src")).unwrap();
    let modules = "[submodule \"x\"]\n\turl = http://127.0.0.1:8802/x.git\n";
    fs::write(project.join(".gitmodules"), modules).unwrap();
    for (command, cwd, here, asked, unasked) in [
        ("git fetch origin", &project, &here, "git.corp", "git.corp"),
        ("git fetch origin", &project.join("src"), &here, "git.corp", "git.corp"),
        ("git submodule update", &project, &here, "127.0.0.1:8802, git.corp", "git.corp"),
        ("git fetch x", &project, &here, "127.0.0.1:8802", "any public host"),
        ("git -C sub fetch", &project, &here, "127.0.0.1:8801", "any public host"),
        ("git push", &project.join("sub"), &here, "127.0.0.1:8801", "any public host"),
        (
            "git push https://near.example/x main",
            &project.join("sub"),
            &here,
            "127.0.0.1:8801",
            "near.example",
        ),
        // Repository that a command created after the start.
        ("git push", &late, &of_late, "127.0.0.1:8801", "any public host"),
    ] {
        assert_eq!(
            connections_with(command, cwd, here, true).as_deref(),
            Some(asked),
            "{command} in {cwd:?}"
        );
        assert_eq!(
            connections_with(command, cwd, here, false).as_deref(),
            Some(unasked),
            "{command} in {cwd:?}"
        );
    }
}
