//! The program `zk-worker`, which has the engines beyond this machine.

use std::path::{Path, PathBuf};

use zk_exec::replace_process;

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};

/// Name of the program.
const PROGRAM: &str = "zk-worker";

/// Lets `zk-worker` take the place of this process, with the same arguments, if it has the engine of the settings and this
/// program does not. Returns if this program has it.
pub(crate) fn take_over(app: &AppContext) -> Outcome<()> {
    let engine = &app.work.machine.engine;
    if engine.is_known() {
        return Ok(());
    }
    let location = engine.location();
    if !app.settings.additions.engines.is_empty() {
        // This is such a program itself.
        return Err(Failure::failed(format!("this program was built without the engine of {location}")));
    }
    let own = std::env::current_exe().ok();
    let search = app.work.machine.env.get("PATH").map(PathBuf::from);
    let Some(program) = find(own.as_deref(), search.as_deref()) else {
        let feature = location.scheme().map_or("postgres", |scheme| scheme.trim_end_matches("ql"));
        return Err(Failure::failed(format!(
            "`{PROGRAM}` has the engine of {location} and is not installed: put it beside zk or on PATH \
             (`cargo install zk-harness-fleet --features worker,{feature}`), or set fleet.engine to `local`"
        )));
    };
    let error = replace_process(&program, std::env::args_os().skip(1));
    Err(Failure::failed(format!("cannot execute {}: {error}", program.display())))
}

/// Finds the program beside this one, or in an absolute directory of the search path.
fn find(own: Option<&Path>, search: Option<&Path>) -> Option<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let searched = search.into_iter().flat_map(std::env::split_paths).filter(|dir| dir.is_absolute());
    beside.into_iter().chain(searched).map(|dir| dir.join(PROGRAM)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_program_beside_goes_first_and_relative_directories_count_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, mode| {
            let path = dir.path().join(name).join(PROGRAM);
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (beside, on_path) = (put("beside", 0o755), put("path", 0o755));
        put("plain", 0o644);
        let own = |name: &str| dir.path().join(name).join("zk");
        let search = std::env::join_paths([&dir.path().join("plain"), on_path.parent().unwrap()]).unwrap();
        let search = PathBuf::from(search);
        assert_eq!(find(Some(&own("beside")), Some(&search)), Some(beside));
        assert_eq!(find(Some(&own("none")), Some(&search)), Some(on_path));
        assert_eq!(find(Some(&own("plain")), Some(Path::new("path:.:"))), None);
    }
}
