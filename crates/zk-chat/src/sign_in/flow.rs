use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use zk_settings::suggest;
use zk_tui::{Entry, Menu, MenuRow, Style};

use super::messages;
use crate::opening::error::ChatError;
use crate::opening::provider_access::{AccessWay, LocalOffer, ProviderAccess, ProviderOffer};

/// Occasion of the provider dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// First start: nothing is configured, so the choice is stored.
    FirstStart,
    /// Set-up on request: the choice is kept.
    SetUp,
    /// Sign-in on request, with an optional provider name.
    LogIn(Option<String>),
}

/// Result of the provider dialog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A provider that can be used now.
    Provider {
        name: String,
        /// Chosen model, if any.
        model: Option<String>,
    },
    /// The demo.
    Demo,
    /// Cancelled.
    Left,
}

/// Questions outside of a conversation.
pub(crate) trait Dialog {
    /// Shows a menu; returns the index of the chosen row, `None` if cancelled.
    async fn choose(&mut self, menu: Menu) -> Result<Option<usize>, ChatError>;

    /// Asks for a line of text; `None` if cancelled.
    async fn enter(&mut self, entry: Entry) -> Result<Option<String>, ChatError>;

    /// Shows a text during `work`; `None` if the person cancelled.
    async fn wait<T>(&mut self, text: &str, work: impl Future<Output = T>) -> Result<Option<T>, ChatError>;

    /// Asks for lines during `work`, and sends each to a channel; `None` if the person cancelled.
    async fn enter_while<T>(
        &mut self,
        title: &str,
        lines: UnboundedSender<String>,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, ChatError>;

    /// Whether lines can be typed during a wait.
    fn takes_lines_while_waiting(&self) -> bool;

    /// Prints a permanent text.
    fn say(&mut self, style: Style, text: &str) -> Result<(), ChatError>;
}

/// Row of the first list of the dialog.
#[derive(Clone, Copy)]
enum FirstRow {
    Offer(usize),
    Others,
    ThisComputer,
    Demo,
}

/// Runs the dialog: choice of a provider and its set-up.
pub(crate) async fn choose(
    dialog: &mut impl Dialog,
    access: &dyn ProviderAccess,
    purpose: Purpose,
) -> Result<Choice, ChatError> {
    let mut asking = Asking { dialog, access, offers: access.offers() };
    let choice = match &purpose {
        Purpose::LogIn(Some(name)) => asking.set_up_by_name(name).await?,
        Purpose::FirstStart | Purpose::SetUp | Purpose::LogIn(None) => {
            asking.choose_from_first_list(&purpose).await?
        }
    };
    if let (Purpose::FirstStart | Purpose::SetUp, Choice::Provider { name, model }) = (&purpose, &choice)
        && let Err(why) = access.keep_choice(name, model.as_deref())
    {
        asking.dialog.say(Style::YELLOW, &messages::choice_not_kept(&why.to_string()))?;
    }
    Ok(choice)
}

struct Asking<'a, D> {
    dialog: &'a mut D,
    access: &'a dyn ProviderAccess,
    offers: Vec<ProviderOffer>,
}

impl<D: Dialog> Asking<'_, D> {
    async fn choose_from_first_list(&mut self, purpose: &Purpose) -> Result<Choice, ChatError> {
        let mut servers = self.probe_local_servers().await?;
        let mut marked = self.configured_provider_row();
        loop {
            let (rows, kinds) = self.first_rows(purpose, &servers);
            let mut menu = Menu::new(messages::title(purpose), rows).marking(marked);
            if *purpose != Purpose::FirstStart {
                menu = menu.leaving("closes");
            }
            let Some(at) = self.dialog.choose(menu).await? else { return Ok(Choice::Left) };
            marked = at;
            let chosen = match kinds.get(at) {
                Some(FirstRow::Offer(offer)) => self.set_up_offer(*offer).await?,
                Some(FirstRow::Others) => self.choose_from_all().await?,
                Some(FirstRow::ThisComputer) => {
                    if !servers.iter().any(|server| !server.models.is_empty()) {
                        servers = self.probe_local_servers().await?;
                    }
                    self.choose_local_model(&servers).await?
                }
                Some(FirstRow::Demo) => Some(Choice::Demo),
                None => None,
            };
            if let Some(choice) = chosen {
                return Ok(choice);
            }
        }
    }

    fn first_rows(&self, purpose: &Purpose, servers: &[LocalOffer]) -> (Vec<MenuRow>, Vec<FirstRow>) {
        let (mut rows, mut kinds) = (Vec::new(), Vec::new());
        for (at, offer) in self.offers.iter().enumerate().filter(|(_, offer)| offer.is_major) {
            rows.push(MenuRow::new(&offer.title, messages::method_labels(offer)));
            kinds.push(FirstRow::Offer(at));
        }
        let others: Vec<&ProviderOffer> = self.offers.iter().filter(|offer| !offer.is_major).collect();
        if !others.is_empty() {
            rows.push(MenuRow::new(messages::others_label(&others), ""));
            kinds.push(FirstRow::Others);
        }
        if !servers.is_empty() {
            rows.push(MenuRow::new(messages::THIS_COMPUTER, messages::local_note(servers)));
            kinds.push(FirstRow::ThisComputer);
        }
        if *purpose == Purpose::FirstStart {
            let (label, note) = messages::JUST_LOOK;
            rows.push(MenuRow::new(label, note));
            kinds.push(FirstRow::Demo);
        }
        (rows, kinds)
    }

    /// Row of the provider whose credential is missing.
    fn configured_provider_row(&self) -> usize {
        let Some(name) = self.access.named_provider() else { return 0 };
        let majors = || self.offers.iter().filter(|offer| offer.is_major);
        majors().position(|offer| is_named(offer, &name)).unwrap_or_else(|| {
            if self.offers.iter().any(|offer| is_named(offer, &name)) { majors().count() } else { 0 }
        })
    }

    async fn probe_local_servers(&mut self) -> Result<Vec<LocalOffer>, ChatError> {
        let found = self.dialog.wait(messages::LOOKING, self.access.local_servers()).await?;
        Ok(found.unwrap_or_default())
    }

    async fn set_up_by_name(&mut self, name: &str) -> Result<Choice, ChatError> {
        if let Some(at) = self.offers.iter().position(|offer| is_named(offer, name)) {
            let offer = self.offers.get(at).map(|offer| offer.ways.clone()).unwrap_or_default();
            let sign_in = offer.into_iter().find_map(|way| match way {
                AccessWay::SignIn { provider, .. } if provider == name => Some(provider),
                AccessWay::SignIn { .. } | AccessWay::Key(_) => None,
            });
            let chosen = match sign_in {
                Some(provider) => self.sign_in_with_browser(&provider).await?,
                None => self.set_up_offer(at).await?,
            };
            return Ok(chosen.unwrap_or(Choice::Left));
        }
        let servers = self.probe_local_servers().await?;
        if servers.iter().any(|server| server.provider == name) {
            let servers: Vec<LocalOffer> =
                servers.into_iter().filter(|server| server.provider == name).collect();
            return Ok(self.choose_local_model(&servers).await?.unwrap_or(Choice::Left));
        }
        let hint = suggest::did_you_mean(name, self.offers.iter().map(|offer| offer.name.as_str()));
        self.dialog.say(Style::YELLOW, &messages::unknown_provider(name, &hint))?;
        Ok(Choice::Left)
    }

    async fn choose_from_all(&mut self) -> Result<Option<Choice>, ChatError> {
        let rows = self
            .offers
            .iter()
            .map(|offer| MenuRow::new(&offer.title, messages::method_labels(offer)))
            .collect();
        let mut menu = Menu::new(messages::WHICH_PROVIDER, rows).searched().leaving("goes back");
        // The major providers were offered in the first list already, so the mark starts below them.
        menu = menu.marking(self.offers.iter().position(|offer| !offer.is_major).unwrap_or_default());
        loop {
            let Some(at) = self.dialog.choose(menu.clone()).await? else { return Ok(None) };
            if let Some(choice) = self.set_up_offer(at).await? {
                return Ok(Some(choice));
            }
            menu = menu.marking(at);
        }
    }

    async fn set_up_offer(&mut self, at: usize) -> Result<Option<Choice>, ChatError> {
        let Some(offer) = self.offers.get(at).cloned() else { return Ok(None) };
        let way = match offer.ways.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => {
                let rows = several.iter().map(|way| MenuRow::new(messages::method_label(way), "")).collect();
                let menu = Menu::new(messages::method_list_title(&offer), rows).leaving("goes back");
                self.dialog.choose(menu).await?.and_then(|at| several.get(at).cloned())
            }
        };
        match way {
            Some(AccessWay::Key(page)) => self.enter_key(&offer, page.as_deref()).await,
            Some(AccessWay::SignIn { provider, .. }) => self.sign_in_with_browser(&provider).await,
            None => Ok(None),
        }
    }

    async fn enter_key(
        &mut self,
        offer: &ProviderOffer,
        page: Option<&str>,
    ) -> Result<Option<Choice>, ChatError> {
        loop {
            let entry = Entry::hidden(messages::key_title(offer, page));
            let Some(typed) = self.dialog.enter(entry).await? else { return Ok(None) };
            let key = typed.trim();
            if key.is_empty() {
                self.dialog.say(Style::YELLOW, messages::NO_KEY)?;
                continue;
            }
            if key.chars().any(|c| c.is_control() || c.is_whitespace()) {
                self.dialog.say(Style::YELLOW, messages::MORE_THAN_KEY)?;
                continue;
            }
            let storing = self.access.store_key(&offer.name, key);
            match self.dialog.wait(&messages::checking_key(offer), storing).await? {
                Some(Ok(remark)) => {
                    let style = if remark.is_some() { Style::YELLOW } else { Style::GREEN };
                    self.dialog.say(style, &messages::key_stored(offer, remark.as_deref()))?;
                    return Ok(Some(Choice::Provider { name: offer.name.clone(), model: None }));
                }
                Some(Err(why)) => self.dialog.say(Style::RED, &why.to_string())?,
                None => {}
            }
        }
    }

    async fn sign_in_with_browser(&mut self, provider: &str) -> Result<Option<Choice>, ChatError> {
        if !self.dialog.takes_lines_while_waiting() {
            self.dialog.say(Style::YELLOW, &messages::sign_in_elsewhere(provider))?;
            return Ok(None);
        }
        let begun = match self.access.begin_sign_in(provider).await {
            Ok(begun) => begun,
            Err(why) => {
                self.dialog.say(Style::RED, &why.to_string())?;
                return Ok(None);
            }
        };
        self.dialog.say(Style::PLAIN, messages::OPEN_ADDRESS)?;
        self.dialog.say(Style::PLAIN, begun.url())?;
        let (lines, pasted) = unbounded_channel();
        match self.dialog.enter_while(messages::PASTE_ANSWER, lines, begun.finish(pasted)).await? {
            Some(Ok(())) => {
                self.dialog.say(Style::GREEN, &messages::signed_in(provider))?;
                Ok(Some(Choice::Provider { name: provider.to_owned(), model: None }))
            }
            Some(Err(why)) => {
                self.dialog.say(Style::RED, &why.to_string())?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    async fn choose_local_model(&mut self, servers: &[LocalOffer]) -> Result<Option<Choice>, ChatError> {
        let models: Vec<(&str, &str)> = servers
            .iter()
            .flat_map(|server| server.models.iter().map(|model| (server.provider.as_str(), model.as_str())))
            .collect();
        let at = match models.as_slice() {
            [] => {
                self.dialog.say(Style::YELLOW, &messages::no_local_server(servers))?;
                return Ok(None);
            }
            [_] => Some(0),
            several => {
                let rows = several.iter().map(|(server, model)| MenuRow::new(*model, *server)).collect();
                self.dialog
                    .choose(Menu::new(messages::WHICH_MODEL, rows).searched().leaving("goes back"))
                    .await?
            }
        };
        Ok(at.and_then(|at| models.get(at)).map(|(server, model)| Choice::Provider {
            name: (*server).to_owned(),
            model: Some((*model).to_owned()),
        }))
    }
}

/// Whether a name is that of an offer, or of the provider behind one of its methods.
fn is_named(offer: &ProviderOffer, name: &str) -> bool {
    let leads_to = |way: &AccessWay| matches!(way, AccessWay::SignIn { provider, .. } if provider == name);
    offer.name == name || offer.ways.iter().any(leads_to)
}
