use super::Findings;
use crate::workspace::Text;

const KERNEL: &str = "crates/zk-core/src/kernel/";

/// The kernel imports nothing of its crate outside its own folder: it has no policy.
pub(super) fn check(file: &Text, findings: &mut Findings) {
    let Some(inside) = file.path.strip_prefix(KERNEL).filter(|_| file.path.ends_with(".rs")) else { return };
    // `kernel/mod.rs` and `kernel/a.rs` are one and two modules deep; each `super` climbs one.
    let folders = inside.matches('/').count();
    let depth = if inside.ends_with("mod.rs") { folders + 1 } else { folders + 2 };
    for (number, line) in file.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let outside = code.split("crate::").skip(1).any(|path| !path.starts_with("kernel"))
            || code.contains(&"super::".repeat(depth));
        if outside {
            findings.error(
                format_args!("{}:{}", file.path, number + 1),
                "the kernel imports nothing of zk-core outside `kernel/`",
            );
        }
    }
}
