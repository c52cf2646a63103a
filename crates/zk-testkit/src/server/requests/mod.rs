pub(crate) mod admission;
pub(crate) mod decode;
pub(crate) mod ledger;
pub(crate) mod received;
pub(crate) mod route;
