use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Error of an address that cannot be used. The text has no part of the address, which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostgresAddressError {
    /// The text is no address.
    #[error("the address of PostgreSQL is not valid: {0}")]
    Invalid(String),
    /// The address needs TLS.
    #[error(
        "zk speaks no TLS with PostgreSQL: use a socket or an address of this machine, such as that of a proxy or a tunnel, or say \
         `sslmode=disable` in the address if the network is yours"
    )]
    NeedsTls,
}

/// Parses the address of a PostgreSQL database. One of another machine needs `sslmode=disable`, since zk speaks no TLS with
/// PostgreSQL.
///
/// ```
/// use zk_stores::parse_postgres_address;
///
/// assert!(parse_postgres_address("postgres:///zk?host=/run/postgresql").is_ok());
/// assert!(parse_postgres_address("postgres://db.example.org/zk").is_err());
/// ```
///
/// # Errors
/// [`PostgresAddressError`].
pub fn parse_postgres_address(address: &str) -> Result<Config, PostgresAddressError> {
    let mut config: Config = address
        .parse()
        .map_err(|error: tokio_postgres::Error| PostgresAddressError::Invalid(error.to_string()))?;
    let is_near = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
    });
    // `hostaddr` takes the place of the host name.
    let is_near = is_near && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback);
    match config.get_ssl_mode() {
        SslMode::Disable => {}
        SslMode::Prefer if is_near => {}
        _ => return Err(PostgresAddressError::NeedsTls),
    }
    config.ssl_mode(SslMode::Disable);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_address_needs_a_word_that_tls_is_off() {
        for near in ["host=localhost", "host=/run/postgresql", "host=localhost hostaddr=127.0.0.1"] {
            assert!(parse_postgres_address(near).is_ok(), "{near}");
        }
        for far in ["host=db.example.org", "host=localhost hostaddr=192.0.2.1", "hostaddr=192.0.2.1"] {
            assert_eq!(parse_postgres_address(far), Err(PostgresAddressError::NeedsTls), "{far}");
            assert!(parse_postgres_address(&format!("{far} sslmode=disable")).is_ok(), "{far}");
        }
    }
}
