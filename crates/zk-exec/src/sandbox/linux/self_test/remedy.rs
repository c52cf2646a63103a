use std::fs;
use std::path::Path;

/// Advice for a machine whose settings refuse a layer of the sandbox; `None` if no known setting is the
/// cause.
pub(in super::super) fn of_machine(problem: &str) -> Option<&'static str> {
    of(problem, Path::new("/"))
}

fn of(problem: &str, root: &Path) -> Option<&'static str> {
    let is_refused = ["namespace", "map the", "fix the groups", "/proc", "mount", "take"];
    if !is_refused.iter().any(|word| problem.contains(word)) {
        return None;
    }
    let is = |setting: &str, value: &str| {
        fs::read_to_string(root.join("proc/sys").join(setting)).is_ok_and(|found| found.trim() == value)
    };
    let is_container = ["run/.containerenv", ".dockerenv"].iter().any(|mark| root.join(mark).exists());
    Some(if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor keeps programs without a profile from it: give this program a profile with the rule `userns,`, or set \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "`sysctl kernel.unprivileged_userns_clone=1` allows it"
    } else if is("user/max_user_namespaces", "0") {
        "`sysctl user.max_user_namespaces=10000` allows it"
    } else if is_container {
        "this is a container: start it with namespaces and a whole /proc (Docker: `--security-opt seccomp=unconfined \
         --security-opt systempaths=unconfined`), or leave it to the container to hold commands"
    } else {
        "the kernel or a security policy of this machine refuses it"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_refuses_namespaces_is_named_with_its_remedy() {
        let refused = "cannot make a user namespace: Operation not permitted (os error 1)";
        for (file, text, told) in [
            (
                "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1\n",
                "a profile with the rule `userns,`",
            ),
            ("proc/sys/kernel/unprivileged_userns_clone", "0\n", "kernel.unprivileged_userns_clone=1"),
            ("proc/sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces=10000"),
            (".dockerenv", "", "this is a container"),
            ("other", "", "security policy of this machine"),
        ] {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join(file).parent().unwrap()).unwrap();
            fs::write(root.path().join(file), text).unwrap();
            let remedy = of(refused, root.path()).unwrap();
            assert!(remedy.contains(told), "{file}: {remedy}");
        }
        assert_eq!(of("the first process did not answer", Path::new("/nowhere")), None);
    }
}
