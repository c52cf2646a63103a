use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::methods::Method;
use super::wire::attach::{Clients, InitializeParams, InitializeResult, RPC_VERSION, Role};
use super::wire::notes::{AnsweredNote, ClosedNote, GivenBackNote, OpeningNote, PatchNote, SettledNote};
use super::wire::refusal::Refusal;

/// JSON Schema of the messages, with the methods and notifications by name.
///
/// ```
/// let schema = zk_serve::rpc::rpc_schema();
/// assert_eq!(schema["version"], zk_serve::rpc::RPC_VERSION);
/// assert_eq!(schema["methods"]["answer"]["role"], "approver");
/// ```
#[must_use]
pub fn rpc_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut methods = Map::new();
    let first = json!({
        "description": "Says who the client is, and which role it wants.",
        "role": Role::Viewer,
        "params": generator.subschema_for::<InitializeParams>(),
        "result": generator.subschema_for::<InitializeResult>(),
    });
    methods.insert("initialize".to_owned(), first);
    for method in Method::all() {
        let schema = method.schema(&mut generator);
        let described = json!({
            "description": schema.help,
            "role": method.role(),
            "params": schema.params,
            "result": schema.result,
        });
        methods.insert(method.name().to_owned(), described);
    }
    let notifications = notifications(&mut generator);
    let errors: Map<String, Value> =
        Refusal::ALL.iter().map(|refusal| (refusal.name().to_owned(), refusal.code().into())).collect();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages of `zk rpc`",
        "version": RPC_VERSION,
        "methods": methods,
        "notifications": notifications,
        "errors": errors,
        "$defs": definitions,
    })
}

fn notifications(generator: &mut SchemaGenerator) -> Value {
    json!({
        "conversation/patch": generator.subschema_for::<PatchNote>(),
        "conversation/settled": generator.subschema_for::<SettledNote>(),
        "conversation/answered": generator.subschema_for::<AnsweredNote>(),
        "conversation/given_back": generator.subschema_for::<GivenBackNote>(),
        "conversation/closed": generator.subschema_for::<ClosedNote>(),
        "conversation/opening": generator.subschema_for::<OpeningNote>(),
        "clients/changed": generator.subschema_for::<Clients>(),
    })
}
