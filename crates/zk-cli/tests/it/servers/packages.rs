//! The package `left-pad` as registries of npm, Python, Rust and Go have it.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::set_up;

/// Files of a registry.
pub(crate) struct Packages {
    tarball: Vec<u8>,
    wheel: Vec<u8>,
    module: Vec<u8>,
}

/// Writes archives of the kind zip.
const ZIP: &str = "import sys, zipfile
out = zipfile.ZipFile(sys.argv[1], 'w')
for name, text in zip(sys.argv[2::2], sys.argv[3::2]): out.writestr(name, text)
out.close()";

const MODULE: &str = "module example.org/left\n";

impl Packages {
    /// Makes the archives in a directory.
    pub(crate) fn make(dir: &Path) -> Self {
        fs::create_dir_all(dir.join("package")).unwrap();
        let about = json!({"name": "left-pad", "version": "1.0.0"}).to_string();
        fs::write(dir.join("package/package.json"), about).unwrap();
        set_up(dir, "tar", &["czf", "npm.tgz", "package"]);
        let info = "left_pad-1.0.0.dist-info";
        let metadata = "Metadata-Version: 2.1\nName: left-pad\nVersion: 1.0.0\n";
        let record = format!("left_pad.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");
        let files = [
            ("left_pad.py", "x = 1\n"),
            (&format!("{info}/METADATA"), metadata),
            (&format!("{info}/WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            (&format!("{info}/RECORD"), &record),
        ];
        let zip = |name: &str, files: &[(&str, &str)]| {
            let words = files.iter().flat_map(|(name, text)| [*name, *text]);
            let args: Vec<&str> = ["-c", ZIP, name].into_iter().chain(words).collect();
            set_up(dir, "python3", &args);
            fs::read(dir.join(name)).unwrap()
        };
        let wheel = zip("left_pad.whl", &files);
        let source = [
            ("example.org/left@v1.0.0/go.mod", MODULE),
            ("example.org/left@v1.0.0/left.go", "package left\n"),
        ];
        let module = zip("left.zip", &source);
        Self { tarball: fs::read(dir.join("npm.tgz")).unwrap(), wheel, module }
    }

    /// Kind and bytes of a file, where the registry is known at `at`.
    pub(super) fn get(&self, path: &str, at: &str) -> Option<(&'static str, Vec<u8>)> {
        let text = |kind, text: String| Some((kind, text.into_bytes()));
        match path {
            "/x" => text("text/plain", "greeting\n".to_owned()),
            "/npm/left-pad" => {
                let dist = json!({"tarball": format!("{at}/npm/left-pad-1.0.0.tgz")});
                let version = json!({"name": "left-pad", "version": "1.0.0", "dist": dist});
                let about = json!({"name": "left-pad", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}});
                text("application/json", about.to_string())
            }
            "/npm/left-pad-1.0.0.tgz" => Some(("application/octet-stream", self.tarball.clone())),
            "/simple/left-pad/" => {
                let name = "left_pad-1.0.0-py3-none-any.whl";
                text(
                    "text/html",
                    format!("<!DOCTYPE html><html><body><a href=\"/wheels/{name}\">{name}</a></body></html>"),
                )
            }
            "/wheels/left_pad-1.0.0-py3-none-any.whl" => Some(("application/zip", self.wheel.clone())),
            "/crates/config.json" => text("application/json", json!({"dl": format!("{at}/dl")}).to_string()),
            "/crates/le/ft/left-pad" => {
                let zeros = "0".repeat(64);
                let line = json!({"name": "left-pad", "vers": "1.0.0", "deps": [], "cksum": zeros, "features": {}, "yanked": false});
                text("text/plain", format!("{line}\n"))
            }
            "/go/example.org/left/@v/list" => text("text/plain", "v1.0.0\n".to_owned()),
            "/go/example.org/left/@v/v1.0.0.info" => text(
                "application/json",
                json!({"Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z"}).to_string(),
            ),
            "/go/example.org/left/@v/v1.0.0.mod" => text("text/plain", MODULE.to_owned()),
            "/go/example.org/left/@v/v1.0.0.zip" => Some(("application/zip", self.module.clone())),
            _ => None,
        }
    }
}
