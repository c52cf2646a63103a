use std::os::unix::fs::symlink;

use super::*;

fn write_program(dir: &Path, name: &str, mode: u32) {
    fs::create_dir_all(dir).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join(name), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
}

/// Temporary directories are shared, so the tests make theirs next to their program.
fn scratch() -> tempfile::TempDir {
    let own = std::env::current_exe().unwrap();
    tempfile::tempdir_in(own.parent().unwrap()).unwrap()
}

#[test]
fn a_program_that_others_can_create_is_not_trusted() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    let (home, work) = (at("home"), at("home/work"));
    write_program(&home.join("bin"), "mine", 0o755);
    write_program(&home.join("bin"), "ls", 0o755);
    write_program(&home.join("bin"), "open", 0o777);
    write_program(&home.join("bin"), "text", 0o644);
    write_program(&work.join("bin"), "evil", 0o755);
    symlink(work.join("bin/evil"), home.join("bin/link")).unwrap();
    let path = [home.join("bin"), work.join("bin"), "bin".into(), "/usr/bin".into(), "/bin".into()];
    // The checkout itself may be in a directory that everybody shares.
    let here = HostPathClassifier { shared: &[], ..HostPathClassifier::new(&[work], Some(&home), &path) };
    assert!(matches!(here.program("mine"), ProgramPlace::Trusted(_)));
    assert!(matches!(here.program("cat"), ProgramPlace::Trusted(_)));
    for name in ["ls", "open", "evil", "link"] {
        assert!(matches!(here.program(name), ProgramPlace::Writable(_)), "{name}");
    }
    for name in ["text", "no-such-program", "", "bin/mine"] {
        assert_eq!(here.program(name), ProgramPlace::Missing, "{name}");
    }
}

#[test]
fn a_walk_has_the_worst_place_that_it_reaches() {
    let dir = scratch();
    let (home, work) = (dir.path().join("home"), dir.path().join("home/work"));
    for made in
        ["work/src", "work/linked", "work/keys/.aws", "work/hidden/.ssh", "work/login", "work/app", "mine"]
    {
        fs::create_dir_all(home.join(made)).unwrap();
    }
    fs::write(work.join("app/.env"), "KEY=a").unwrap();
    fs::write(work.join("login/_netrc"), "machine a").unwrap();
    symlink(home.join("mine"), work.join("linked/out")).unwrap();
    let here = HostPathClassifier::new(std::slice::from_ref(&work), Some(&home), &[]);
    let list = TreeWalk::default();
    let read = TreeWalk { reads_contents: true, ..list };
    let follow = TreeWalk { follows_links: true, ..read };
    let visible = TreeWalk { skips_hidden: true, ..read };
    for (root, walk, place) in [
        ("src", follow, PathPlace::Inside),
        ("linked", read, PathPlace::Inside),
        ("linked", follow, PathPlace::Outside),
        ("keys", list, PathPlace::Secret),
        (".", read, PathPlace::Secret),
        ("hidden", visible, PathPlace::Inside),
        ("hidden", read, PathPlace::Secret),
        ("login", list, PathPlace::Inside),
        ("login", read, PathPlace::Secret),
        ("app", list, PathPlace::Inside),
        ("app", read, PathPlace::Private),
        ("..", list, PathPlace::Outside),
    ] {
        assert_eq!(here.tree(&work.join(root), walk), place, "{root} {walk:?}");
    }
    let words = TreeWalk { splits_names: true, ..read };
    assert_eq!(here.tree(&work.join("src"), words), PathPlace::Inside);
    for name in ["a b", "-R", "@a", "a\"b", "a\\b"] {
        fs::write(work.join("src").join(name), "").unwrap();
        assert_eq!(here.tree(&work.join("src"), words), PathPlace::Outside, "{name}");
        fs::remove_file(work.join("src").join(name)).unwrap();
    }
    let private = PrivateFiles::default();
    let here = here.hiding_private().recording_private(private.clone());
    assert_eq!(here.tree(&work.join("app"), read), PathPlace::Inside);
    assert_eq!(private.take_new_files().len(), 1);
    assert_eq!(here.tree(&work.join("app"), read), PathPlace::Inside);
    assert_eq!(private.take_new_files(), Vec::<PathBuf>::new(), "known by now");
    fs::write(work.join("app/plain"), "").unwrap();
    symlink("plain", work.join("app/.env.local")).unwrap();
    let followed = TreeWalk { follows_links: true, ..read };
    assert_eq!(here.tree(&work.join("app"), followed), PathPlace::Private);
    assert_eq!(private.take_new_files(), Vec::<PathBuf>::new(), "its target is not a credential by its name");
}

#[test]
fn links_are_followed_before_a_path_counts_as_inside() {
    let dir = scratch();
    let (home, work) = (dir.path().join("home"), dir.path().join("home/work"));
    fs::create_dir_all(work.join("src/.git")).unwrap();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    for (link, to) in
        [("out", home.as_path()), ("gone", Path::new("/nowhere/x")), ("key", &home.join(".ssh"))]
    {
        symlink(to, work.join(link)).unwrap();
    }
    let here = HostPathClassifier::new(std::slice::from_ref(&work), Some(&home), &[]);
    for (path, place) in [
        ("src", PathPlace::Inside),
        ("new/file", PathPlace::Inside),
        ("src/../new", PathPlace::Inside),
        ("src/.git/config", PathPlace::Protected),
        ("out/x", PathPlace::Outside),
        ("out/../x", PathPlace::Outside),
        ("gone", PathPlace::Outside),
        ("new/../../x", PathPlace::Outside),
        ("..", PathPlace::Outside),
        ("key/id", PathPlace::Secret),
        ("../.kube/config", PathPlace::Secret),
        ("../.vimrc", PathPlace::Outside),
        (".env", PathPlace::Private),
        ("src/ID_RSA", PathPlace::Private),
        ("../.env", PathPlace::Outside),
        (".env.example", PathPlace::Inside),
        (".claude/settings.json", PathPlace::Protected),
        (".claude/skills/x", PathPlace::Protected),
        (".claude/notes/x", PathPlace::Inside),
        ("/etc/hosts", PathPlace::Outside),
    ] {
        assert_eq!(here.path(&work.join(path)), place, "{path}");
    }
    symlink(work.join("own"), work.join("link")).unwrap();
    fs::create_dir(work.join("own")).unwrap();
    let of_host = here.protecting([work.join("own")]).hiding([work.join("plans")]);
    for (path, place) in [
        ("own", PathPlace::Protected),
        ("own/trust.json", PathPlace::Protected),
        ("link/trust.json", PathPlace::Protected),
        ("plans/x", PathPlace::Secret),
        ("owner", PathPlace::Inside),
    ] {
        assert_eq!(of_host.path(&work.join(path)), place, "{path}");
    }
    let config = HostPathClassifier::new(&[home.join(".config")], Some(&home), &[]);
    assert_eq!(config.path(&home.join(".config/fish/config.fish")), PathPlace::Protected);
    let all_of_home = HostPathClassifier::new(std::slice::from_ref(&home), Some(&home), &[]);
    assert_eq!(all_of_home.path(&home.join("notes")), PathPlace::Outside);
}

#[test]
fn only_existing_paths_are_cached() {
    let scratch = scratch();
    let (file, link) = (scratch.path().join("file"), scratch.path().join("link"));
    fs::write(&file, "text").unwrap();
    symlink(&file, &link).unwrap();
    let classifier = HostPathClassifier::new(&[scratch.path().to_owned()], None, &[]);
    assert!(!classifier.is_cached(&scratch.path().join("missing")));
    if !classifier.is_cached(&file) {
        return println!("skipped: this system does not tell what it has cached");
    }
    assert!(classifier.is_cached(&link));
    fs::remove_file(&file).unwrap();
    assert!(!classifier.is_cached(&link));
}
