use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use zk_core::service::{Files, PathError, SearchMode, SearchQuery, WalkOptions};
use zk_exec::WorkspaceFiles;

fn home() -> (tempfile::TempDir, PathBuf, WorkspaceFiles) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap();
    let auth = home.join(".local/state/zk/auth");
    let paths =
        WorkspaceFiles::new([&home]).unwrap().home(&home).secret(auth).protected(home.join("settings"));
    (dir, home, paths)
}

/// Paths of files that run later without approval; most of them do not exist.
const RUN_LATER: [&str; 42] = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    ".git/modules/a/config",
    ".git",
    "project/.git/hooks/post-checkout",
    "project/.GIT/config",
    ".zk/settings.toml",
    ".zk/settings.local.toml",
    ".zk/hooks/x",
    "project/.zk/settings.toml",
    "project/.ZK/Settings.toml",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".xprofile",
    ".xinitrc",
    ".pam_environment",
    ".gitconfig",
    ".config/git/config",
    ".config/fish/config.fish",
    ".config/autostart/x.desktop",
    ".config/systemd/user/x.service",
    ".config/environment.d/x.conf",
    ".cargo/config.toml",
    ".cargo/env",
    ".local/bin/ls",
    ".vimrc",
    ".emacs.d/init.el",
    "settings/x",
];

const CREDENTIALS: [&str; 14] = [
    ".ssh/id_rsa",
    ".ssh/authorized_keys",
    ".SSH/config",
    ".aws/credentials",
    ".gnupg/secring.gpg",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".npmrc",
    ".docker/config.json",
    ".kube/config",
    ".config/gh/hosts.yml",
    ".cargo/credentials.toml",
    ".local/state/zk/auth/credentials.json",
];

#[test]
fn what_is_run_later_is_not_written_even_where_it_is_absent() {
    let (_dir, home, paths) = home();
    for name in RUN_LATER.iter().chain(&CREDENTIALS) {
        let at = paths.resolve(&home, name).unwrap();
        let error = paths.write(&at, b"echo owned").unwrap_err();
        assert!(
            matches!(error, PathError::Protected { ref access, .. } if access == "written"),
            "{name}: {error}"
        );
        assert!(!home.join(name).exists(), "{name}");
        assert!(
            !home.join(name).parent().unwrap().exists() || home.join(name).parent() == Some(&home),
            "{name}"
        );
    }
    let at = paths.resolve(&home, ".gitignore").unwrap();
    paths.write(&at, b"target").unwrap();
}

#[test]
fn credentials_are_not_read_listed_or_found() {
    let (_dir, home, paths) = home();
    for name in CREDENTIALS {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), "canary").unwrap();
        let at = paths.resolve(&home, name).unwrap();
        let error = paths.open(&at, None).err().unwrap();
        assert!(
            matches!(error, PathError::Protected { ref access, .. } if access == "read"),
            "{name}: {error}"
        );
        assert_eq!(
            error.to_string(),
            format!("`{name}` may not be read: it holds credentials; a person has to do this")
        );
    }
    let at = paths.resolve(&home, ".ssh").unwrap();
    assert!(matches!(paths.list(&at), Err(PathError::Protected { .. })));
    let all = paths.resolve(&home, ".").unwrap();
    let report = paths.walk(&all, &WalkOptions { ignored: true, ..WalkOptions::default() }, &mut |entry| {
        let shown = &entry.at.shown;
        assert!(!shown.contains("id_rsa") && !shown.contains("credentials.json"), "{shown}");
        ControlFlow::Continue(())
    });
    report.unwrap();
}

#[test]
fn a_search_leaves_credentials_of_the_project_out_unless_it_begins_at_them() {
    let (_dir, home, paths) = home();
    for name in [".env", "sub/id_ed25519", "sub/.env.example"] {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), "canary").unwrap();
        assert!(paths.open(&paths.resolve(&home, name).unwrap(), None).is_ok(), "{name}");
    }
    let query = SearchQuery {
        pattern: "canary".into(),
        ignore_case: false,
        mode: SearchMode::Files,
        context: 0,
        walk: WalkOptions { ignored: true, ..WalkOptions::default() },
        skip: 0,
        wanted: 10,
        max_bytes: 4096,
        line_bytes: 100,
    };
    let search = |from: &str| {
        paths.search(&paths.resolve(&home, from).unwrap(), &query, &CancellationToken::new()).unwrap()
    };
    let all = search(".");
    assert_eq!((all.results, all.protected), (vec!["sub/.env.example".to_owned()], 2));
    let named = search(".env");
    assert_eq!((named.results, named.protected), (vec![".env".to_owned()], 0));
}

#[test]
fn other_names_of_protected_files_are_protected() {
    let (_dir, home, paths) = home();
    for dir in [".git/hooks", ".ssh", ".local/state/zk/auth"] {
        fs::create_dir_all(home.join(dir)).unwrap();
    }
    for file in [".ssh/id_rsa", ".netrc", ".local/state/zk/auth/credentials.json"] {
        fs::write(home.join(file), "canary").unwrap();
    }
    symlink(".git", home.join("g")).unwrap();
    symlink(".git/hooks", home.join("hooks")).unwrap();
    symlink(".bashrc", home.join("start")).unwrap();
    symlink(".ssh", home.join("keys")).unwrap();
    for name in ["g/hooks/x", "hooks/x", "start", "keys/id_rsa", "src/../.git/config", "./.git//config"] {
        fs::create_dir_all(home.join("src")).unwrap();
        let at = paths.resolve(&home, name).unwrap();
        assert!(matches!(paths.write(&at, b"x"), Err(PathError::Protected { .. })), "{name}");
    }
    assert!(matches!(
        paths.open(&paths.resolve(&home, "keys/id_rsa").unwrap(), None),
        Err(PathError::Protected { .. })
    ));
    for (file, other) in
        [(".ssh/id_rsa", "a"), (".netrc", "b"), (".local/state/zk/auth/credentials.json", "c")]
    {
        fs::hard_link(home.join(file), home.join(other)).unwrap();
        let error = paths.open(&paths.resolve(&home, other).unwrap(), None).err().unwrap();
        assert!(error.to_string().contains("another name of a file with credentials"), "{other}: {error}");
    }
    fs::write(home.join("d"), "fine").unwrap();
    fs::hard_link(home.join("d"), home.join("e")).unwrap();
    paths.open(&paths.resolve(&home, "e").unwrap(), None).unwrap();
}

#[test]
fn the_environment_of_processes_is_not_read_where_everything_may_be() {
    let paths = WorkspaceFiles::new(["/"]).unwrap();
    for name in ["/proc/self/environ", "/proc/thread-self/environ", "/proc/1/mem", "/etc/shadow"] {
        let opened = paths.resolve(Path::new("/"), name).and_then(|at| paths.open(&at, None));
        assert!(opened.is_err(), "{name}");
    }
    let at = paths.resolve(Path::new("/"), &format!("/proc/{}/environ", std::process::id())).unwrap();
    assert!(matches!(paths.open(&at, None), Err(PathError::Protected { .. })));
}

/// Whether something exists outside is not to be found out by the answers.
#[test]
fn every_path_outside_has_the_same_answer() {
    let (_dir, home, paths) = home();
    let name = home.file_name().unwrap().to_str().unwrap();
    let back = |place: &str| format!("{place}/../../{}/f", home.display()).replace("//", "/");
    for there in [
        "/etc",
        "/etc/passwd",
        "/etc/passwd/x",
        "/etc/passwd/../x",
        "/etc/ssl",
        "/proc/self/exe",
        "/root/.ssh",
    ] {
        for path in [there.to_owned(), format!("{there}/x/y"), format!("{there}/.."), back(there)] {
            let missing = path.replacen(there, "/etc/nope", 1);
            let (found, missing) = (paths.resolve(&home, &path), paths.resolve(&home, &missing));
            let (Err(found), Err(missing)) = (found, missing) else { panic!("{path} was resolved") };
            assert!(matches!(found, PathError::Outside { .. }), "{path}: {found}");
            assert!(matches!(missing, PathError::Outside { .. }), "{path}: {missing}");
        }
    }
    // Names on the path to the workspace are not secret.
    for path in [format!("../{name}/f"), format!("{}/f", home.display()), "x/../f".to_owned()] {
        assert_eq!(paths.resolve(&home, &path).unwrap().shown, "f", "{path}");
    }
}
