use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::model::is_public_address;
use zk_core::service::Connections;

use crate::sandbox::hosts::{Host, HostRules, is_localhost};

/// Maximum number of random loopback addresses that are tried for a grant; there are 16 million.
const MAX_ATTEMPTS: usize = 64;

/// Hosts that commands may reach, keyed by the loopback address through which a command uses the proxy.
///
/// All commands share one network, in which every address of 127.0.0.0/8 leads to the proxy. A command with a
/// grant uses a random address, which identifies its connections in every protocol without help from the
/// client.
#[derive(Debug)]
pub(super) struct Grants {
    of_policy: Arc<Reach>,
    of_commands: Mutex<BTreeMap<Ipv4Addr, Arc<Reach>>>,
    random: RandomState,
}

/// Hosts that a command can reach.
#[derive(Debug, Default)]
pub(super) struct Reach {
    of_policy: HostRules,
    /// Hosts that the command itself names, as a person approved them.
    of_command: HostRules,
    any_public: bool,
    is_of_command: bool,
}

/// Grant of one command; the drop ends it.
#[derive(Debug)]
pub(in crate::sandbox) struct Granted {
    grants: Arc<Grants>,
    /// Proxy address of this command.
    pub(in crate::sandbox) address: Ipv4Addr,
    /// Whether the grant includes this machine, to which programs connect without a proxy by default.
    pub(in crate::sandbox) names_this_machine: bool,
}

impl Grants {
    pub(super) fn new(of_policy: HostRules) -> Self {
        let of_policy = Arc::new(Reach { of_policy, ..Reach::default() });
        Self { of_policy, of_commands: Mutex::default(), random: RandomState::new() }
    }

    pub(super) fn add(this: &Arc<Self>, connections: &Connections) -> io::Result<Granted> {
        let of_command = HostRules::of_command(&connections.hosts);
        let names_this_machine = of_command.names_this_machine();
        let of_policy = this.of_policy.of_policy.clone();
        let reach = Reach { of_policy, of_command, any_public: connections.any_public, is_of_command: true };
        let mut all = this.lock();
        for attempt in 0..MAX_ATTEMPTS {
            let mut drawn = this.random.build_hasher();
            drawn.write_usize(attempt);
            drawn.write_usize(all.len());
            drawn.write_u128(std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()));
            let [a, b, c, ..] = drawn.finish().to_ne_bytes();
            let address = Ipv4Addr::new(127, a, b, c);
            // Commonly used loopback addresses are left out.
            let is_usual = (a, b) == (0, 0) || address == Ipv4Addr::new(127, 255, 255, 255);
            if !is_usual && !all.contains_key(&address) {
                all.insert(address, Arc::new(reach));
                return Ok(Granted { grants: this.clone(), address, names_this_machine });
            }
        }
        Err(io::Error::other("no address of the proxy is left for this command"))
    }

    /// Hosts that the command with this proxy address can reach.
    pub(super) fn of(&self, address: IpAddr) -> Arc<Reach> {
        match address {
            IpAddr::V4(Ipv4Addr::LOCALHOST) => self.of_policy.clone(),
            IpAddr::V4(address) => self.lock().get(&address).cloned().unwrap_or_default(),
            IpAddr::V6(_) => Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Ipv4Addr, Arc<Reach>>> {
        self.of_commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.grants.lock().remove(&self.address);
    }
}

impl Reach {
    pub(super) fn allows(&self, host: &Host, port: u16) -> bool {
        self.any_public || self.of_policy.allow(host, port) || self.of_command.allow(host, port)
    }

    /// Whether a connection to this host at this resolved address is allowed.
    pub(super) fn allows_address(&self, host: &Host, address: IpAddr, port: u16) -> bool {
        if is_public_address(address)
            || self.of_policy.names_address(address, port)
            || self.of_command.names_address(address, port)
        {
            return true;
        }
        // A person who approved a host of a private network knows it. A host name for this machine must be
        // explicit.
        match host {
            Host::Name(name) if self.of_command.allow(host, port) => {
                if is_localhost(name) {
                    address.is_loopback()
                } else {
                    is_private(address)
                }
            }
            Host::Name(_) | Host::Address(_) => false,
        }
    }

    /// Reason of a refusal, with advice for the model.
    pub(super) fn refusal(&self) -> &'static str {
        if self.is_of_command {
            "it is not among the hosts that this command names; name it in the command, so that the user is asked about it"
        } else {
            "it is not among the hosts that commands may reach"
        }
    }
}

/// Whether an address is in a private network. Loopback does not count, nor do link-local addresses, which
/// cloud machines use to serve their credentials.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            address.is_private() || (a, b & 0xc0) == (100, 64)
        }
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(hosts: &[&str], any_public: bool) -> (Arc<Grants>, Granted) {
        let grants = Arc::new(Grants::new(HostRules::default()));
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let granted = Grants::add(&grants, &Connections { hosts, any_public }).unwrap();
        (grants, granted)
    }

    #[test]
    fn private_addresses_are_reached_by_names_that_a_command_names_and_this_machine_by_its_own() {
        let (grants, granted) = reach(&["git.corp", "localhost:8080", "10.0.0.7:3000"], true);
        let reach = grants.of(granted.address.into());
        let leads = |host: &str, address: &str, port| {
            let host = Host::parse(host).unwrap();
            reach.allows(&host, port) && reach.allows_address(&host, address.parse().unwrap(), port)
        };
        for (host, address, port) in [
            ("git.corp", "10.1.2.3", 443),
            ("git.corp", "fd00::7", 443),
            ("localhost", "127.0.0.1", 8080),
            ("10.0.0.7", "10.0.0.7", 3000),
            ("crates.io", "8.8.8.8", 443),
        ] {
            assert!(leads(host, address, port), "{host} {address}:{port}");
        }
        for (host, address, port) in [
            ("git.corp", "127.0.0.1", 443),
            ("git.corp", "169.254.169.254", 443),
            ("git.corp", "10.1.2.3", 22),
            ("localhost", "10.0.0.1", 8080),
            ("localhost", "127.0.0.1", 8081),
            ("10.0.0.8", "10.0.0.8", 3000),
            ("crates.io", "10.0.0.1", 443),
        ] {
            assert!(!leads(host, address, port), "{host} {address}:{port}");
        }
    }

    #[test]
    fn a_grant_holds_at_its_own_address_and_ends_with_its_command() {
        let (grants, granted) = reach(&["crates.io"], false);
        let (host, address) = (Host::parse("crates.io").unwrap(), granted.address);
        assert!(grants.of(address.into()).allows(&host, 443) && address.octets()[0] == 127);
        assert!(!grants.of(IpAddr::V4(Ipv4Addr::LOCALHOST)).allows(&host, 443));
        drop(granted);
        assert!(!grants.of(address.into()).allows(&host, 443));
    }
}
