"""Attempts to leave a sandbox, each by a name. Prints `NAME open` or `NAME held: WHY` for each.

Arguments: the workspace, a directory outside with planted targets, a JSON object with ports, names and process ids,
`inside`, `outside` or `apart`, and names of the only attempts to make. Outside of a sandbox all must be open; those that
would change the view of the files of all others are made `apart` then, in a mount namespace of their own. What else is
the machine's is set to what it is.
"""
import ctypes, errno, fcntl, json, os, pty, shutil, signal, socket, struct, subprocess, sys, threading, time

ws, out, facts, where = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
libc = ctypes.CDLL(None, use_errno=True)
pid = facts["pid"]
attempts = []
inherited = [f for f in os.listdir("/proc/self/fd") if int(f) > 2 and os.path.exists(f"/proc/self/fd/{f}")]


def attempt(machine=False):
    def add(f):
        attempts.append((f.__name__, f, machine))
        return f
    return add


def call(number, *args):
    done = libc.syscall(ctypes.c_long(number), *[a if isinstance(a, (bytes, ctypes.Array, ctypes._SimpleCData)) or a is None else ctypes.c_long(a) for a in args])
    if done < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return done


def target(name="file"):
    return os.path.join(out, name)


def write(path, text="changed"):
    with open(path, "w") as f:
        f.write(text)


# Files.
@attempt()
def write_absolute(): write(target())
@attempt()
def write_dot_dot(): write(os.path.relpath(target(), ws))
@attempt()
def write_new_file(): write(target("new-file"))
@attempt()
def write_through_link():
    os.symlink(target(), "link"); write("link")
@attempt()
def write_through_dangling_link():
    os.symlink(target("dangling"), "dangling"); write("dangling")
@attempt()
def write_through_directory_link():
    os.symlink(out, "dirlink"); write("dirlink/by-link")
@attempt()
def write_after_swap():
    os.makedirs("swap", exist_ok=True)
    os.rename("swap", "swap.old"); os.symlink(out, "swap"); write("swap/swapped")
@attempt()
def append():
    with open(target(), "a") as f: f.write("more")
@attempt()
def truncate(): os.truncate(target(), 1)
@attempt()
def hard_link_out():
    write("mine"); os.link("mine", target("linked"))
@attempt()
def hard_link_in():
    os.link(target("plain"), "got"); write("got")
@attempt()
def rename_out():
    write("mine2"); os.rename("mine2", target("renamed"))
@attempt()
def rename_in(): os.rename(target("movable"), "moved")
@attempt()
def exchange():
    write("ex"); call(316, -100, os.path.abspath("ex").encode(), -100, target().encode(), 2)
@attempt()
def chmod(): os.chmod(target(), 0o777)
@attempt()
def chmod_by_descriptor():
    fd = os.open(target(), os.O_RDONLY); os.fchmod(fd, 0o700)
@attempt()
def chown(): os.chown(target(), os.getuid(), os.getgid()); os.utime(target(), (1, 1))
@attempt()
def utime(): os.utime(target(), (5, 5))
@attempt()
def set_attribute(): os.setxattr(target(), "user.zk", b"x")
@attempt()
def unlink(): os.unlink(target("removable"))
@attempt()
def preloaded_library():
    env = {**os.environ, "LD_PRELOAD": os.path.join(ws, "preload.so"), "PRELOADED": target("preloaded")}
    subprocess.run(["/bin/true"], env=env, check=True)
    assert os.path.exists(target("preloaded")), "nothing was written"
@attempt()
def program_in_memory():
    fd = os.memfd_create("touch", 0)
    with open("/usr/bin/touch", "rb") as f: os.write(fd, f.read())
    done = subprocess.run([f"/proc/self/fd/{fd}", target("by-memory")], pass_fds=[fd], capture_output=True)
    assert done.returncode == 0, done.stderr
@attempt()
def make_directory(): os.mkdir(target("newdir"))
@attempt()
def remove_directory(): os.rmdir(target("emptydir"))
@attempt()
def reopen_by_descriptor():
    fd = os.open(target(), os.O_RDONLY)
    os.close(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY))
@attempt()
def write_through_root_of_first(): write(f"/proc/1/root{target()}")
@attempt()
def write_through_own_root(): write(f"/proc/self/root{target()}")
@attempt()
def write_through_cwd_of_parent(): write(f"/proc/{os.getppid()}/root{target()}")
@attempt()
def map_and_write():
    import mmap
    fd = os.open(target(), os.O_RDWR); m = mmap.mmap(fd, 1); m[0:1] = b"X"
@attempt()
def bind_socket_outside(): socket.socket(socket.AF_UNIX).bind(target("bound"))
@attempt()
def make_pipe_outside(): os.mkfifo(target("fifo"))
@attempt()
def write_home(): write(os.path.join(facts["home"], ".profile"))
@attempt()
def read_credentials(): assert open(os.path.join(facts["home"], ".netrc")).read()
@attempt()
def read_credentials_directory(): assert open(os.path.join(facts["home"], ".ssh/id_rsa")).read()
@attempt()
def list_credentials_directory(): assert os.listdir(os.path.join(facts["home"], ".ssh"))
@attempt()
def read_state(): assert open(os.path.join(facts["state"], "auth/credentials.json")).read()
@attempt()
def open_credentials_for_all(): os.chmod(os.path.join(facts["home"], ".netrc"), 0o777)
@attempt()
def read_shadow(): assert open("/etc/shadow").read()
@attempt()
def make_device():
    os.mknod("dev", 0o600 | 0o020000, os.makedev(1, 1))
@attempt()
def handle_of_file():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)); mount = ctypes.c_int()
    call(303, -100, target().encode(), handle, ctypes.cast(ctypes.pointer(mount), ctypes.c_void_p), 0)
@attempt()
def host_tmp(): assert os.path.exists(facts["tmp"])


# Processes.
@attempt()
def see_process(): os.stat(f"/proc/{pid}")
@attempt()
def read_environ(): assert b"CANARY" in open(f"/proc/{pid}/environ", "rb").read()
@attempt()
def read_cmdline(): assert b"canary" in open(f"/proc/{pid}/cmdline", "rb").read()
@attempt()
def read_cwd(): assert os.readlink(f"/proc/{pid}/cwd") == out
@attempt()
def read_maps(): assert open(f"/proc/{pid}/maps").read()
@attempt()
def open_mem(): os.open(f"/proc/{pid}/mem", os.O_RDWR)
@attempt()
def list_descriptors(): assert os.listdir(f"/proc/{pid}/fd")
@attempt()
def signal_process(): os.kill(pid, 0); os.kill(pid, signal.SIGCONT)
@attempt()
def signal_group(): os.killpg(os.getpgid(pid), 0)
@attempt()
def trace(): call(101, 16902, pid, 0, 0)
@attempt()
def trace_child():
    child = os.fork()
    if child == 0:
        time.sleep(5); os._exit(0)
    try:
        call(101, 16902, child, 0, 0)
    finally:
        os.kill(child, 9); os.waitpid(child, 0)
@attempt()
def read_memory():
    line = [l for l in open(f"/proc/{pid}/maps") if " r" in l][0]
    at = int(line.split("-")[0], 16); buf = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buf), 8); remote = struct.pack("QQ", at, 8)
    assert call(310, pid, local, 1, remote, 1, 0) == 8
@attempt()
def read_own_memory_by_call():
    src = ctypes.create_string_buffer(b"abcdefgh"); buf = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buf), 8); remote = struct.pack("QQ", ctypes.addressof(src), 8)
    assert call(310, os.getpid(), local, 1, remote, 1, 0) == 8
@attempt()
def limit_process():
    old = ctypes.create_string_buffer(16); call(302, pid, 7, None, old)
@attempt()
def limit_parent():
    old = ctypes.create_string_buffer(16); call(302, os.getppid(), 7, None, old)
@attempt()
def renice(): os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))
@attempt()
def pin_process(): os.sched_setaffinity(pid, os.sched_getaffinity(pid))
@attempt()
def take_descriptor():
    handle = call(434, pid, 0); call(438, handle, 0, 0)
@attempt()
def take_own_descriptor():
    handle = call(434, os.getpid(), 0); call(438, handle, 0, 0)
@attempt()
def enter_namespace_by_file(): call(308, os.open(f"/proc/{pid}/ns/uts", os.O_RDONLY), 0)
@attempt()
def nsenter(): subprocess.run(["nsenter", "-t", str(pid), "-n", "true"], check=True, capture_output=True)
@attempt()
def inherited_descriptors():
    assert inherited, "none"
@attempt()
def secret_in_environment():
    assert any("CANARY" in v for v in os.environ.values()), "none"


# Terminals.
def terminal():
    master, slave = pty.openpty()
    child = os.fork()
    return master, slave, child
@attempt()
def type_at_terminal():
    master, slave, child = terminal()
    if child == 0:
        os.setsid(); fcntl.ioctl(slave, 0x540E, 0)
        try: fcntl.ioctl(slave, 0x5412, b"x"); os._exit(0)
        except OSError: os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "refused"
@attempt()
def type_at_terminal_high_bits():
    master, slave, child = terminal()
    if child == 0:
        os.setsid(); fcntl.ioctl(slave, 0x540E, 0)
        try: call(16, slave, 0x100005412, b"x"); os._exit(0)
        except OSError: os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "refused"
@attempt()
def other_terminal():
    os.close(os.open(facts["tty"], os.O_WRONLY | os.O_NOCTTY))
    assert os.stat(facts["tty"]).st_dev == facts["tty_device"], "a terminal of its own"


# Network.
@attempt()
def tcp(): socket.create_connection(("127.0.0.1", facts["tcp"]), 2)
@attempt()
def tcp6(): socket.create_connection(("::1", facts["tcp6"]), 2)
@attempt()
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
    s.sendto(b"ping", ("127.0.0.1", facts["udp"])); assert s.recv(9) == b"pong"
@attempt()
def raw_socket(): socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
@attempt()
def packet_socket(): socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
@attempt()
def netlink(): socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
@attempt()
def netlink_audit(): socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
@attempt()
def abstract_socket():
    s = socket.socket(socket.AF_UNIX); s.connect("\0" + facts["abstract"])
@attempt()
def socket_of_service(): socket.socket(socket.AF_UNIX).connect(target("service.sock"))
@attempt()
def socket_of_later_service(): socket.socket(socket.AF_UNIX).connect(target("later.sock"))
@attempt()
def socket_in_tmp(): socket.socket(socket.AF_UNIX).connect(facts["tmp_socket"])
def service(planted, *usual):
    """Connects to what stands for a service of the machine, or to the service itself."""
    why = None
    for path in (os.path.join(facts["services"], planted),) + usual:
        try: return socket.socket(socket.AF_UNIX).connect(path)
        except OSError as e: why = e
    raise why
@attempt()
def docker_socket(): service("docker.sock", "/run/docker.sock", "/var/run/docker.sock")
@attempt()
def system_bus(): service("system_bus_socket", "/run/dbus/system_bus_socket")
@attempt()
def x_server(): service("X0", "/tmp/.X11-unix/X0")
@attempt()
def crypto_socket(): socket.socket(38, socket.SOCK_SEQPACKET)
@attempt()
def vsock(): socket.socket(40, socket.SOCK_STREAM)
@attempt()
def more_families():
    open_ = []
    for family in range(3, 46):
        if family == 10: continue
        for kind in (1, 2, 3, 5):
            try: socket.socket(family, kind); open_.append(family)
            except OSError: pass
    assert open_, "none"


# The kernel.
@attempt()
def unshare_user():
    child = os.fork()
    if child == 0: os._exit(0 if libc.unshare(0x10000000) == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0, "refused"
@attempt()
def clone_user():
    child = libc.syscall(56, ctypes.c_long(0x10000000 | 17), None, None, None, None)
    if child == 0: os._exit(0)
    assert child > 0, "refused"; os.waitpid(child, 0)
@attempt()
def clone3_user():
    args = struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    child = libc.syscall(435, args, ctypes.c_long(88))
    if child == 0: os._exit(0)
    assert child > 0, "refused"; os.waitpid(child, 0)
@attempt()
def nested_namespace(): subprocess.run(["unshare", "-Ur", "true"], check=True, capture_output=True)
@attempt()
def io_uring():
    params = ctypes.create_string_buffer(120); os.close(call(425, 1, params))
@attempt()
def keyring(): call(248, b"user", b"zk-escape", b"x", 1, ctypes.c_long(-1))
@attempt()
def bpf():
    attr = struct.pack("IIII", 2, 4, 4, 1) + bytes(56); os.close(call(321, 0, attr, 72))
@attempt()
def perf():
    attr = struct.pack("IIQ", 1, 112, 0) + bytes(96); os.close(call(298, attr, 0, ctypes.c_long(-1), ctypes.c_long(-1), 0))
@attempt()
def userfault(): os.close(call(323, 1))
@attempt()
def kernel_log(): call(103, 10, None, 0)
@attempt()
def change_root():
    child = os.fork()
    if child == 0:
        try: os.chroot(ws); os._exit(0)
        except OSError: os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "refused"
@attempt()
def superuser():
    status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
    assert int(status["CapEff"], 16) or int(status["CapBnd"], 16), "no rights"
@attempt()
def set_user_program():
    shutil.copy("/usr/bin/id", "suid"); os.chmod("suid", 0o4755)
    assert open("/proc/self/status").read().find("NoNewPrivs:\t0") >= 0, "no new rights"
def machine_code(code):
    """Runs a function that gives the process id, in a process of its own: it may be killed for it."""
    import mmap
    child = os.fork()
    if child == 0:
        m = mmap.mmap(-1, 4096, prot=7); m.write(code)
        f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
        os._exit(0 if f() == os.getpid() else 1)
    assert os.waitpid(child, 0)[1] == 0, "refused"
@attempt()
def second_numbers(): machine_code(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3")
@attempt()
def other_architecture(): machine_code(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")


# What would change the view of the files, should it work.
@attempt(machine=True)
def mount(): call(165, b"none", ws.encode(), b"tmpfs", 0, b"")
@attempt(machine=True)
def remount_root(): call(165, None, b"/", None, 32 | 4096, None)
@attempt(machine=True)
def remount_protected(): call(165, None, os.path.join(ws, ".git/hooks").encode(), None, 32 | 4096, None)
@attempt(machine=True)
def unmount_protected(): call(166, os.path.join(ws, ".git/hooks").encode(), 2)
@attempt(machine=True)
def unmount_tmp(): call(166, b"/tmp", 2)
@attempt(machine=True)
def mount_attributes(): call(442, -100, b"/", 0x8000, struct.pack("QQQQ", 0, 1, 0, 0), 32)
@attempt(machine=True)
def new_mount_calls(): call(430, b"tmpfs", 0)
@attempt(machine=True)
def open_tree(): call(428, -100, b"/", 1)


# The machine's own, set to what it is.
def set_to_itself(path):
    with open(path) as f: now = f.read()
    with open(path, "w") as f: f.write(now)
def asked(number, *args):
    """A call that the kernel takes a look at, whatever it says of its arguments."""
    try: call(number, *args)
    except OSError as e:
        if e.errno in (errno.EPERM, errno.ENOSYS): raise
@attempt()
def core_pattern(): set_to_itself("/proc/sys/kernel/core_pattern")
@attempt()
def sysctl(): set_to_itself("/proc/sys/vm/swappiness")
@attempt()
def process_limit(): set_to_itself("/proc/sys/kernel/pid_max")
@attempt()
def sysrq(): write("/proc/sysrq-trigger", "h")
@attempt()
def kernel_messages(): write("/dev/kmsg", "zk: a test of a sandbox was here\n")
@attempt()
def block_device(): os.open(facts["disk"], os.O_RDONLY)
@attempt()
def cgroup():
    os.mkdir("/sys/fs/cgroup/zk-escape"); os.rmdir("/sys/fs/cgroup/zk-escape")
@attempt()
def sys_file(): set_to_itself("/sys/kernel/mm/ksm/run")
@attempt()
def host_name(): socket.sethostname(socket.gethostname())
@attempt()
def clock(): call(159, ctypes.create_string_buffer(struct.pack("I", 0x0100) + bytes(252)))
@attempt()
def module(): asked(313, 0, b"", 0)
@attempt()
def swap(): asked(167, b"/dev/null", 0)
@attempt()
def signal_watcher():
    above = os.getppid()
    while above > 1:
        status = dict(l.split(":", 1) for l in open(f"/proc/{above}/status") if ":" in l)
        if status["Name"].strip() in ("command-reaper", "sandbox-parent", "cmd-supervisor"):
            return os.kill(above, signal.SIGCONT)
        above = int(status["PPid"])
    os.kill(1, signal.SIGCONT)

# What is executed later by somebody else.
@attempt()
def work_tree_outside():
    subprocess.run(["git", "worktree", "add", "-q", target("tree"), "HEAD"], check=True, capture_output=True)
@attempt()
def git_hook(): write(".git/hooks/post-commit", "#!/bin/sh")
@attempt()
def git_config(): write(".git/config", "[core]\n\tfsmonitor = id")
@attempt()
def git_config_by_git(): subprocess.run(["git", "config", "core.fsmonitor", "id"], check=True, capture_output=True)
@attempt()
def git_config_by_rename():
    write(".git/new-config"); os.rename(".git/new-config", ".git/config")
@attempt()
def git_config_unlink(): os.unlink(".git/config")
@attempt()
def git_info(): write(".git/info/attributes", "* filter=x")
@attempt()
def git_hooks_rename(): os.rename(".git/hooks", ".git/hooks.old"); os.mkdir(".git/hooks"); write(".git/hooks/x")
@attempt()
def git_common_directory(): write(".git/commondir", "../other"); assert open(".git/commondir").read() == "../other"
@attempt()
def git_common_directory_by_rename():
    write(".git/c", "../other"); os.rename(".git/c", ".git/commondir")
@attempt()
def nested_git_hook(): write("sub/nested/.git/hooks/post-commit", "#!/bin/sh")
@attempt()
def nested_git_parent_rename():
    os.rename("sub", "sub2"); shutil.copytree("sub2", "sub"); write("sub/nested/.git/hooks/post-commit", "x")
@attempt()
def module_config(): write(".git/modules/lib/config", "[core]")
@attempt()
def git_rename():
    os.rename(".git", "old.git"); shutil.copytree("old.git", ".git"); write(".git/config", "x")
@attempt()
def zk_settings_created():
    os.makedirs(".zk", exist_ok=True); write(".zk/settings.toml", "x")
@attempt()
def zk_settings_replaced(): os.rename(".zk", "zk.old"); os.mkdir(".zk"); write(".zk/settings.toml")
@attempt()
def start_file_existing(): write(".bashrc", "id")
@attempt()
def start_file_replaced(): write("b"); os.rename("b", ".bashrc")
@attempt()
def hidden_in_workspace(): assert open(".netrc").read()
@attempt()
def start_file_absent(): write(".zshrc", "id")
@attempt()
def start_file_absent_by_rename(): write("z"); os.rename("z", ".zshenv")
@attempt()
def start_file_absent_by_link(): os.symlink("/etc/passwd", ".profile")
@attempt()
def git_settings_absent(): write(".gitconfig", "[core]\n\tfsmonitor = id")
@attempt()
def start_file_created_later(): write(".kshrc", "id")
@attempt()
def start_file_created_later_replaced(): write("k"); os.rename("k", ".kshrc")
@attempt()
def work_tree_common_directory(): write(".git/worktrees/linked/commondir", "../../../other")
@attempt()
def work_tree_directory(): write(".git/worktrees/linked/gitdir", target("tree/.git"))

if __name__ == "__main__":
    only = sys.argv[5:]
    for name, f, machine in attempts:
        if only and name not in only or machine and where == "outside" or not machine and where == "apart":
            continue
        os.chdir(ws)
        try:
            f()
            print(name, "open")
        except BaseException as e:
            print(name, "held:", repr(e)[:90].replace("\n", " "))
        sys.stdout.flush()
