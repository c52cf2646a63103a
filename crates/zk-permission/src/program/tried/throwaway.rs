use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of commands in one root, which is checked after the last of them.
const BATCH_COMMANDS: usize = 100;

/// Root of a namespace: `/p` is the workspace, `/home/me` the home, `/tmp` private, all else the machine's.
/// Changes go to overlay layers, whose files are printed at the end.
const ROOT: &str = r#"
set -e; PATH=$PATH:/usr/sbin:/sbin; chroot=$(command -v chroot)
mount -t tmpfs tried "$1/layers"; mount -t tmpfs tried "$1/root"; cd "$1"
for name in bin sbin lib lib32 lib64 libx32; do if [ -L "/$name" ]; then cp -d "/$name" root/; fi; done
mkdir -p root/tmp root/dev root/proc root/var
over() {
    mkdir -p "layers/up/$2" "layers/scratch/$2" "root/$2"
    mount -t overlay tried -o "lowerdir=$1,upperdir=layers/up/$2,workdir=layers/scratch/$2,userxattr" "root/$2"
}
for name in bin sbin lib lib32 lib64 usr etc; do if [ -d "/$name" ] && [ ! -L "/$name" ]; then over "/$name" "$name"; fi; done
mkdir layers/below; cp -r --preserve=mode,links,timestamps template/. layers/below
over layers/below/p p; over layers/below/home home; over layers/below/outside outside
for name in null zero random urandom; do : > "root/dev/$name"; mount --bind "/dev/$name" "root/dev/$name"; done
ln -s /proc/self/fd root/dev/fd
mount -t proc proc root/proc 2> /dev/null || mount --rbind /proc root/proc
mount -t tmpfs tried root/tmp; cp -r commands root/tmp/commands
: > root/tmp/listener; mount --bind "$2" root/tmp/listener
find root -xdev > layers/before
env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/me LC_ALL=C TMPDIR=/tmp GIT_OPTIONAL_LOCKS=0 XDG_CACHE_HOME=/tmp/.cache \
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=diff.autoRefreshIndex GIT_CONFIG_VALUE_0=false \
    "$chroot" root /bin/bash --noprofile --norc -c '
    ZK_LISTENS=/p/socket /tmp/listener --exact program::tried::throwaway::listener > /dev/null 2>&1 &
    until [ -S /p/socket ]; do sleep 0.01; done
    for file in /tmp/commands/*; do ( cd /p && . "$file" ) < /dev/null > /tmp/output 2>&1; done
    kill $!; echo all ran' 2> /dev/null
find root -xdev > layers/after
diff layers/before layers/after | grep '^[<>]' || true
find layers/up -mindepth 2 ! -path layers/up/p/socket
"#;

/// Creates the files of the workspace, its home and a neighbouring directory.
#[expect(clippy::disallowed_methods, reason = "the repository is made by git itself, without the harness")]
pub(super) fn write_template(template: &Path) {
    let write = |name: &str, text: &str| {
        let path = template.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "home/me/.gitconfig",
        "[user]\n\tname = me\n\temail = me@example.org\n[init]\n\tdefaultBranch = main\n",
    );
    write("home/me/.netrc", "machine example.org password secret\n");
    write("outside/x", "outside\n");
    for name in [
        "a",
        "b",
        "a.txt",
        "b.txt",
        "names.txt",
        "log.txt",
        "data.csv",
        "tests/a.rs",
        "docs/guide.md",
        "sub/x",
    ] {
        write(&format!("p/{name}"), "one:1\ntwo:2\nthree,3\nfn main() {}\nTODO x\n");
    }
    write("p/src/main.rs", "fn main() {\n    println!(\"x\");\n}\n");
    write("p/src/lib.rs", "pub fn lib() {}\n");
    write("p/a.json", "{\"a\": [1, 2], \"items\": [{\"name\": \"x\"}]}\n");
    write("p/package.json", "{\"name\": \"p\", \"scripts\": {\"test\": \"x\"}, \"version\": \"1.0.0\"}\n");
    write("p/Cargo.toml", "[package]\nname = \"p\"\n");
    write("p/a.bin", "\u{1}\u{2}binary\n");
    write("p/a.patch", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one:1\n+one:2\n");
    write("p/.gitignore", "target\n*.log\n");
    std::os::unix::fs::symlink("/outside/x", template.join("p/link")).unwrap();
    let script = "git init -q -b main && git add -A && git commit -qm first && git tag v1 && echo more >> a.txt && \
        git commit -qam second && git tag -a -m two v2 && git branch feature && echo change >> b.txt && git stash -q && \
        git switch -q feature && echo feature > feature.txt && git add -A && git commit -qm feature && git switch -q main && \
        git remote add origin https://example.org/p.git && git update-ref refs/remotes/origin/main main && \
        git config branch.main.remote origin && git config branch.main.merge refs/heads/main && echo x >> src/lib.rs && \
        echo staged > staged && git add staged && echo new > new";
    let made = run(Command::new("/bin/bash")
        .args(["-c", script])
        .current_dir(template.join("p"))
        .envs([("HOME", template.join("home/me").as_os_str()), ("GIT_CONFIG_NOSYSTEM", "1".as_ref())]));
    assert!(made.is_ok(), "{made:?}");
}

/// Output of a program; its error message if it fails.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Commands that changed something in a throw-away root, with the names of the changed files; an error if
/// this machine cannot make one.
#[expect(
    clippy::disallowed_methods,
    reason = "the judge is compared with the programs themselves, without the harness"
)]
pub(super) fn changes_by(commands: &[String]) -> Result<Vec<(String, String)>, String> {
    let temp = tempfile::tempdir().unwrap();
    write_template(&temp.path().join("template"));
    for name in ["layers", "root"] {
        fs::create_dir(temp.path().join(name)).unwrap();
    }
    let own = std::env::current_exe().unwrap();
    let tried = |batch: &[String]| {
        let directory = temp.path().join("commands");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        for (at, command) in batch.iter().enumerate() {
            fs::write(directory.join(format!("{at:06}")), format!("{command}\n")).unwrap();
        }
        let mut unshare = Command::new("unshare");
        unshare.args(["-rmn", "--pid", "--fork", "--kill-child", "--", "/bin/bash", "-c", ROOT, "root"]);
        let told = run(unshare.args([temp.path(), &own]))?;
        told.strip_prefix("all ran").map(|changed| changed.trim().to_owned()).ok_or(told)
    };
    let mut found = Vec::new();
    let mut todo: Vec<&[String]> = commands.chunks(BATCH_COMMANDS).rev().collect();
    while let Some(batch) = todo.pop() {
        let changed = tried(batch)?;
        match batch {
            _ if changed.is_empty() => {}
            [only] => found.push((only.clone(), changed)),
            _ => {
                let (first, second) = batch.split_at(batch.len() / 2);
                todo.extend([second, first]);
            }
        }
    }
    Ok(found)
}

/// Helper process, no test: the listener in the root, which creates a file on a connection.
#[test]
#[expect(clippy::disallowed_methods, reason = "this program is told by a variable that it is the listener")]
fn listener() {
    let Some(path) = std::env::var_os("ZK_LISTENS") else { return };
    let socket = std::os::unix::net::UnixListener::bind(path).unwrap();
    for _ in socket.incoming() {
        fs::write("/p/was-connected", "").unwrap();
    }
}

#[test]
fn a_command_that_writes_or_connects_is_found_among_others() {
    let quiet = (0..250).map(|at| format!("cat a.txt | head -n {at}"));
    let loud = [
        "echo x > new-file",
        "touch a.txt",
        "git branch made",
        "git stash drop",
        "sort -o /etc/x a",
        "touch /made",
    ];
    let mut commands: Vec<String> = quiet.collect();
    for (at, command) in loud.iter().enumerate() {
        commands.insert(at * 40, (*command).to_owned());
    }
    match changes_by(&commands) {
        Err(why) => print_skipped(&why),
        Ok(found) => {
            let mut found: Vec<&str> = found.iter().map(|(command, _)| command.as_str()).collect();
            found.sort_unstable();
            let mut wanted = loud;
            wanted.sort_unstable();
            assert_eq!(found, wanted);
        }
    }
}

/// Prints that a test is skipped because this machine cannot make a throw-away root.
pub(super) fn print_skipped(why: &str) {
    println!("skipped: no root in a namespace of its own: {why}");
}
