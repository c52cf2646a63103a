use std::collections::HashMap;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::module::Module;

/// Most steps through re-exports that are followed.
const MAX_EXPORT_STEPS: usize = 8;

/// Modules of one crate and their imports of each other.
pub(super) struct Graph<'a> {
    modules: &'a [Module],
    by_path: HashMap<&'a [String], usize>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(modules: &'a [Module]) -> Self {
        let by_path = modules.iter().enumerate().map(|(at, module)| (module.path.as_slice(), at)).collect();
        Self { modules, by_path }
    }

    /// Cycles of files that import each other, the largest first. The file of a folder is no part of a cycle:
    /// its re-exports are followed to the defining file.
    pub(super) fn circles(&self) -> Vec<Vec<&'a str>> {
        let is_counted = |at: usize| self.modules.get(at).is_some_and(|module| !module.is_folder());
        let mut imports = DiGraphMap::<usize, ()>::new();
        for (from, module) in self.modules.iter().enumerate().filter(|(at, _)| is_counted(*at)) {
            let named = module.uses.iter().filter_map(|path| self.resolve(path, MAX_EXPORT_STEPS));
            for to in named.filter(|to| *to != from && is_counted(*to)) {
                imports.add_edge(from, to, ());
            }
        }
        let mut circles: Vec<Vec<&str>> = tarjan_scc(&imports)
            .into_iter()
            .filter(|files| files.len() > 1)
            .map(|files| {
                let mut files: Vec<&str> =
                    files.iter().filter_map(|at| Some(self.modules.get(*at)?.file.as_str())).collect();
                files.sort_unstable();
                files
            })
            .collect();
        circles.sort_by_key(|files| std::cmp::Reverse(files.len()));
        circles
    }

    /// Module that defines the item at a path from the root.
    fn resolve(&self, path: &[String], steps: usize) -> Option<usize> {
        let depth = (0..=path.len())
            .rev()
            .find(|depth| path.get(..*depth).is_some_and(|inside| self.at(inside).is_some()))?;
        let (inside, rest) = path.split_at_checked(depth)?;
        let found = self.at(inside)?;
        let Some((name, rest)) = rest.split_first() else { return Some(found) };
        let module = self.modules.get(found)?;
        let Some(steps) = steps.checked_sub(1) else { return Some(found) };
        if module.items.contains(name) {
            return Some(found);
        }
        if let Some((_, target)) = module.exports.iter().find(|(export, _)| export == name) {
            return self.resolve(&[target, rest].concat(), steps);
        }
        let everything = module.exports.iter().filter(|(export, _)| export == "*");
        let mut through = everything.filter_map(|(_, target)| {
            let there = self.resolve(&[target.as_slice(), std::slice::from_ref(name)].concat(), steps)?;
            self.modules.get(there)?.items.contains(name).then_some(there)
        });
        Some(through.next().unwrap_or(found))
    }

    fn at(&self, path: &[String]) -> Option<usize> {
        self.by_path.get(path).copied()
    }
}
