use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zk_core::events::{Offer, ToolChange, ToolChangeKind, ToolLeftOut};
use zk_core::kernel::{Bus, Item};
use zk_core::model::{AgentError, Message, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolChoice};

use super::Aliases;
use super::alias::Renamed;
use super::catch::catch_panic;
use super::check::check_tool;
use super::guarded::check_reading;
use crate::ToolSet;
use crate::turn::{OUTPUT_TOOL, OutputTool};

/// Snapshot of the tools of a run, taken when a turn begins.
#[derive(Default)]
pub(crate) struct Toolbox {
    set: ToolSet,
    aliases: Aliases,
    /// Generation of the bus and number of unlocked tools when the snapshot was taken.
    taken_at: Option<(u64, usize)>,
    /// Offers that differed from their tools' own when the snapshot was taken.
    offers: Arc<BTreeMap<String, Offer>>,
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Canonical names of the tools in the request, in order.
    offered: Vec<String>,
    specs: Arc<[Arc<ToolSpec>]>,
    /// Sources that registered the tools in the request, in order.
    sources: Vec<String>,
    output: Option<(Arc<OutputTool>, Arc<ToolSpec>)>,
    left_out: Vec<ToolLeftOut>,
    news: ToolNews,
    renamed: Renamed,
}

/// Changes to announce with `tools:changed`.
#[derive(Default)]
pub(crate) struct ToolNews {
    pub(crate) changes: Vec<ToolChange>,
    pub(crate) left_out: Vec<ToolLeftOut>,
    pub(crate) breaks_prefix: bool,
}

impl ToolNews {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.left_out.is_empty()
    }
}

/// Tools of the last snapshot of a conversation. Their order in the request stays the same over all runs, and
/// new tools are appended, so that the cached prefix stays valid.
#[derive(Default)]
pub(crate) struct ToolMemory {
    known: Option<BTreeMap<String, Known>>,
    /// Names of all registered tools that were ever offered, oldest first.
    order: Vec<String>,
    specs: Vec<Arc<ToolSpec>>,
}

/// Tool in the last snapshot.
struct Known {
    source: String,
    /// Specification under the name that the model sees.
    spec: Arc<ToolSpec>,
    unlocked: bool,
}

impl Toolbox {
    pub(crate) fn new(set: ToolSet, aliases: Aliases) -> Self {
        Self { set, aliases, ..Self::default() }
    }

    /// Returns the tools that the run may use, each with the offer that the tool itself declares.
    pub(crate) fn own_offers(&self, bus: &Bus) -> BTreeMap<String, Offer> {
        let items = bus.items::<dyn Tool>();
        let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
        let offered = items.iter().filter(|item| self.set.offers(&item.name, &*item.value, &place));
        let own = |item: &Item<dyn Tool>| catch_panic(|| Offer::from(item.value.spec().disclosure));
        offered.filter_map(|item| Some((item.name.to_string(), own(item)?))).collect()
    }

    /// Takes a new snapshot if the registered, offered or unlocked tools changed.
    pub(crate) fn refresh(
        &mut self,
        bus: &Bus,
        unlocked: &BTreeSet<String>,
        offers: Arc<BTreeMap<String, Offer>>,
        memory: &mut ToolMemory,
    ) {
        let now = (bus.generation(), unlocked.len());
        if self.taken_at == Some(now) && self.offers == offers {
            return;
        }
        self.taken_at = Some(now);
        self.offers = offers;
        let items = bus.items::<dyn Tool>();
        let registered: BTreeSet<&str> = items.iter().map(|item| &*item.name).collect();
        memory.order.retain(|name| registered.contains(name.as_str()));
        let before = memory.known.take();
        let (mut tools, mut known, mut left_out) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
        let is_withheld = |name: &str| self.offers.get(name) == Some(&Offer::Never);
        let offered = items.iter().filter(|item| self.set.offers(&item.name, &*item.value, &place));
        for item in offered.filter(|item| !is_withheld(&item.name)) {
            let (name, source) = (item.name.to_string(), item.source.to_string());
            let earlier = before.as_ref().and_then(|before| before.get(&name));
            match check_tool(item, &self.aliases, earlier.map(|known| &known.spec)) {
                Ok(spec) => {
                    let offer = self.offers.get(&name).copied().unwrap_or_else(|| spec.disclosure.into());
                    let unlocked = offer == Offer::Always || unlocked.contains(&name);
                    tools.insert(name.clone(), item.value.clone());
                    known.insert(name, Known { source, spec, unlocked });
                }
                Err(reason) => left_out.push(ToolLeftOut { name, source, reason }),
            }
        }
        memory.order.retain(|name| known.get(name).is_none_or(|tool| tool.unlocked));
        for (name, _) in known.iter().filter(|(_, tool)| tool.unlocked) {
            if !memory.order.contains(name) {
                memory.order.push(name.clone());
            }
        }
        let in_order = |name: &&String| known.get(*name).is_some_and(|tool| tool.unlocked);
        self.offered = memory.order.iter().filter(in_order).cloned().collect();
        let offered = || self.offered.iter().filter_map(|name| known.get(name));
        let specs: Vec<_> = offered().map(|tool| tool.spec.clone()).collect();
        self.sources = offered().map(|tool| tool.source.clone()).collect();
        if let Some(before) = before {
            self.news.changes.extend(tool_changes(&before, &known));
            self.news.breaks_prefix |= specs != memory.specs;
        }
        self.news.left_out.extend(left_out.iter().filter(|tool| !self.left_out.contains(tool)).cloned());
        (self.tools, self.left_out) = (tools, left_out);
        (memory.known, memory.specs) = (Some(known), specs.clone());
        self.rebuild_specs(specs);
    }

    fn rebuild_specs(&mut self, mut specs: Vec<Arc<ToolSpec>>) {
        specs.extend(self.output.as_ref().map(|(_, spec)| spec.clone()));
        if *specs != *self.specs {
            self.specs = specs.into();
        }
    }

    /// Appends the tool for the structured output.
    pub(crate) fn add_output(&mut self, output: Arc<OutputTool>) {
        if self.output.is_some() {
            return;
        }
        let spec = self.aliases.spec(OUTPUT_TOOL, output.spec());
        self.output = Some((output, spec));
        self.rebuild_specs(self.specs.to_vec());
    }

    /// Checks that none of the run's tools may do more than read.
    ///
    /// # Errors
    /// [`AgentError::Unguarded`] for the first tool that may.
    pub(crate) fn check_reading(&self, place: &CallPlace) -> Result<(), AgentError> {
        check_reading(self.tools.iter().map(|(name, tool)| (name.as_str(), &**tool)), place)
    }

    /// Takes the changes since the last call, if any.
    pub(crate) fn take_news(&mut self) -> Option<ToolNews> {
        (!self.news.is_empty()).then(|| std::mem::take(&mut self.news))
    }

    /// Returns the names that the tool set lists and that are not registered.
    pub(crate) fn missing_names(&self) -> Vec<String> {
        let is_missing = |name: &&String| {
            !self.tools.contains_key(*name) && self.left_out.iter().all(|tool| tool.name != **name)
        };
        self.set.listed_names().into_iter().filter(is_missing).cloned().collect()
    }

    /// Returns the names of the tools in the request, in order.
    pub(crate) fn offered_names(&self) -> Vec<String> {
        let output = self.output.iter().map(|_| OUTPUT_TOOL.to_owned());
        self.offered.iter().cloned().chain(output).collect()
    }

    /// Returns a tool of the run, whether it is offered or not.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        match &self.output {
            Some((output, _)) if name == OUTPUT_TOOL => Some(output.clone()),
            Some(_) | None => self.tools.get(name).cloned(),
        }
    }

    /// Returns the specifications under the names that the model sees.
    pub(crate) fn specs(&self) -> Arc<[Arc<ToolSpec>]> {
        self.specs.clone()
    }

    /// Returns the sources that registered the tools in the request.
    pub(crate) fn sources(&self) -> Arc<[String]> {
        let output = self.output.iter().map(|_| "zk-agent".to_owned());
        self.sources.iter().cloned().chain(output).collect()
    }

    pub(crate) fn wire_name(&self, name: &str) -> String {
        self.aliases.wire(name)
    }

    pub(crate) fn wire_choice(&self, choice: ToolChoice) -> ToolChoice {
        match choice {
            ToolChoice::Tool(name) => ToolChoice::Tool(self.aliases.wire(&name)),
            other @ (ToolChoice::Auto | ToolChoice::None | ToolChoice::Required) => other,
        }
    }

    /// Returns the messages with the names that the model sees.
    pub(crate) fn in_wire_names<'a>(&mut self, messages: &'a [Arc<Message>]) -> Cow<'a, [Arc<Message>]> {
        if self.aliases.is_empty() {
            return messages.into();
        }
        messages.iter().map(|message| self.renamed.of(message.clone(), &self.aliases)).collect()
    }
}

fn tool_changes<'a>(
    before: &'a BTreeMap<String, Known>,
    now: &'a BTreeMap<String, Known>,
) -> impl Iterator<Item = ToolChange> + use<'a> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    names.into_iter().filter_map(|name| {
        let (kind, tool) = match (before.get(name), now.get(name)) {
            (None, Some(tool)) => (ToolChangeKind::Added, tool),
            (Some(tool), None) => (ToolChangeKind::Removed, tool),
            (Some(old), Some(tool)) if old.spec != tool.spec || old.source != tool.source => {
                (ToolChangeKind::Changed, tool)
            }
            (Some(Known { unlocked: false, .. }), Some(tool)) if tool.unlocked => {
                (ToolChangeKind::Unlocked, tool)
            }
            (Some(Known { unlocked: true, .. }), Some(tool)) if !tool.unlocked => {
                (ToolChangeKind::Locked, tool)
            }
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(ToolChange { name: name.clone(), source: tool.source.clone(), kind })
    })
}
