use std::fmt;
use std::io;

use ring::rand::{SecureRandom, SystemRandom};

use super::wire::attach::Role;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Random bytes of an id.
const ID_BYTES: usize = 6;

/// Tokens of a server, by which a connection gets its role.
pub struct RpcTokens {
    driver: String,
    approver: String,
}

impl fmt::Debug for RpcTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RpcTokens(…)")
    }
}

impl RpcTokens {
    /// Makes new tokens.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> io::Result<Self> {
        Ok(Self { driver: random_hex(TOKEN_BYTES)?, approver: random_hex(TOKEN_BYTES)? })
    }

    /// Returns the token of a role; viewers and drivers share one.
    #[must_use]
    pub fn reveal(&self, role: Role) -> &str {
        match role {
            Role::Viewer | Role::Driver => &self.driver,
            Role::Approver => &self.approver,
        }
    }

    /// Returns the highest role that a token allows; `None` for an invalid token.
    #[must_use]
    pub fn role_of(&self, token: &str) -> Option<Role> {
        // Both are compared, so that the time does not depend on the first result.
        let (approver, driver) = (is_same(token, &self.approver), is_same(token, &self.driver));
        if approver { Some(Role::Approver) } else { driver.then_some(Role::Driver) }
    }
}

/// Compares two texts in a time that does not depend on the position of a difference.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |differences, (a, b)| differences | (a ^ b));
    one.len() == other.len() && differences == 0
}

/// Creates an id that is not used again.
pub(super) fn new_id(prefix: &str) -> io::Result<String> {
    Ok(format!("{prefix}_{}", random_hex(ID_BYTES)?))
}

pub(crate) fn random_hex(count: usize) -> io::Result<String> {
    let mut bytes = vec![0; count];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_allows_its_role_and_no_more() {
        let (tokens, others) = (RpcTokens::generate().unwrap(), RpcTokens::generate().unwrap());
        let role_of = |role| tokens.role_of(tokens.reveal(role));
        assert_eq!(role_of(Role::Viewer), Some(Role::Driver));
        assert_eq!(role_of(Role::Approver), Some(Role::Approver));
        assert_eq!(tokens.role_of(others.reveal(Role::Approver)), None);
        let approver = tokens.reveal(Role::Approver);
        assert_eq!((tokens.role_of(""), tokens.role_of(approver.get(1..).unwrap())), (None, None));
        assert!(!format!("{tokens:?}").contains(approver));
    }
}
