//! `zk web`: one page that is a client of `zk rpc`, and the links that let it in.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 6] = [
    include_str!("view.js"),
    include_str!("markdown.js"),
    include_str!("blocks.js"),
    include_str!("cards.js"),
    include_str!("wire.js"),
    include_str!("page.js"),
];

/// Number of random bytes in a link's key and in a page's nonce.
const KEY_BYTES: usize = 16;

/// Time after which an unused link expires.
const LINK_LIMIT: Duration = Duration::from_secs(600);

/// Maximum number of unused links.
const MAX_LINKS: usize = 16;

/// The page, and the single-use links that let it connect.
///
/// ```
/// let door = zk_serve::web::WebDoor::default();
/// let link = door.new_link("127.0.0.1:8080".parse().unwrap()).unwrap();
/// assert!(link.starts_with("http://127.0.0.1:8080/#"));
/// ```
#[derive(Default)]
pub struct WebDoor {
    keys: Mutex<Vec<(String, Instant)>>,
}

impl fmt::Debug for WebDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebDoor(…)")
    }
}

/// The page as it is sent, with the restrictions that a browser applies to it.
#[derive(Debug)]
pub(crate) struct ServedPage {
    pub(crate) html: String,
    pub(crate) content_security_policy: String,
}

impl WebDoor {
    /// Creates a single-use link to the page at `address`.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new_link(&self, address: SocketAddr) -> io::Result<String> {
        let key = random_hex()?;
        let mut keys = self.keys();
        keys.push((key.clone(), Instant::now()));
        let over = keys.len().saturating_sub(MAX_LINKS);
        keys.drain(..over);
        Ok(format!("http://{address}/#{key}"))
    }

    /// Accepts the key of a link: true once, and false after ten minutes.
    pub(crate) fn accept_key(&self, key: &str) -> bool {
        let mut keys = self.keys();
        keys.retain(|(_, made)| made.elapsed() < LINK_LIMIT);
        match keys.iter().position(|(known, _)| known == key) {
            Some(at) => {
                keys.remove(at);
                true
            }
            None => false,
        }
    }

    fn keys(&self) -> MutexGuard<'_, Vec<(String, Instant)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the page with a nonce of its own.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn page() -> io::Result<ServedPage> {
    let nonce = random_hex()?;
    let html =
        HTML.replace("@NONCE@", &nonce).replace("@STYLE@", STYLE).replace("@SCRIPT@", &SCRIPTS.join("\n"));
    let content_security_policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    Ok(ServedPage { html, content_security_policy })
}

fn random_hex() -> io::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most bytes of the page.
    const MAX_PAGE_BYTES: usize = 80 * 1024;

    #[test]
    fn the_page_is_one_small_document_that_loads_nothing() {
        let page = page().unwrap();
        assert!(page.html.len() <= MAX_PAGE_BYTES, "{} bytes", page.html.len());
        for foreign in [
            "<script src",
            "<link rel=\"stylesheet",
            "@import",
            "url(http",
            "@NONCE@",
            "@SCRIPT@",
            "innerHTML",
            "eval(",
        ] {
            assert!(!page.html.contains(foreign), "{foreign}");
        }
        let nonce = page.content_security_policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert_eq!(page.html.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert!(!super::page().unwrap().html.contains(nonce));
    }

    #[test]
    fn a_link_lets_a_page_in_once() {
        let door = WebDoor::default();
        let address = "127.0.0.1:1".parse().unwrap();
        let links: Vec<String> = (0..MAX_LINKS + 1).map(|_| door.new_link(address).unwrap()).collect();
        let key = |at: usize| links[at].split_once('#').unwrap().1;
        assert!(!door.accept_key("") && !door.accept_key("0"));
        assert!(!door.accept_key(key(0)), "the oldest of too many");
        assert!(door.accept_key(key(1)) && !door.accept_key(key(1)) && door.accept_key(key(MAX_LINKS)));
    }
}
