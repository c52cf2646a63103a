//! Image in the clipboard, read with the clipboard tool of this system.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, Exit, OutputStream};

use super::attachments::MAX_IMAGE_BYTES;

/// Time limit for reading the clipboard, since a tool may hang if its display is gone.
const CLIPBOARD_DEADLINE: Duration = Duration::from_secs(2);

/// Tools that print the image of a clipboard: name, arguments, and the variable of the display that they need.
const TOOLS: [(&str, &[&str], Option<&str>); 3] = [
    ("wl-paste", &["--no-newline", "--type", "image/png"], Some("WAYLAND_DISPLAY")),
    ("xclip", &["-selection", "clipboard", "-target", "image/png", "-out"], Some("DISPLAY")),
    ("pngpaste", &["-"], None),
];

/// Installed clipboard tool, with its arguments.
struct ClipboardTool {
    name: &'static str,
    program: PathBuf,
    args: &'static [&'static str],
}

impl ClipboardTool {
    /// Finds the first tool on the path whose display is available, or else the first one.
    fn find(path: &OsStr, has_variable: impl Fn(&str) -> bool) -> Option<Self> {
        let find = |(name, args, variable): (&'static str, &'static [&'static str], Option<&str>)| {
            let program =
                std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| is_program(file))?;
            Some((variable.is_none_or(&has_variable), Self { name, program, args }))
        };
        let mut found: Vec<(bool, Self)> = TOOLS.into_iter().filter_map(find).collect();
        let at = found.iter().position(|(has_display, _)| *has_display).unwrap_or(0);
        (at < found.len()).then(|| found.swap_remove(at).1)
    }
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Reads the image in the clipboard. `variables` are the environment of the person's display. The error is a
/// message.
pub(crate) async fn read_clipboard_image(
    exec: &dyn Exec,
    path: &OsStr,
    variables: &[(&'static str, OsString)],
    cwd: &Path,
) -> Result<Vec<u8>, String> {
    let has_variable = |name: &str| variables.iter().any(|(known, _)| *known == name);
    let Some(tool) = ClipboardTool::find(path, has_variable) else {
        return Err(
            "no image can be pasted: wl-paste (wl-clipboard), xclip or pngpaste has to be installed; \
                    the path of an image file can be pasted"
                .to_owned(),
        );
    };
    let stop = CancellationToken::new();
    let mut image = Vec::new();
    let mut take = |stream: OutputStream, bytes: &[u8]| {
        if stream == OutputStream::Stdout && image.len() <= MAX_IMAGE_BYTES {
            image.extend_from_slice(bytes);
        }
        if image.len() > MAX_IMAGE_BYTES {
            stop.cancel();
        }
    };
    let request = ExecRequest {
        args: tool.args.iter().map(Into::into).collect(),
        env: variables.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
        timeout: Some(CLIPBOARD_DEADLINE),
        ..ExecRequest::new(&tool.program, cwd)
    };
    let name = tool.name;
    let ran = exec.run(request, &mut take, &stop).await;
    let outcome = ran.map_err(|error| format!("cannot run {name}: {error}"))?;
    let seconds = CLIPBOARD_DEADLINE.as_secs();
    match outcome.exit {
        _ if image.len() > MAX_IMAGE_BYTES => Err(format!(
            "the image in the clipboard has more than {} MB: make it smaller, or paste the path of a file",
            MAX_IMAGE_BYTES >> 20
        )),
        Exit::Code(0) if !image.is_empty() => Ok(image),
        Exit::Code(_) => Err("there is no image in the clipboard".to_owned()),
        Exit::TimedOut => Err(format!("{name} gave no image within {seconds} s: is there a display?")),
        Exit::Signal(_) | Exit::Stopped => Err(format!("{name} was stopped before it gave an image")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zk_exec::{Environment, ProcessExec};

    use super::*;

    const PNG: &str = r"printf '\211PNG\r\n\032\n\000\000\000\rIHDR\000\000\002\200\000\000\001\340'";

    async fn pasted(tool: &str, script: &str) -> Result<Vec<u8>, String> {
        let dir = tempfile::tempdir().unwrap();
        if !tool.is_empty() {
            let file = dir.path().join(tool);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let exec: Arc<dyn Exec> =
            Arc::new(ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin")])));
        read_clipboard_image(&*exec, dir.path().as_os_str(), &[], dir.path()).await
    }

    #[tokio::test]
    async fn an_image_in_the_clipboard_comes_from_the_tool_that_is_installed() {
        for tool in ["wl-paste", "xclip", "pngpaste"] {
            assert!(pasted(tool, PNG).await.unwrap().starts_with(b"\x89PNG"), "{tool}");
        }
    }

    #[tokio::test]
    async fn each_failure_of_the_clipboard_has_its_own_message() {
        for (tool, script, said) in [
            ("", "", "has to be installed"),
            ("xclip", "exit 1", "there is no image in the clipboard"),
            ("xclip", "exit 0", "there is no image in the clipboard"),
            ("wl-paste", "head -c 52428800 /dev/zero", "more than 5 MB"),
            ("wl-paste", "sleep 600", "gave no image within 2 s"),
        ] {
            let why = pasted(tool, script).await.unwrap_err();
            assert!(why.contains(said), "{script}: {why}");
        }
    }

    #[test]
    fn the_clipboard_tool_of_the_running_display_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        for tool in ["wl-paste", "xclip"] {
            let file = dir.path().join(tool);
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let found = |variable: &str| {
            let tool = ClipboardTool::find(dir.path().as_os_str(), |name| name == variable);
            tool.map(|tool| tool.name)
        };
        assert_eq!(
            (found("DISPLAY"), found("WAYLAND_DISPLAY"), found("")),
            (Some("xclip"), Some("wl-paste"), Some("wl-paste"))
        );
    }
}
