use std::collections::BTreeSet;

use serde_json::Value;

use super::server_config::{ServerConfig, ServerConfigError};

/// Servers that a start uses, of those of all its sources.
#[derive(Clone, Debug, Default)]
pub struct ServerChoice {
    is_off: bool,
    /// Names of the only servers to start; `None` for all.
    only: Option<BTreeSet<String>>,
    given: Vec<ServerConfig>,
}

impl ServerChoice {
    /// Adds a server that was given for this start, in place of an earlier one of its name.
    pub fn give(&mut self, server: ServerConfig) {
        self.given.retain(|one| one.name != server.name);
        self.given.push(server);
    }

    /// Adds the servers of a bundle behind those that were given.
    pub fn add_of_bundle(&mut self, servers: Vec<ServerConfig>) {
        self.given.extend(servers);
    }

    /// Limits the servers to start to these names.
    pub fn keep(&mut self, names: &BTreeSet<String>) {
        self.only = Some(names.clone());
    }

    /// Disables all servers.
    pub fn switch_off(&mut self) {
        self.is_off = true;
    }

    /// Returns the servers to start, and the errors of invalid ones. For equal names the order is: given, in the
    /// `definitions` of settings, approved `of_project`.
    #[must_use]
    pub fn servers<'a>(
        &self,
        definitions: impl IntoIterator<Item = (String, Value)>,
        of_project: impl IntoIterator<Item = &'a ServerConfig>,
    ) -> (Vec<ServerConfig>, Vec<ServerConfigError>) {
        if self.is_off {
            return (Vec::new(), Vec::new());
        }
        let (mut servers, mut wrong) = (self.given.clone(), Vec::new());
        let is_given = |name: &String| self.given.iter().any(|given| given.name == *name);
        for (name, definition) in definitions.into_iter().filter(|(name, _)| !is_given(name)) {
            match ServerConfig::read(&name, &definition) {
                Ok(server) => servers.push(server),
                Err(error) => wrong.push(error),
            }
        }
        for server in of_project {
            if servers.iter().all(|one| one.name != server.name) {
                servers.push(server.clone());
            }
        }
        if let Some(only) = &self.only {
            servers.retain(|server| only.contains(&server.name));
        }
        (servers, wrong)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(name: &str, command: &str) -> ServerConfig {
        ServerConfig::read(name, &json!({ "command": command })).unwrap()
    }

    #[test]
    fn of_servers_with_one_name_the_nearest_source_counts() {
        let mut choice = ServerChoice::default();
        choice.give(server("a", "first"));
        choice.give(server("a", "given"));
        let definitions = || {
            let of = |name: &str| (name.to_owned(), json!({ "command": "set" }));
            [of("a"), of("b"), ("wrong".to_owned(), json!({ "command": 1 }))]
        };
        let of_project = ["a", "b", "c"].map(|name| server(name, "project"));
        let chosen = |choice: &ServerChoice| {
            let (servers, wrong) = choice.servers(definitions(), &of_project);
            let command = |one: &ServerConfig| format!("{:?}", one.transport);
            (servers.iter().map(|one| (one.name.clone(), command(one))).collect::<Vec<_>>(), wrong.len())
        };
        let (servers, wrong) = chosen(&choice);
        assert_eq!(servers.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["a", "b", "c"]);
        let expected = ["\"given\"", "\"set\"", "\"project\""];
        assert!(servers.iter().zip(expected).all(|((_, how), from)| how.contains(from)), "{servers:?}");
        assert_eq!(wrong, 1);
        choice.keep(&BTreeSet::from(["c".to_owned()]));
        assert_eq!(chosen(&choice).0.len(), 1);
        choice.switch_off();
        assert_eq!(chosen(&choice), (Vec::new(), 0));
    }
}
