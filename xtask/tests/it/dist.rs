//! Packages of one commit have one digest, and hold what they should.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::scratch::Scratch;

/// Program that answers as zk does when a package is made of it.
const PROGRAM: &str = "#!/bin/sh\ncase \"$1\" in\n  debug) mkdir -p \"$3\" && echo \".TH ZK 1\" >\"$3/zk.1\" ;;\n  completions) echo \"# words for $2\" ;;\nesac\n";

/// Digests of all files of a folder, by name.
fn digests(scratch: &Scratch, dir: &str) -> BTreeMap<String, String> {
    let sums = scratch.read(&format!("{dir}/SHA256SUMS"));
    let lines = sums.lines().map(|line| line.split_once("  ").unwrap());
    lines.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect()
}

/// Paths of the files of an archive, in its order.
fn listed(scratch: &Scratch, dir: &Path, archive: &str) -> Vec<String> {
    let path = dir.join(archive);
    scratch.run("tar", &["-tzf", &path.to_string_lossy()]).lines().map(str::to_owned).collect()
}

#[test]
fn packages_of_one_commit_have_one_digest_in_another_folder_and_on_another_day() {
    let first = Scratch::workspace();
    let second = first.clone_of();
    let mut found = Vec::new();
    for (scratch, zone) in [(&first, "UTC"), (&second, "Asia/Tokyo")] {
        scratch.write("target/program", PROGRAM);
        scratch.run("chmod", &["755", "target/program"]);
        let args = [
            "dist",
            "--binary",
            "target/program",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--out",
            "target/out",
        ];
        let args: Vec<&str> = args.into_iter().chain(["--pages-of", "target/program"]).collect();
        let (ok, said) = scratch.xtask(&args, &[("TZ", zone)]);
        assert!(ok, "{said}");
        found.push(digests(scratch, "target/out"));
        scratch.run("sh", &["-c", "cd target/out && sha256sum --quiet --check SHA256SUMS"]);
    }
    assert_eq!(found[0], found[1]);
    let names: Vec<&str> =
        found[0].keys().map(String::as_str).filter(|name| !name.ends_with(".rpm")).collect();
    let archive = "zk-0.1.0-x86_64-unknown-linux-gnu.tar.gz";
    let expected = [
        "install.sh",
        "zk-0.1.0-x86_64-unknown-linux-gnu.cdx.json",
        archive,
        "zk-0.1.0-x86_64-unknown-linux-gnu.tar.gz.sha256",
        "zk-agent-zk-0.1.0.tgz",
        "zk-agent-zk-linux-x64-0.1.0.tgz",
        "zk.rb",
        "zk_0.1.0_amd64.deb",
        "zk_agent-0.1.0-py3-none-manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
    ];
    assert_eq!(names, expected);
    let files = listed(&first, &first.path().join("target/out"), archive);
    let files: Vec<&str> =
        files.iter().filter_map(|path| path.split_once('/')).map(|(_, path)| path).collect();
    for expected in
        ["zk", "LICENSE-MIT", "THIRD-PARTY-NOTICES", "man/zk.1", "completions/_zk", "completions/zk.nu"]
    {
        assert!(files.contains(&expected), "{expected} is not in {files:?}");
    }

    let installed = first.path().join("installed");
    let base = format!("file://{}", first.path().join("target/out").display());
    let variables = [("ZK_INSTALL_FROM", base.as_str()), ("ZK_INSTALL_DIR", installed.to_str().unwrap())];
    let script = first.path().join("target/out/install.sh");
    let (ok, said) = first.tried("sh", &[&script.to_string_lossy()], "", &variables);
    if cfg!(target_arch = "x86_64") {
        assert!(ok, "{said}");
        assert_eq!(fs::read_to_string(installed.join("zk")).unwrap(), PROGRAM);
        fs::write(first.path().join("target/out").join(archive), "another").unwrap();
        let (ok, said) = first.tried("sh", &[&script.to_string_lossy()], "", &variables);
        assert!(!ok && said.contains("is not the one that was released"), "{said}");
    }
    let (ok, said) = first.xtask(&["dist", "--target", "x86_64-pc-windows-msvc"], &[]);
    assert!(!ok && said.contains("inside of WSL2"), "{said}");
}

#[test]
fn static_program_becomes_an_image() {
    let scratch = Scratch::workspace();
    scratch.write("target/pages-of", PROGRAM);
    scratch.run("chmod", &["755", "target/pages-of"]);
    scratch.write("target/program", "\u{7f}ELF, and nothing of a loader");
    let args = [
        "dist",
        "--binary",
        "target/program",
        "--target",
        "x86_64-unknown-linux-musl",
        "--out",
        "target/out",
    ];
    let args: Vec<&str> = args.into_iter().chain(["--pages-of", "target/pages-of"]).collect();
    let (ok, said) = scratch.xtask(&args, &[]);
    assert!(ok, "{said}");
    let image = "target/out/zk-0.1.0-x86_64-unknown-linux-musl.oci";
    let json = |path: &str| -> serde_json::Value { serde_json::from_str(&scratch.read(path)).unwrap() };
    let blob = |described: &serde_json::Value| {
        let digest = described["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        let path = format!("{image}/blobs/sha256/{digest}");
        assert!(scratch.run("sha256sum", &[&path]).starts_with(&digest));
        assert_eq!(
            fs::metadata(scratch.path().join(&path)).unwrap().len(),
            described["size"].as_u64().unwrap()
        );
        path
    };
    let manifest = json(&blob(&json(&format!("{image}/index.json"))["manifests"][0]));
    assert_eq!(json(&blob(&manifest["config"]))["config"]["Entrypoint"][0], "/usr/bin/zk");
    let layer = blob(&manifest["layers"][0]);
    assert!(listed(&scratch, scratch.path(), &layer).contains(&"usr/bin/zk".to_owned()));
}
