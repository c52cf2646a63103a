use std::collections::BTreeSet;

use serde_json::Value;

use super::names::name_in_tools;
use super::server_config::{ServerConfig, ServerConfigError};

/// Servers that a start uses, of those of all its sources.
#[derive(Clone, Debug, Default)]
pub struct ServerChoice {
    is_off: bool,
    /// Names of the only servers to start; `None` for all.
    only: Option<BTreeSet<String>>,
    given: Vec<ServerConfig>,
    /// Servers of bundles.
    of_bundles: Vec<ServerConfig>,
}

impl ServerChoice {
    /// Adds a server that was given for this start, in place of an earlier one of its name.
    pub fn give(&mut self, server: ServerConfig) {
        self.given.retain(|one| one.name != server.name);
        self.given.push(server);
    }

    /// Adds the servers of a bundle behind those that were given.
    pub fn add_of_bundle(&mut self, servers: Vec<ServerConfig>) {
        self.of_bundles.extend(servers);
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
    /// `definitions` of settings, approved `of_project`. A server whose tools would have the names of another one's is
    /// an error, if it or the other one is of a bundle: rules for one would apply to the other.
    #[must_use]
    pub fn servers<'a>(
        &self,
        definitions: impl IntoIterator<Item = (String, Value)>,
        of_project: impl IntoIterator<Item = &'a ServerConfig>,
    ) -> (Vec<ServerConfig>, Vec<ServerConfigError>) {
        if self.is_off {
            return (Vec::new(), Vec::new());
        }
        let (mut own, mut wrong) = (self.given.clone(), Vec::new());
        let is_given = |name: &String| self.given.iter().any(|given| given.name == *name);
        for (name, definition) in definitions.into_iter().filter(|(name, _)| !is_given(name)) {
            match ServerConfig::read(&name, &definition) {
                Ok(server) => own.push(server),
                Err(error) => wrong.push(error),
            }
        }
        let mut of_bundles: Vec<&ServerConfig> = Vec::new();
        for server in &self.of_bundles {
            match own.iter().chain(of_bundles.iter().copied()).find(|other| has_tools_of(server, other)) {
                Some(other) => wrong.push(name_taken(server, other)),
                None => of_bundles.push(server),
            }
        }
        for server in of_project {
            match of_bundles.iter().find(|other| has_tools_of(server, other)) {
                Some(other) => wrong.push(name_taken(server, other)),
                None if own.iter().any(|one| one.name == server.name) => {}
                None => own.push(server.clone()),
            }
        }
        let mut servers: Vec<ServerConfig> = own.into_iter().chain(of_bundles.into_iter().cloned()).collect();
        if let Some(only) = &self.only {
            servers.retain(|server| only.contains(&server.name));
        }
        (servers, wrong)
    }
}

/// Whether the tools of two servers would have names with one beginning.
fn has_tools_of(server: &ServerConfig, other: &ServerConfig) -> bool {
    name_in_tools(&server.name) == name_in_tools(&other.name)
}

fn name_taken(server: &ServerConfig, other: &ServerConfig) -> ServerConfigError {
    ServerConfigError::Taken { name: server.name.clone(), other: other.name.clone() }
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

    #[test]
    fn a_server_of_a_bundle_gets_no_tools_with_the_names_of_another_server() {
        let of_bundle =
            |name: &str| ServerConfig::read_of_bundle(name, &json!({ "command": "bundled" })).unwrap();
        let mut choice = ServerChoice::default();
        choice.give(server("plugin_one_given", "given"));
        let names = ["one:given", "one:set", "one:free", "two.x:same", "two_x:same", "one:project"];
        choice.add_of_bundle(names.map(|name| of_bundle(&format!("plugin:{name}"))).into());
        let definitions = [("plugin_one_set".to_owned(), json!({ "command": "set" }))];
        let of_project = [server("plugin_one_project", "project")];
        let (servers, wrong) = choice.servers(definitions, &of_project);
        let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
        let expected = ["plugin_one_given", "plugin_one_set"];
        let of_bundles = ["plugin:one:free", "plugin:two.x:same", "plugin:one:project"];
        assert_eq!(names, [&expected[..], &of_bundles].concat());
        let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert_eq!(wrong.len(), 4, "{wrong:?}");
        let first = "MCP server `plugin:one:given` is not started: its tools would have the names of those of \
                     `plugin_one_given`, so that rules for one would apply to the other; rename one of them";
        assert_eq!(wrong[0], first);
        assert!(
            wrong[2].contains("`plugin:two_x:same`") && wrong[3].contains("`plugin_one_project`"),
            "{wrong:?}"
        );
    }
}
