use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_exec::LocalStateFiles;
use zk_permission::{Approval, ApprovalKind, Approvals, Bound, Decision, Manifest, Mode, ProjectCode, Rules};

use crate::support::Setup;

fn store(dir: &tempfile::TempDir) -> Approvals {
    Approvals::new(dir.path().join("config/approvals.toml"), Arc::new(LocalStateFiles::default()))
}

fn approval(kind: ApprovalKind) -> Approval {
    Approval { kind, project: "/p".into(), created: "2026-11-22".into() }
}

fn three() -> [Approval; 3] {
    [
        approval(ApprovalKind::Exact { command: "for a in 'x'; do\n\techo \"$a\"; done".into() }),
        approval(ApprovalKind::Prefix { words: vec!["cargo".into(), "my test".into()] }),
        approval(ApprovalKind::Directory { path: "/p/gen".into() }),
    ]
}

#[test]
fn what_was_approved_is_read_back_and_can_be_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    assert_eq!(store.list().unwrap(), []);
    for approval in three() {
        store.add(&approval).unwrap();
        store.add(&Approval { created: "2027-01-01".into(), ..approval }).unwrap();
    }
    assert_eq!(store.list().unwrap(), three());
    assert_eq!(fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let [_, prefix, _] = three();
    assert!(store.revoke(&prefix).unwrap() && !store.revoke(&prefix).unwrap());
    assert_eq!(store.list().unwrap().len(), 2);
}

#[test]
fn approvals_hold_in_their_project_and_come_to_rules() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    for approval in three() {
        store.add(&approval).unwrap();
    }
    assert!(store.rules(&PathBuf::from("/q")).unwrap().is_empty());
    let mut rules = Rules::new();
    store.rules(&PathBuf::from("/p")).unwrap().into_iter().for_each(|rule| rules.push(rule));
    let setup = Setup { is_contained: true, ..Setup::new(Mode::Ask, rules) };
    for (command, decision) in [
        ("for a in 'x'; do\n\techo \"$a\"; done", Decision::Allow),
        ("for a in 'y'; do\n\techo \"$a\"; done", Decision::Ask),
        ("cargo 'my test' --all", Decision::Allow),
        ("cargo my test", Decision::Ask),
        ("ls > gen/a/b", Decision::Allow),
        ("ls > gen/../b", Decision::Ask),
        ("ls > genesis", Decision::Ask),
    ] {
        assert_eq!(setup.command(command).decision, decision, "{command}");
    }
}

#[test]
fn what_is_not_known_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    fs::create_dir(dir.path().join("config")).unwrap();
    let text = "version = 1\nlater = \"yes\"\n[[approval]]\nkind = \"host\"\nhost = \"example.org\"\n[[approval]]\nkind = \"exact\"\n\
                command = \"ls\"\nproject = \"/p\"\ncreated = \"2026-11-22\"\nnote = \"mine\"\n[other]\na = 1\n";
    fs::write(store.path(), text).unwrap();
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(store.list().unwrap().len(), 1);
    let [exact, ..] = three();
    store.add(&exact).unwrap();
    assert!(store.revoke(&exact).unwrap());
    let after: toml::Table = fs::read_to_string(store.path()).unwrap().parse().unwrap();
    assert_eq!(after, text.parse().unwrap());
}

#[test]
fn a_file_that_is_damaged_or_open_to_others_approves_nothing_and_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let [exact, ..] = three();
    store.add(&exact).unwrap();
    let good = fs::read_to_string(store.path()).unwrap();
    for (text, mode, why) in [
        ("approval = 1", 0o600, "`approval` is no list"),
        ("[[approval]]\nkind = \"exact\"", 0o600, "no text `command`"),
        ("[[approval]]\nkind = 1", 0o600, "no text `kind`"),
        (
            "[[approval]]\nkind = \"prefix\"\nwords = [1]\nproject = \"/p\"\ncreated = \"x\"",
            0o600,
            "no list `words`",
        ),
        (
            "[[approval]]\nkind = \"directory\"\ndirectory = \"a\"\nproject = \"/p\"\ncreated = \"x\"",
            0o600,
            "not absolute",
        ),
        ("approval = [1]", 0o600, "no table"),
        ("version = 2", 0o600, "version is not 1"),
        ("not toml", 0o600, "expected"),
        (good.as_str(), 0o622, "others can write"),
    ] {
        fs::write(store.path(), text).unwrap();
        fs::set_permissions(store.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = store.list().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("nothing in them counts"), "{text}: {error}");
        assert!(store.add(&exact).is_err() && store.rules(&PathBuf::from("/p")).is_err());
        assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
    }
}

#[test]
fn what_runs_the_code_of_a_project_and_tools_of_servers_are_read_back_with_all_that_they_are_bound_to() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir);
    let words = vec!["npm".to_owned(), "test".to_owned()];
    let manifest =
        |name: &str, hash: Option<&str>| Manifest { path: name.into(), hash: hash.map(str::to_owned) };
    let manifests = vec![manifest("/p/.npmrc", None), manifest("/p/package.json", Some("ab"))];
    let bound = Some(Bound { directory: "/p".into(), manifests });
    let all = [
        approval(ApprovalKind::Code(ProjectCode { words: words.clone(), bound: None })),
        approval(ApprovalKind::Code(ProjectCode { words, bound })),
        approval(ApprovalKind::Tools { server: None, names: vec!["mcp_files_read".into()] }),
        approval(ApprovalKind::Tools {
            server: Some("files".into()),
            names: vec!["mcp_files_read".into(), "mcp_files_write".into()],
        }),
    ];
    all.iter().for_each(|approval| store.add(approval).unwrap());
    assert_eq!(store.list().unwrap(), all);
    assert!(store.revoke(&all[1]).unwrap());
    assert_eq!(store.list().unwrap().len(), 3);
    let mut texts: Vec<String> = all.iter().map(|approval| approval.rule().text).collect();
    texts.dedup();
    assert_eq!(texts.len(), 4, "each can be revoked by its text: {texts:?}");
    for (text, why) in [
        ("kind = \"project-code\"\nwords = [\"npm\"]\ndirectory = \"/p\"", "alone"),
        (
            "kind = \"project-code\"\nwords = [\"npm\"]\ndirectory = \"/p\"\nmanifests = {}",
            "no table `manifests`",
        ),
        ("kind = \"tools\"\ntools = []", "no list `tools`"),
    ] {
        let text = format!("[[approval]]\n{text}\nproject = \"/p\"\ncreated = \"x\"");
        fs::write(store.path(), text).unwrap();
        let error = store.list().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
