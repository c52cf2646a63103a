use std::fs;
use std::path::Path;

use zk_core::service::{Files, PathError};
use zk_exec::WorkspaceFiles;

use crate::corpus_paths::{CANARY, escapes, outside_is_untouched, trap};

fn check(paths: &WorkspaceFiles, root: &Path, outside: &Path) {
    let corpus = escapes(root, outside);
    assert!(corpus.len() * 3 >= 376, "{}", corpus.len());
    for cwd in [root.to_owned(), root.join("src"), root.join("src/deep")] {
        for path in &corpus {
            // From below, some of them stay inside; the test is that nothing outside is reached.
            let Ok(at) = paths.resolve(&cwd, path) else { continue };
            assert!(
                at.path.starts_with(root),
                "{path:?} from {} became {}",
                cwd.display(),
                at.path.display()
            );
            assert_ne!(cwd, root, "{path:?} was resolved to {}", at.path.display());
            let _ = paths.open(&at, None);
            let _ = paths.list(&at);
            let _ = paths.stat(&at);
            let _ = paths.write(&at, b"overwritten");
        }
    }
    outside_is_untouched(root, outside);
}

#[test]
fn no_path_of_the_corpus_leads_outside() {
    let (_dir, root, outside) = trap();
    check(&WorkspaceFiles::new([&root]).unwrap(), &root, &outside);
}

#[test]
fn no_path_of_the_corpus_leads_outside_without_openat2() {
    let (_dir, root, outside) = trap();
    check(&WorkspaceFiles::new([&root]).unwrap().without_openat2().home("/root"), &root, &outside);
}

/// A [`Resolved`] older than the link, or made by hand, does not help either.
#[test]
fn a_link_on_a_resolved_path_is_refused() {
    use zk_core::service::Resolved;
    let (_dir, root, outside) = trap();
    for paths in
        [WorkspaceFiles::new([&root]).unwrap(), WorkspaceFiles::new([&root]).unwrap().without_openat2()]
    {
        for name in [
            "to_file",
            "to_dir/canary",
            "to_missing",
            "chain1/canary",
            "src/up/outside/canary",
            "src/../../outside/canary",
            "inside_link/x",
        ] {
            let at = Resolved { path: root.join(name), shown: name.to_owned() };
            assert!(paths.open(&at, None).is_err(), "open {name}");
            assert!(paths.write(&at, b"overwritten").is_err(), "write {name}");
        }
        for name in ["to_dir", "chain1", "src/up", "to_proc", "to_cwd", "inside_link"] {
            let at = Resolved { path: root.join(name), shown: name.to_owned() };
            assert!(paths.list(&at).is_err(), "list {name}");
        }
        let at = Resolved { path: outside.join("canary"), shown: "canary".to_owned() };
        assert!(matches!(paths.open(&at, None), Err(PathError::Outside { .. })));
    }
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), CANARY);
}
