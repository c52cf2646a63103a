use std::os::unix::fs::PermissionsExt;

use zk_exec::LocalStateFiles;

use super::*;

fn store(path: &Path) -> FileTrust {
    FileTrust::new(Some(path.to_owned()), Arc::new(LocalStateFiles::default()))
}

fn item<'a>(project: &'a str, bytes: &'a [u8]) -> TrustItem<'a> {
    TrustItem { project: Path::new(project), kind: "settings", name: ".zk/settings.toml", bytes }
}

#[test]
fn exactly_what_was_approved_is_trusted_until_it_is_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/trust.json");
    let trust = store(&path);
    assert!(!trust.is_trusted(&item("/p", b"a")));
    trust.approve(&item("/p", b"a")).unwrap();
    trust.approve(&item("/p", b"b")).unwrap();
    assert!(trust.is_trusted(&item("/p", b"a")) && trust.is_trusted(&item("/p", b"b")));
    for other in [item("/p", b"c"), item("/q", b"a"), TrustItem { kind: "hook", ..item("/p", b"a") }] {
        assert!(!trust.is_trusted(&other), "{other:?}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    trust.revoke(Path::new("/p"), "settings", ".zk/settings.toml").unwrap();
    assert!(!trust.is_trusted(&item("/p", b"a")));
}

#[test]
fn a_store_that_is_damaged_foreign_or_open_to_others_trusts_nothing_and_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trust.json");
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = told.clone();
    let trust = store(&path).telling(move |text| kept.lock().unwrap().push(text.to_owned()));
    let said = || std::mem::take(&mut *told.lock().unwrap());
    trust.approve(&item("/p", b"a")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    assert!(!trust.is_trusted(&item("/p", b"a")) && !trust.is_trusted(&item("/p", b"a")));
    let open = said();
    assert!(open.len() == 1 && open[0].contains("others can write to it"), "told once: {open:?}");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(trust.is_trusted(&item("/p", b"a")) && said().is_empty());
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(65_533), None).is_ok() {
        assert!(!trust.is_trusted(&item("/p", b"a")) && !trust.is_trusted(&item("/p", b"a")));
        let foreign = said();
        let why = "it belongs to another user, uid 65533";
        assert!(foreign.len() == 1 && foreign[0].contains(why), "told once: {foreign:?}");
        assert!(trust.approve(&item("/p", b"b")).is_err());
        std::os::unix::fs::chown(&path, Some(rustix::process::geteuid().as_raw()), None).unwrap();
        assert!(trust.is_trusted(&item("/p", b"a")) && said().is_empty());
    }
    // In the middle of a conversation as at its beginning.
    std::fs::write(&path, "{\"version\":1,").unwrap();
    assert!(!trust.is_trusted(&item("/p", b"a")));
    assert!(said()[0].contains("trust.json"), "told again");
    assert!(trust.approve(&item("/p", b"b")).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"version\":1,");
}
