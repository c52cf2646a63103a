use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// PostgreSQL server of a test, at a socket in its directory and at a port of 127.0.0.1. Dropping it ends the server.
///
/// ```no_run
/// use zk_testkit::PostgresServer;
///
/// # fn main() -> std::io::Result<()> {
/// let dir = std::env::temp_dir().join("a-test-of-its-own");
/// std::fs::create_dir(&dir)?;
/// match PostgresServer::start(&dir)? {
///     Some(server) => server.create_database("place_1")?,
///     None => println!("skipped: PostgreSQL is not installed (apt-get install postgresql)"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PostgresServer {
    dir: PathBuf,
    bin: PathBuf,
    user: Option<&'static str>,
    port: u16,
}

/// Newest directory with the programs of a server, as Debian installs them.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max()
}

#[expect(clippy::disallowed_methods, reason = "a test starts its own server, as a user that is not root")]
fn run(user: Option<&str>, program: &Path, args: &[&str]) -> io::Result<String> {
    let mut command = match user {
        Some(user) => {
            let mut command = std::process::Command::new("runuser");
            command.args(["-u", user, "--"]).arg(program);
            command
        }
        None => std::process::Command::new(program),
    };
    let output = command.args(args).current_dir("/tmp").output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr))))
}

impl PostgresServer {
    /// Starts a server whose data and socket are in `dir`, an empty directory with a short path; `None` where PostgreSQL is not
    /// installed.
    ///
    /// # Errors
    /// When a program of PostgreSQL fails.
    pub fn start(dir: &Path) -> io::Result<Option<Self>> {
        let Some(bin) = programs() else { return Ok(None) };
        // The server refuses to run as root.
        let is_root = run(None, Path::new("/usr/bin/id"), &["-u"])?.trim() == "0";
        let user = is_root.then_some("postgres");
        if let Some(user) = user {
            run(None, Path::new("/bin/chown"), &[user, &dir.to_string_lossy()])?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Self { dir: dir.to_owned(), bin, user, port };
        let args = ["-D", &server.data(), "-A", "trust", "-U", "zk", "-N", "-E", "UTF8"];
        run(server.user, &server.bin.join("initdb"), &args)?;
        server.control("start")?;
        Ok(Some(server))
    }

    fn data(&self) -> String {
        format!("{}/data", self.dir.display())
    }

    /// Runs `pg_ctl` with an action, such as `restart`. The server gets no time to end in an orderly way.
    ///
    /// # Errors
    /// When the action fails.
    pub fn control(&self, action: &str) -> io::Result<()> {
        let (dir, data) = (self.dir.display(), self.data());
        let options = format!("-k {dir} -p {} -c listen_addresses=127.0.0.1", self.port);
        let log = format!("{dir}/log");
        let mut args = vec!["-D", &data, "-w", "-m", "immediate", action];
        if action != "stop" {
            args.extend(["-o", &options, "-l", &log]);
        }
        run(self.user, &self.bin.join("pg_ctl"), &args).map(drop)
    }

    /// Returns the port of the server at 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of a database at the server's socket.
    #[must_use]
    pub fn address(&self, database: &str) -> String {
        format!("postgres://zk@/{database}?host={}&port={}", self.dir.display(), self.port)
    }

    /// Creates an empty database.
    ///
    /// # Errors
    /// When it exists already.
    pub fn create_database(&self, database: &str) -> io::Result<()> {
        self.client("createdb", &[database]).map(drop)
    }

    /// Returns all that is stored in a database, as the text of a dump.
    ///
    /// # Errors
    /// When there is no such database.
    pub fn dump(&self, database: &str) -> io::Result<String> {
        self.client("pg_dump", &[database])
    }

    /// Runs SQL in a database, and returns what it prints, without headings.
    ///
    /// # Errors
    /// When the SQL is refused.
    pub fn sql(&self, database: &str, sql: &str) -> io::Result<String> {
        self.client("psql", &["-v", "ON_ERROR_STOP=1", "-XAtq", "-d", database, "-c", sql])
    }

    fn client(&self, program: &str, args: &[&str]) -> io::Result<String> {
        let (dir, port) = (self.dir.to_string_lossy(), self.port.to_string());
        let args = [&["-h", &*dir, "-p", &port, "-U", "zk"], args].concat();
        run(self.user, &self.bin.join(program), &args)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Nothing else can be done about a server that does not end.
        let _ = self.control("stop");
    }
}
