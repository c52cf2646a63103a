//! Names of crates: people call a crate by its folder, code by its library, and registries have it under a prefix. The
//! folder `zk-core` is the library `zk_core` of the package `zk-harness-core`.

/// Beginning of the names of folders and libraries.
const SHORT_PREFIX: &str = "zk";

/// Beginning of the names of packages, since shorter ones are crates of others.
pub(crate) const PREFIX: &str = "zk-harness";

/// Package with the program.
pub(crate) const PROGRAM_PACKAGE: &str = "zk-harness-cli";

/// Package of the crate in a folder of `crates/`, which begins with `zk`: `zk-harness-core` for `zk-core`, and
/// `zk-harness` for `zk`.
pub(crate) fn package(folder: &str) -> String {
    format!("{PREFIX}{}", folder.strip_prefix(SHORT_PREFIX).unwrap_or(folder))
}

/// Folder of a package; `None` for a package of others.
pub(crate) fn folder(package: &str) -> Option<String> {
    let rest = package.strip_prefix(PREFIX)?;
    (rest.is_empty() || rest.starts_with('-')).then(|| format!("{SHORT_PREFIX}{rest}"))
}

/// Library of the crate in a folder.
pub(crate) fn library(folder: &str) -> String {
    folder.replace('-', "_")
}

/// Whether a folder of `crates/` is named so that it has a package.
pub(crate) fn is_folder(name: &str) -> bool {
    name == SHORT_PREFIX || name.strip_prefix(SHORT_PREFIX).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_packages_and_libraries_name_each_other() {
        for (of, named, in_code) in [
            ("zk", "zk-harness", "zk"),
            ("zk-core", "zk-harness-core", "zk_core"),
            ("zk-made-up", "zk-harness-made-up", "zk_made_up"),
        ] {
            assert_eq!((package(of).as_str(), library(of).as_str()), (named, in_code));
            assert_eq!(folder(named).as_deref(), Some(of));
            assert!(is_folder(of));
        }
        assert_eq!(package("zk-cli"), PROGRAM_PACKAGE);
        for other in ["zk", "zk-core", "zk-harnesses", "serde"] {
            assert_eq!(folder(other), None, "{other}");
        }
        assert!(!is_folder("zkx") && !is_folder("core"));
    }
}
