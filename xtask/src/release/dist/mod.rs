//! Packages of the program for one platform. Same commit, same bytes: no folder, no day and no machine is in them.

#![expect(clippy::disallowed_methods, reason = "the day of a reproducible build comes by a variable")]

mod binary;
mod contents;
mod deb;
mod entry;
mod install;
mod notices;
mod npm;
mod oci;
mod rpm;
mod sbom;
mod target;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use binary::Binary;
pub(super) use binary::{glibc_of, variables};
use contents::Contents;
use entry::{Entry, tar_gz};
pub(super) use entry::{hex, sha256};
use install::Archive;
use target::Target;
pub(super) use target::host;
pub(super) use wheel::python_version;

use super::metadata::Metadata;
use crate::run::{Run, programs};
use crate::workspace::Workspace;
use crate::workspace::names::PROGRAM_PACKAGE;

/// Arguments of the task.
#[derive(Default)]
struct Options {
    target: Option<String>,
    /// Program that was built before.
    binary: Option<PathBuf>,
    /// Program that runs on this machine, which is asked for pages and scripts.
    pages_of: Option<PathBuf>,
    out: Option<PathBuf>,
    /// Address at which the archives will be.
    base: Option<String>,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let mut value = || {
                args.next().map(|value| (*value).to_owned()).with_context(|| format!("{name} wants a value"))
            };
            match *name {
                "--target" => options.target = Some(value()?),
                "--binary" => options.binary = Some(value()?.into()),
                "--pages-of" => options.pages_of = Some(value()?.into()),
                "--out" => options.out = Some(value()?.into()),
                "--base" => options.base = Some(value()?),
                other => bail!("dist: unknown argument `{other}`; see `cargo xtask help`"),
            }
        }
        Ok(options)
    }
}

/// Data that all packages share.
struct About<'a> {
    version: &'a str,
    target: Target,
    binary: &'a Binary,
    description: &'a str,
    repository: &'a str,
    author: &'a str,
    /// Time of every file, in seconds since 1970.
    seconds: u64,
}

impl About<'_> {
    fn licence_note(&self) -> String {
        format!(
            "zk, from {}.\nCopyright {}.\nLicence: MIT OR Apache-2.0; the texts are in LICENSE-MIT and LICENSE-APACHE beside this file.\n\
             What it is built of has licences of its own: THIRD-PARTY-NOTICES beside this file.\n",
            self.repository, self.author
        )
    }
}

/// Makes all packages for one platform, and says which were left out and why.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let options = Options::parse(args)?;
    let root = workspace.root();
    let host = host(root)?;
    let target = Target::named(options.target.as_deref().unwrap_or(&host))?;
    let seconds = commit_time(root)?;
    let metadata = Metadata::read(root, Some(target.triple))?;
    let is_program =
        |package: &&super::metadata::Package| package.name == PROGRAM_PACKAGE && metadata.is_member(package);
    let program = metadata
        .packages
        .iter()
        .find(is_program)
        .with_context(|| format!("the workspace has no {PROGRAM_PACKAGE}"))?;
    let version = program.version.as_str();

    let built = match &options.binary {
        Some(path) => root.join(path),
        None => binary::build(root, target, seconds)?,
    };
    let binary = Binary::read(&built)?;
    let pages_of = match options.pages_of {
        Some(path) => root.join(path),
        None if target.triple == host => built,
        None => programs(root)?.join("zk"),
    };
    let packages = metadata.tree(root, PROGRAM_PACKAGE, Some(target.triple))?;
    let contents = Contents::of(root, &pages_of, notices::text(&packages)?)?;
    let about = About {
        version,
        target,
        binary: &binary,
        description: program.description.as_deref().unwrap_or("zk"),
        repository: program.repository.as_deref().unwrap_or_default(),
        author: program.authors.first().map_or("The zk authors", String::as_str),
        seconds,
    };

    let out =
        Out { dir: options.out.map_or_else(|| root.join("target/dist").join(version), |out| root.join(out)) };
    let base = options.base.unwrap_or_else(|| format!("{}/releases/download/v{version}", about.repository));
    let name = format!("zk-{version}-{}", target.triple);
    let archive = tar_gz(&contents.archive(&binary.bytes, &name), seconds)?;
    out.write(
        &format!("{name}.tar.gz.sha256"),
        format!("{}  {name}.tar.gz\n", hex(&sha256(&archive))).as_bytes(),
    )?;
    out.write(&format!("{name}.tar.gz"), &archive)?;
    let sbom = sbom::text(root, &metadata, &packages, &about)?;
    out.write(&format!("{name}.cdx.json"), sbom.as_bytes())?;
    system_packages(root, &about, &contents, &out)?;
    for (name, bytes) in [
        npm::platform(&about, &contents)?,
        npm::launcher(&about, &contents)?,
        wheel::package(&about, &contents)?,
    ] {
        out.write(&name, &bytes)?;
    }
    if target.is_linux() && binary.is_static() {
        for file in oci::layout(&about, &contents)? {
            out.write(&format!("{name}.oci/{}", file.path), &file.bytes)?;
        }
    } else {
        println!("image: skipped, the program needs files of a system beside it; a musl target has none");
    }
    let archives = out.archives(version)?;
    out.write(
        "zk.rb",
        install::formula((about.description, about.repository), version, &base, &archives)?.as_bytes(),
    )?;
    out.write("install.sh", install::script(version, &base, &archives)?.as_bytes())?;
    out.write_sums()?;
    println!("dist: packages of zk {version} for {} are in {}", target.triple, out.dir.display());
    Ok(())
}

fn system_packages(root: &Path, about: &About<'_>, contents: &Contents, out: &Out) -> Result<()> {
    if !about.target.is_linux() || about.target.is_musl() {
        println!("deb and rpm: skipped, those are made for the linux-gnu targets");
        return Ok(());
    }
    let deb = format!("zk_{}_{}.deb", about.version.replace('-', "~"), about.target.deb);
    out.write(&deb, &deb::package(about, contents)?)?;
    match rpm::package(root, about, contents)? {
        Ok((name, bytes)) => out.write(&name, &bytes)?,
        Err(why) => println!("rpm: skipped, {why}"),
    }
    Ok(())
}

/// Time of the commit, or the one that `SOURCE_DATE_EPOCH` says.
pub(super) fn commit_time(root: &Path) -> Result<u64> {
    let said = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(said) => said,
        Err(_) => String::from_utf8(
            Run::new("git", &["log", "-1", "--format=%ct"], root)
                .output()
                .context("no commit tells the time of the files: set SOURCE_DATE_EPOCH, in seconds")?,
        )?,
    };
    said.trim()
        .parse()
        .with_context(|| format!("SOURCE_DATE_EPOCH: `{}` is no number of seconds", said.trim()))
}

/// Digests of files with their names, as `sha256sum --check` reads them.
fn sums(files: &[Entry]) -> String {
    let mut lines: Vec<String> =
        files.iter().map(|file| format!("{}  {}\n", hex(&sha256(&file.bytes)), file.path)).collect();
    lines.sort_by(|a, b| a.split("  ").last().cmp(&b.split("  ").last()));
    lines.concat()
}

/// Folder of the packages of one version.
struct Out {
    dir: PathBuf,
}

impl Out {
    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        // A file that is there has all of its bytes.
        let half = self.dir.join(".half");
        fs::write(&half, bytes)
            .and_then(|()| fs::rename(&half, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("{} ({} kB)", path.display(), bytes.len().div_ceil(1024));
        Ok(())
    }

    /// Archives of this version, also those of other platforms that were made before.
    fn archives(&self, version: &str) -> Result<Vec<Archive>> {
        let mut archives = Vec::new();
        for target in target::TARGETS {
            let name = format!("zk-{version}-{}", target.triple);
            let (archive, sbom) =
                (self.dir.join(format!("{name}.tar.gz")), self.dir.join(format!("{name}.cdx.json")));
            if archive.is_file() {
                let glibc = sbom::glibc_minor(&fs::read_to_string(&sbom)?)?;
                archives.push(Archive {
                    triple: target.triple.to_owned(),
                    sha256: hex(&sha256(&fs::read(&archive)?)),
                    glibc,
                });
            }
        }
        Ok(archives)
    }

    fn write_sums(&self) -> Result<()> {
        let (mut files, mut folders) = (Vec::new(), vec![self.dir.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = path.strip_prefix(&self.dir)?.to_string_lossy().into_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if name != "SHA256SUMS" {
                    files.push(Entry::file(name, fs::read(&path)?));
                }
            }
        }
        self.write("SHA256SUMS", sums(&files).as_bytes())
    }
}
