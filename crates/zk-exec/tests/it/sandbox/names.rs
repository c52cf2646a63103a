//! Names that no command makes, by whatever call, and calls that work as ever.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use zk_exec::SandboxPolicy;

use super::{has, run, sandboxed};

/// Ways to make `name` in the directory `w`, in a function each; one may fail, none may succeed.
const HOSTILE: &str = r#"
import ctypes, os, socket, sys, threading
w, name = sys.argv[1], sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(w, os.O_RDONLY)
target = os.path.join(w, name)
if not os.path.exists("made"): open("made", "w").close()
if not os.path.exists("dir"): os.mkdir("dir")
if not os.path.islink("link"): os.symlink(w, "link")
if not os.path.islink("dangling-" + name): os.symlink(target, "dangling-" + name)
def bound(path):
    socket.socket(socket.AF_UNIX).bind(path)
def tmpfile(path, flags):
    made = os.open(w, os.O_TMPFILE | os.O_RDWR, 0o600)
    if libc.linkat(-100, b"/proc/self/fd/%d" % made, -100, path.encode(), flags): raise OSError("linkat")
def tmpfile_fd(path):
    made = os.open(w, os.O_TMPFILE | os.O_RDWR, 0o600)
    if libc.linkat(made, b"", -100, path.encode(), 0x1000): raise OSError("linkat")
def call(number, *args):
    if libc.syscall(number, *args) < 0: raise OSError("syscall")
def exchanged(path):
    call(316, -100, b"made", -100, path.encode(), 2)
def child(path):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            try: os.mkdir(path)
            finally: os._exit(0)
        os._exit(0)
    os.wait()
def in_thread(path):
    thread = threading.Thread(target=lambda: open(path, "w").close())
    threading.excepthook = lambda args: None
    thread.start(); thread.join()
def how32(path):
    call(437, -100, path.encode(), (ctypes.c_uint64 * 3)(0o101, 0o600, 0), 24)
paths = [target, "link/" + name, "/proc/self/cwd/" + name, "/proc/thread-self/cwd/" + name,
         "/proc/self/fd/%d/%s" % (fd, name), "/dev/fd/%d/%s" % (fd, name), "/proc/self/root" + target,
         "dir/../" + name, "./" + name, "dir/.././link//" + name, "/proc/%d/cwd/%s" % (os.getpid(), name)]
ways = [lambda p: open(p, "w").close(), lambda p: open(p, "x").close(),
        lambda p: os.open(p, os.O_CREAT | os.O_RDONLY), lambda p: os.open(p, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW),
        lambda p: os.mkdir(p), lambda p: os.mkdir(p + "/"), lambda p: os.mkfifo(p), lambda p: os.mknod(p),
        lambda p: os.symlink("made", p), lambda p: os.link("made", p), lambda p: os.rename("made", p),
        lambda p: os.rename("dir", p), lambda p: os.rename("dir", p + "/"), lambda p: os.replace("link", p),
        bound, lambda p: tmpfile(p, 0x400), tmpfile_fd, exchanged, child, in_thread, how32,
        lambda p: call(85, p.encode(), 0o600), lambda p: call(83, p.encode(), 0o700)]
def attempt(label, act):
    try: act()
    except Exception: pass
    if os.path.lexists(target): print("MADE", label); sys.exit(1)
for number, way in enumerate(ways):
    for path in paths:
        attempt((number, path), lambda: way(path))
for act in [lambda: os.mkdir(name, dir_fd=fd), lambda: os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=fd),
            lambda: os.symlink("made", name, dir_fd=fd), lambda: os.rename("made", name, dst_dir_fd=fd),
            lambda: os.link("made", name, dst_dir_fd=fd), lambda: os.mknod(name, dir_fd=fd),
            lambda: open("dangling-" + name, "w").close(), lambda: os.chroot(w) or os.mkdir("/" + name),
            lambda: os.chdir("dir") or os.mkdir("../" + name)]:
    os.chdir(w)
    attempt("by a descriptor", act)
# The text of a path changes while calls are made with it.
os.chdir(w)
text = ctypes.create_string_buffer(64)
text.value = b"dir/free"
over = threading.Event()
def change():
    while not over.is_set():
        ctypes.memmove(text, b"./%s\0" % name.encode(), len(name) + 3)
        ctypes.memmove(text, b"dir/free\0", 9)
changing = threading.Thread(target=change)
changing.start()
for _ in range(500):
    libc.mkdir(text, 0o700)
    made = libc.open(text, os.O_CREAT | os.O_WRONLY, 0o600)
    if made >= 0: os.close(made)
    for left in ["dir/free"]:
        for remove in (os.rmdir, os.unlink):
            try: remove(left)
            except OSError: pass
    if os.path.lexists(target): print("MADE while the text changed"); break
over.set(); changing.join()
# So does the directory that it leads through.
os.mkdir("real")
def swap():
    while not over.is_set():
        try:
            os.rename("real", "aside"); os.symlink(".", "real"); os.unlink("real"); os.rename("aside", "real")
        except OSError: pass
over.clear()
changing = threading.Thread(target=swap); changing.start()
for _ in range(500):
    for act in (lambda: os.mkdir("real/" + name), lambda: bound("real/" + name)):
        try: act()
        except OSError: pass
    for remove in (os.rmdir, os.unlink):
        for above in ("real/", "aside/"):
            try: remove(above + name)
            except OSError: pass
    if os.path.lexists(target): print("MADE while a directory changed"); break
over.set(); changing.join()
for above in ("real", "aside"):
    for act in (lambda: os.rmdir(above + "/" + name), lambda: os.unlink(above + "/" + name), lambda: os.rmdir(above), lambda: os.unlink(above)):
        try: act()
        except OSError: pass
print("none")
"#;

#[tokio::test]
async fn no_call_of_a_hostile_program_makes_a_guarded_name() {
    if !has("python3") {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let work = base.path().canonicalize().unwrap().join("work");
    fs::create_dir(&work).unwrap();
    let policy = SandboxPolicy::new(&work).state(base.path().join("state"));
    let Some(exec) = sandboxed(&policy) else { return };
    fs::write(base.path().join("work/hostile.py"), HOSTILE).unwrap();
    for name in [".git", "HEAD", ".zk", ".husky", ".claude", ".bashrc", ".gitmodules"] {
        let (code, out) = run(&exec, &format!("python3 hostile.py {} {name}", work.display()), &work).await;
        assert_eq!((code, out.trim()), (0, "none"), "{name}");
        assert!(fs::symlink_metadata(work.join(name)).is_err(), "{name}");
    }
    let (_, out) = run(&exec, "mkdir .GIT .Zk; ls -a", &work).await;
    assert!(!work.join(".GIT").exists() && !work.join(".Zk").exists(), "{out}");
    exec.close().await;
}

/// Runs a command that must succeed and print `expected`.
async fn prints(exec: &zk_exec::SandboxExec, dir: &Path, command: &str, expected: &str) {
    let (code, out) = run(exec, command, dir).await;
    assert_eq!((code, out.trim()), (0, expected), "{command}");
}

#[tokio::test]
async fn calls_that_make_other_names_do_what_they_did() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().canonicalize().unwrap().join("work");
    fs::create_dir(&work).unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(&work)) else { return };
    for (command, expected) in [
        (
            "umask 027; echo a > plain; mkdir sub; umask 077; echo b > own; stat -c %a plain sub own",
            "640\n750\n600",
        ),
        ("echo out > /dev/stdout; echo err > /dev/stderr; echo fd > /dev/fd/1", "out\nerr\nfd"),
        ("echo x > /dev/null; echo y >> /dev/null; echo ok", "ok"),
        ("ln -s sub/target dangling; echo through > dangling; cat sub/target", "through"),
        ("ln -s loop loop; (echo x > loop) 2>&1 | grep -c 'Too many levels'", "1"),
        ("ln plain hard; mv hard moved; cat moved; rm moved", "a"),
        ("mkdir -p a/b/c && mv a/b/ a/d/ && ls a/d", "c"),
        ("set -C; echo n > new; (echo n > new) 2>/dev/null || cat new", "n"),
        ("mkdir sub 2>&1 | grep -o 'File exists'", "File exists"),
        ("mkdir plain/x 2>&1 | grep -o 'Not a directory'", "Not a directory"),
        ("(echo x > missing/x) 2>&1 | grep -o 'No such file or directory'", "No such file or directory"),
        ("(echo x > sub) 2>&1 | grep -o 'Is a directory'", "Is a directory"),
        ("mkfifo pipe; (sleep 0.1; echo through) > pipe & cat pipe; wait", "through"),
        ("(sleep 0.1; cat pipe) & echo later > pipe; wait", "later"),
        ("timeout 0.2 sh -c 'echo x > pipe'; echo $?", "124"),
        (
            "mkdir gone && cd gone && rmdir ../gone && (echo x > y) 2>&1 | grep -o 'No such file or directory'",
            "No such file or directory",
        ),
        ("for n in $(seq 50); do echo $n > many-$n & done; wait; cat many-* | wc -l; rm many-*", "50"),
        (
            "(ulimit -n 4; exec 3< plain; : > full) 2>&1 | grep -o 'Too many open files' | head -1",
            "Too many open files",
        ),
    ] {
        prints(&exec, &work, command, expected).await;
    }
    if has("python3") {
        let server = "python3 -c 'import socket, os
s = socket.socket(socket.AF_UNIX); s.bind(\"sub/sock\"); s.listen(); print(s.getsockname())
c = socket.socket(socket.AF_UNIX); c.connect(\"sub/sock\"); s.accept()
a = socket.socket(socket.AF_UNIX); a.bind(\"\\0abstract\"); print(len(a.getsockname()))
f = os.open(\"sub\", os.O_TMPFILE | os.O_WRONLY, 0o640); os.link(\"/proc/self/fd/%d\" % f, \"sub/kept\", src_dir_fd=f, follow_symlinks=True)
print(os.path.exists(\"sub/kept\"))'";
        prints(&exec, &work, server, "sub/sock\n9\nTrue").await;
        assert!(fs::symlink_metadata(work.join("sub/sock")).unwrap().file_type().is_socket());
    }
    let plain = fs::metadata(work.join("plain")).unwrap();
    assert_eq!(
        (plain.uid(), plain.permissions().mode() & 0o777),
        (rustix::process::getuid().as_raw(), 0o640)
    );
    exec.close().await;
}

#[tokio::test]
async fn however_many_wait_for_the_reader_of_a_pipe_others_go_on() {
    let work = tempfile::tempdir().unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(work.path())) else { return };
    let command = "mkfifo pipe; for n in $(seq 100); do (echo $n > pipe; echo $n > done-$n) & done; \
        for n in $(seq 100); do mkdir dir-$n; done; sleep 0.2; echo on > file; cat file; \
        (while [ $(ls done-* 2>/dev/null | wc -l) -lt 100 ]; do cat pipe > /dev/null; done) & \
        until [ $(ls done-* 2>/dev/null | wc -l) = 100 ]; do sleep 0.02; done; kill $! 2>/dev/null; echo over";
    prints(&exec, work.path(), command, "on\nover").await;
    exec.close().await;
}

/// Opens the open files of the parent and the first process, through their directories of `/proc`.
pub(super) const SEARCH: &str = "for p in /proc/$PPID /proc/1 /proc/$PPID/task/*; do for n in $(seq 0 30); do
        (: > $p/fd/$n) 2>/dev/null && echo opened $p/fd/$n; done
        (echo x > $p/cwd/$$-there) 2>/dev/null && echo made in $p; done; echo over";

#[tokio::test]
async fn files_of_the_process_that_answers_are_not_the_commands() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    fs::create_dir(&work).unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(&work)) else { return };
    prints(&exec, &work, SEARCH, "over").await;
    exec.close().await;
}
