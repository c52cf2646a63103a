//! Reads paged lists with limits, so that a server cannot page forever.

use std::collections::HashSet;
use std::io::{self, Write};

use rmcp::model::{PaginatedRequestParams, Resource, ResourceTemplate, Skill, SubscriptionFilter, Tool};
use rmcp::service::{ServiceError, Subscription};
use serde::Serialize;

use super::call::CallEnd;
use super::connect::{Connection, Prompted};

/// Limits of one list: pages, items and bytes.
const MAX_PAGES: usize = 1000;
const MAX_ITEMS: usize = 10_000;
const MAX_BYTES: usize = 16 << 20;

/// Failure to read a list.
#[derive(Debug, thiserror::Error)]
enum ListError {
    /// A request for a page failed.
    #[error(transparent)]
    Request(#[from] ServiceError),
    #[error("its list of {what} does not end: page {page} is followed by a page that was listed before")]
    Repeats { what: &'static str, page: usize },
    #[error(
        "its list of {what} is too long: more than {MAX_PAGES} pages, {MAX_ITEMS} entries or {MAX_BYTES} bytes"
    )]
    TooLong { what: &'static str },
}

/// Reads all items of a list, page by page; `what` names the list in errors.
async fn read_pages<T: Serialize, F>(
    what: &'static str,
    mut page: impl FnMut(Option<PaginatedRequestParams>) -> F,
) -> Result<Vec<T>, ListError>
where
    F: Future<Output = Result<(Vec<T>, Option<String>), ServiceError>>,
{
    let (mut items, mut bytes, mut cursors) = (Vec::new(), 0_usize, HashSet::new());
    let mut cursor: Option<String> = None;
    for number in 1..=MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let (more, next) = page(Some(params)).await?;
        bytes = bytes.saturating_add(size(&more));
        items.extend(more);
        if items.len() > MAX_ITEMS || bytes > MAX_BYTES {
            return Err(ListError::TooLong { what });
        }
        let Some(next) = next else { return Ok(items) };
        // The cursor counts too, since all cursors are kept until the list is complete.
        bytes = bytes.saturating_add(next.len());
        if !cursors.insert(next.clone()) {
            return Err(ListError::Repeats { what, page: number });
        }
        cursor = Some(next);
    }
    Err(ListError::TooLong { what })
}

/// Returns the size of items as JSON in bytes, without building the text.
fn size(items: &impl Serialize) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, items) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

impl Connection {
    fn explain_list(&self, error: &ListError) -> String {
        self.end_of_list(error).to_string()
    }

    fn end_of_list(&self, error: &ListError) -> CallEnd {
        match error {
            ListError::Request(error) => self.call_end(error),
            ListError::Repeats { .. } | ListError::TooLong { .. } => CallEnd::List(error.to_string()),
        }
    }

    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, String> {
        if !self.has_tools() {
            return Ok(Vec::new());
        }
        self.sent.clear();
        let listed = read_pages("tools", async |params| {
            self.peer().list_tools(params).await.map(|page| (page.tools, page.next_cursor))
        });
        listed.await.map_err(|error| self.explain_list(&error))
    }

    /// Returns the names of tools in the server's last list that are missing in `tools`.
    pub(crate) fn left_out(&self, tools: &[Tool]) -> Vec<String> {
        let kept: HashSet<&str> = tools.iter().map(|tool| &*tool.name).collect();
        self.sent.names().into_iter().filter(|name| !kept.contains(name.as_str())).collect()
    }

    pub(crate) async fn prompts(&self) -> Result<Vec<Prompted>, String> {
        if !self.has_prompts() {
            return Ok(Vec::new());
        }
        let listed = read_pages("prompts", async |params| {
            self.peer().list_prompts(params).await.map(|page| (page.prompts, page.next_cursor))
        });
        let prompts = listed.await.map_err(|error| self.explain_list(&error))?;
        Ok(prompts.into_iter().map(Prompted::from).collect())
    }

    pub(crate) async fn resources(&self) -> Result<Vec<Resource>, CallEnd> {
        if !self.has_resources() {
            return Ok(Vec::new());
        }
        let _in_flight = self.in_flight.token();
        let listed = read_pages("resources", async |params| {
            self.peer().list_resources(params).await.map(|page| (page.resources, page.next_cursor))
        });
        listed.await.map_err(|error| self.end_of_list(&error))
    }

    /// Returns the templates of resources; empty if the server does not support templates.
    pub(crate) async fn resource_templates(&self) -> Result<Vec<ResourceTemplate>, CallEnd> {
        if !self.has_resources() {
            return Ok(Vec::new());
        }
        let _in_flight = self.in_flight.token();
        let listed = read_pages("templates of resources", async |params| {
            let page = self.peer().list_resource_templates(params).await;
            page.map(|page| (page.resource_templates, page.next_cursor))
        });
        match listed.await {
            Err(ListError::Request(ServiceError::McpError(_))) => Ok(Vec::new()),
            listed => listed.map_err(|error| self.end_of_list(&error)),
        }
    }

    pub(crate) async fn skills(&self) -> Result<Vec<Skill>, String> {
        if !self.has_skills() {
            return Ok(Vec::new());
        }
        let listed = read_pages("skills", async |params| {
            self.peer().list_skills(params).await.map(|page| (page.skills, page.next_cursor))
        });
        listed.await.map_err(|error| self.explain_list(&error))
    }

    /// Subscribes to changes of lists, if the server requires that; `None` if it does not support it.
    ///
    /// # Errors
    /// The server was not reached, or ended the stream at once, so that a retry may succeed.
    pub(crate) async fn subscribe(&self) -> Result<Option<Subscription>, String> {
        if self.has_handshake() {
            return Ok(None);
        }
        let wanted = SubscriptionFilter::builder();
        let wanted = wanted.tools_list_changed().prompts_list_changed().resources_list_changed().build();
        match self.peer().listen(wanted).await {
            Ok(subscription) => Ok(Some(subscription)),
            // The server answered that it has no such stream.
            Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => Ok(None),
            Err(error) => Err(self.explain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Reads a list whose page `n`, from 1 on, is `page(n)`; returns the outcome and the number of requested
    /// pages.
    async fn read_list(
        page: impl Fn(usize) -> (Vec<String>, Option<String>),
    ) -> (Result<usize, String>, usize) {
        let asked = AtomicUsize::new(0);
        let listed = read_pages("tools", async |_| Ok(page(asked.fetch_add(1, Ordering::SeqCst) + 1))).await;
        let listed = listed.map(|items| items.len()).map_err(|error| error.to_string());
        (listed, asked.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_last_page_and_not_beyond_what_any_list_may_be() {
        let few = read_list(|at| (vec!["t".to_owned(); 3], (at < 4).then(|| at.to_string()))).await;
        assert_eq!(few, (Ok(12), 4));
        let endless = read_list(|at| (Vec::new(), Some(at.to_string()))).await;
        assert_eq!(endless.1, MAX_PAGES);
        assert!(endless.0.unwrap_err().contains("list of tools is too long"));
        let many = read_list(|at| (vec![String::new(); 1000], Some(at.to_string()))).await;
        assert_eq!(many.1, MAX_ITEMS / 1000 + 1);
        assert!(many.0.unwrap_err().contains("10000 entries"));
        let large = read_list(|at| (vec!["x".repeat(1 << 20)], Some(at.to_string()))).await;
        assert_eq!(large.1, MAX_BYTES >> 20);
        assert!(large.0.unwrap_err().contains("16777216 bytes"));
        let names = read_list(|at| (Vec::new(), Some(at.to_string().repeat(4 << 20)))).await;
        assert!(names.0.is_err() && names.1 <= 5, "{}", names.1);
    }

    #[tokio::test]
    async fn a_page_that_was_listed_before_is_not_listed_again() {
        for (cursors, asked) in [(vec!["a"], 2), (vec!["a", "b", "c", "b"], 4)] {
            let again = read_list(|at| {
                let cursor = cursors.get(at - 1).or(cursors.last()).map(|cursor| (*cursor).to_owned());
                (vec!["t".to_owned()], cursor)
            });
            let (listed, count) = again.await;
            assert_eq!(count, asked, "{cursors:?}");
            assert!(listed.unwrap_err().contains("does not end"));
        }
    }
}
