use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemStruct, ItemUse, Macro, UseTree, Visibility};

/// Source file of a crate, as a module.
pub(super) struct Module {
    /// Module path from the crate's root; empty for the root.
    pub(super) path: Vec<String>,
    pub(super) file: String,
    /// Number of lines outside of `#[cfg(test)] mod tests { … }`.
    pub(super) lines: usize,
    /// Names of the items that it defines.
    pub(super) items: BTreeSet<String>,
    /// Names that it re-exports, with their paths; `*` for a whole module.
    pub(super) exports: Vec<(String, Vec<String>)>,
    /// Paths from the crate's root that its code mentions.
    pub(super) uses: BTreeSet<Vec<String>>,
    /// Names of structs with their number of fields.
    pub(super) structs: Vec<(String, usize)>,
}

impl Module {
    /// Parses a file below `src/`.
    ///
    /// # Errors
    /// The syntax error of the file.
    pub(super) fn parse(file: &str, inside: &str, text: &str) -> syn::Result<Self> {
        let syntax = syn::parse_file(text)?;
        let path = path_of(inside);
        let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        let mut reader = Reader {
            module: Self {
                lines: text.get(..tests).unwrap_or(text).lines().count(),
                items: BTreeSet::new(),
                exports: Vec::new(),
                uses: BTreeSet::new(),
                structs: Vec::new(),
                file: file.to_owned(),
                path,
            },
            children: syntax.items.iter().filter_map(child).collect(),
        };
        reader.visit_file(&syntax);
        Ok(reader.module)
    }

    /// Whether the file is the module of a folder.
    pub(super) fn is_folder(&self) -> bool {
        ["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|name| self.file.ends_with(name))
    }
}

/// Module path of a file path below `src/`.
fn path_of(inside: &str) -> Vec<String> {
    let mut path: Vec<String> = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let is_folder = path.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib" | "main"));
    if is_folder {
        path.pop();
    }
    path
}

/// Name of the module that an item declares.
fn child(item: &Item) -> Option<String> {
    match item {
        Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    }
}

struct Reader {
    module: Module,
    children: BTreeSet<String>,
}

impl Reader {
    /// Records a path in the code, if it leads into the crate.
    fn note(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.module.uses.insert(path);
        }
    }

    /// Path from the crate's root; `None` for a path out of the crate or to a local name.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.module.path, rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let kept = self.module.path.len().checked_sub(ups)?;
                let above = self.module.path.iter().take(kept);
                Some(above.chain(path.iter().skip(ups)).cloned().collect())
            }
            name if self.children.contains(name) => Some([&self.module.path, path].concat()),
            _ => None,
        }
    }

    /// Records paths in the arguments of a macro, which are not parsed yet.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.note(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.note_tokens(group.stream());
                    }
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = about(item);
        if attributes.iter().any(is_for_tests) {
            return;
        }
        self.module.items.extend(name);
        visit::visit_item(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.module.structs.push((item.ident.to_string(), item.fields.len()));
        visit::visit_item_struct(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut found = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut found);
        for (name, path) in found {
            if !matches!(item.vis, Visibility::Inherited)
                && let Some(path) = self.absolute(&path)
            {
                self.module.exports.push((name, path));
            } else {
                self.note(&path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if names.len() > 1 {
                self.note(&names);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.note_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

/// Attributes and name of an item.
fn about(item: &Item) -> (&[Attribute], Option<String>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Enum(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Fn(item) => (&item.attrs, Some(item.sig.ident.to_string())),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref().map(ToString::to_string)),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Struct(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Trait(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Type(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Union(item) => (&item.attrs, Some(item.ident.to_string())),
        Item::Use(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

/// Whether an attribute is `#[cfg(test)]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
    attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
}

/// Collects the paths of a `use`, each with its local name.
fn flatten(tree: &UseTree, above: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(path) => {
            above.push(path.ident.to_string());
            flatten(&path.tree, above, found);
            above.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            found.push((above.last().cloned().unwrap_or_default(), above.clone()));
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            found.push((name.clone(), [above.as_slice(), &[name]].concat()));
        }
        UseTree::Rename(name) => {
            let path = [above.as_slice(), &[name.ident.to_string()]].concat();
            found.push((name.rename.to_string(), path));
        }
        UseTree::Glob(_) => found.push(("*".to_owned(), above.clone())),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, above, found);
            }
        }
    }
}
