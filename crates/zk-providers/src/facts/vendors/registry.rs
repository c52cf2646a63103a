//! The vendors of one program.

use std::sync::Arc;

use super::{VENDORS, Vendor};

/// The vendors that a program can name: those of [`VENDORS`], and those of other crates.
///
/// ```
/// use zk_providers::{Access, Vendor, VendorDialect, Vendors};
///
/// let lab = Vendor {
///     name: "lab",
///     base_url: Some("http://127.0.0.1:9000/v1"),
///     access: Access::Key(&["LAB_API_KEY"]),
///     dialect: VendorDialect::Chat("openai_compat"),
///     default_model: Some("lab-1"),
/// };
/// let vendors = Vendors::default().with(lab);
/// assert!(vendors.named("lab").is_some() && vendors.named("groq").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Vendors(Arc<[Vendor]>);

impl Default for Vendors {
    fn default() -> Self {
        Self(VENDORS.into())
    }
}

impl Vendors {
    /// These and `vendor`, which replaces one of the same name.
    #[must_use]
    pub fn with(self, vendor: Vendor) -> Self {
        let others = self.iter().filter(|known| known.name != vendor.name).copied();
        Self(others.chain([vendor]).collect())
    }

    /// The vendor called `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Vendor> {
        self.iter().find(|vendor| vendor.name == name)
    }

    /// All of them; where several could be meant, the first one is.
    pub fn iter(&self) -> impl Iterator<Item = &Vendor> {
        self.0.iter()
    }
}
