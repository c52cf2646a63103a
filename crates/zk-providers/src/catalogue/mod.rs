//! Facts about vendors, servers and models, as data. Only this module names vendors, apart from dialects that
//! are a vendor's own protocol. A new vendor, model, tier or wording of an error is a row here.

pub(crate) mod errors;
pub(crate) mod models;
pub(crate) mod names;
pub(crate) mod places;
pub(crate) mod profiles;
pub(crate) mod purposes;
pub(crate) mod schema_limits;
pub(crate) mod smaller;
pub(crate) mod thinking;
pub(crate) mod tiers;
pub(crate) mod vendors;
