use std::io::Write;

use zk_core::kernel::{AnyEvent, Cx};

#[cfg(test)]
mod tests;

/// The version of the line protocol, in its first line. It changes when a reader of the old one would break.
pub(crate) const PROTOCOL: u32 = 1;

/// Events that are not printed: each repeats the history, the system prompt, or what another event says.
const LEFT_OUT: [&str; 7] = [
    "agent:before-start",
    "context:transform",
    "message:end",
    "provider:payload",
    "system:before",
    "system:transform",
    "tool:transform",
];

/// Appends the event as one line: `{"type":NAME, …its data}`, with `agent` and `depth` before the data when a
/// sub-agent emitted it.
pub(crate) fn write_line(event: &dyn AnyEvent, cx: &Cx, out: &mut Vec<u8>) {
    let name = event.name();
    if LEFT_OUT.contains(&name) {
        return;
    }
    let begin = out.len();
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
    let origin = cx.origin();
    let mut written = Ok(());
    if origin.depth > 0 {
        out.extend_from_slice(b",\"agent\":");
        written = serde_json::to_writer(&mut *out, &*origin.agent).map_err(std::io::Error::from);
        written = written.and_then(|()| write!(out, ",\"depth\":{}", origin.depth));
    }
    let data = out.len();
    let written = written.and_then(|()| event.write_json(out).map_err(std::io::Error::from));
    if written.is_err() {
        // Half a line would break the reader; the event is dropped as a whole.
        out.truncate(begin);
        return;
    }
    match out.get(data..) {
        Some(b"{}") => out.truncate(data),
        Some([b'{', ..]) => {
            if let Some(brace) = out.get_mut(data) {
                *brace = b',';
            }
            out.pop();
        }
        Some(_) | None => {
            let value = out.split_off(data);
            out.extend_from_slice(b",\"data\":");
            out.extend_from_slice(&value);
        }
    }
    out.extend_from_slice(b"}\n");
}
