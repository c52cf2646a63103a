use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;

use crate::node::{Node, Table};

/// Section of a crate.
#[derive(Clone, Copy)]
pub(crate) struct Section {
    /// Table of the section: empty for the top level, with `*` for any name.
    pub(crate) table: &'static str,
    node: fn() -> Node,
    /// Test whether a table can be deserialised as the section.
    pub(crate) read: fn(toml::Table) -> Result<(), toml::de::Error>,
}

impl Section {
    pub(crate) fn of<T: JsonSchema + DeserializeOwned>(table: &'static str) -> Self {
        Self { table, node: node_of::<T>, read: |table| table.try_into::<T>().map(|_| ()) }
    }

    /// Returns the keys of the section, at its table.
    pub(crate) fn at_table(&self) -> Table {
        let mut node = (self.node)();
        for name in self.table.split('.').rev().filter(|name| !name.is_empty()) {
            let mut outer = Table::default();
            if name == "*" {
                outer.any = Some(Box::new(node));
            } else {
                outer = Table::of_one(name, node);
            }
            node = Node::Table(outer);
        }
        match node {
            Node::Table(table) => table,
            Node::Key(_) | Node::Free(_) => Table::default(),
        }
    }

    /// Name of the table at the top level that the section lies in; empty for the top level.
    pub(crate) fn first_name(&self) -> &'static str {
        self.table.split('.').next().unwrap_or_default()
    }
}

/// Builds the node of a section from its JSON Schema.
fn node_of<T: JsonSchema>() -> Node {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    Node::of_schema(settings.into_generator().into_root_schema_for::<T>().to_value())
}
