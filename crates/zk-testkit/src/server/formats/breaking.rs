//! Application of faults to the pieces of a response.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use zk_core::model::{ErrorKind, ProviderError};

use super::pieces::{Part, Piece};
use super::{anthropic, chat, ollama, responses};
use crate::rules::Dialect;
use crate::server::fault::Fault;
use crate::server::refusal::{self, Refusal};
use crate::server::reply::Act;

/// Pause between two pieces, so that the client reads them separately.
const APART: Duration = Duration::from_millis(1);

/// Converts the pieces to acts, with the given fault.
pub(crate) fn acts(
    dialect: Dialect,
    mut pieces: Vec<Piece>,
    fault: Option<&Fault>,
    number: usize,
) -> VecDeque<Act> {
    let at = |events: usize, act: Act| (events, vec![act]);
    let (place, inserted) = match fault {
        None | Some(Fault::MissingUsage | Fault::GiantDelta(_)) => (usize::MAX, Vec::new()),
        Some(Fault::CutAfterEvents(events)) => at(*events, Act::Cut),
        Some(Fault::ResetAfterEvents(events)) => at(*events, Act::Reset),
        Some(Fault::HalfOpenAfterEvents(events)) => at(*events, Act::Hang),
        Some(Fault::MalformedChunk(events)) => at(*events, Act::Raw(b"this is no chunk size\r\n")),
        Some(Fault::MalformedEvent(events)) => at(*events, Act::Send(malformed_event(dialect))),
        Some(Fault::ErrorEventAfter(events)) => {
            let error = error_event(Refusal::new(dialect, 529, "Overloaded"), dialect, number);
            let rest = acts(dialect, pieces, None, number);
            return insert_acts(rest, *events, vec![Act::Send(error)], true);
        }
        Some(Fault::CutAfterBytes(bytes)) => {
            return cut_after_bytes(acts(dialect, pieces, None, number), *bytes);
        }
        Some(Fault::Drip(interval)) => return send_bytewise(acts(dialect, pieces, None, number), *interval),
        Some(Fault::SplitUtf8) => return split_utf8(acts(dialect, pieces, None, number)),
        Some(Fault::PingOnly(interval)) => {
            let ping = match dialect {
                Dialect::Anthropic => anthropic::ping(),
                Dialect::Ollama => ollama::ping(),
                Dialect::Chat | Dialect::Responses | Dialect::Codex | Dialect::Gemini => chat::ping(),
            };
            at(1, Act::Repeat(Bytes::from(ping), *interval))
        }
        Some(Fault::DuplicateFinish) => {
            let finish = pieces.iter().position(|piece| is_part(piece, Part::Finish));
            if let Some((at, piece)) = finish.and_then(|at| Some((at, pieces.get(at)?.clone()))) {
                pieces.insert(at, piece);
            }
            (usize::MAX, Vec::new())
        }
        Some(Fault::NoTerminal) => {
            // The last event completes a stream in one format, the stop reason in the others.
            pieces.retain(|piece| {
                !is_part(piece, Part::Terminal)
                    && (dialect == Dialect::Anthropic || !is_part(piece, Part::Finish))
            });
            (usize::MAX, Vec::new())
        }
        Some(Fault::Empty200) => return VecDeque::new(),
        Some(
            Fault::RateLimited(_)
            | Fault::Unavailable(_)
            | Fault::Overloaded(_)
            | Fault::ServerError
            | Fault::ErrorBody200
            | Fault::Html(_)
            | Fault::NeverAnswers,
        ) => (usize::MAX, Vec::new()),
    };
    let ends = !matches!(fault, Some(Fault::MalformedEvent(_)));
    insert_acts(acts_without_fault(dialect, pieces, number), place, inserted, ends)
}

fn is_part(piece: &Piece, wanted: Part) -> bool {
    matches!(piece, Piece::Event { part, .. } if *part == wanted)
}

fn malformed_event(dialect: Dialect) -> Bytes {
    Bytes::from_static(match dialect {
        Dialect::Ollama => b"{\"model\": \"m\", \"message\": {\"role\"\n",
        Dialect::Anthropic | Dialect::Chat | Dialect::Responses | Dialect::Codex | Dialect::Gemini => {
            b"data: {\"type\": \"content_block_delta\", \"index\": 0, \"del\n\n"
        }
    })
}

/// Converts the pieces to acts, scripted failures included.
fn acts_without_fault(dialect: Dialect, pieces: Vec<Piece>, number: usize) -> VecDeque<Act> {
    let acts = pieces.into_iter().map(|piece| match piece {
        Piece::Event { bytes, .. } => Act::Send(bytes),
        Piece::Wait(pause) => Act::Wait(pause),
        Piece::Hang => Act::Hang,
        Piece::Fail(error) => failure_act(dialect, &error, number),
    });
    acts.collect()
}

fn failure_act(dialect: Dialect, error: &ProviderError, number: usize) -> Act {
    match refusal::class(dialect, error.kind) {
        Some(class) => {
            let message = refusal::message(dialect, error);
            let refusal = Refusal::new(dialect, class.status, &message).with_code(class.code);
            Act::Send(error_event(refusal, dialect, number))
        }
        None => match error.kind {
            ErrorKind::Stalled => Act::Hang,
            ErrorKind::Malformed => Act::Send(malformed_event(dialect)),
            ErrorKind::Transport
            | ErrorKind::Aborted
            | ErrorKind::Rate
            | ErrorKind::Quota
            | ErrorKind::Overloaded
            | ErrorKind::ContextExceeded
            | ErrorKind::Auth
            | ErrorKind::Rejected
            | ErrorKind::Refused => Act::Reset,
        },
    }
}

fn error_event(refusal: Refusal<'_>, dialect: Dialect, number: usize) -> Bytes {
    let body = refusal.body(number);
    Bytes::from(match dialect {
        Dialect::Responses | Dialect::Codex => responses::error(&body, number),
        Dialect::Anthropic => format!("event: error\ndata: {body}\n\n"),
        Dialect::Ollama => ollama::line(&body),
        Dialect::Chat | Dialect::Gemini => format!("data: {body}\n\n"),
    })
}

/// Inserts `inserted` after so many events; with `ends`, drops the rest.
fn insert_acts(acts: VecDeque<Act>, events: usize, inserted: Vec<Act>, ends: bool) -> VecDeque<Act> {
    if inserted.is_empty() {
        return acts;
    }
    let mut out = VecDeque::new();
    let mut seen = 0;
    let mut acts = acts.into_iter();
    while seen < events {
        let Some(act) = acts.next() else { break };
        seen += usize::from(matches!(act, Act::Send(_)));
        out.push_back(act);
    }
    out.extend(inserted);
    if !ends {
        out.extend(acts);
    }
    out
}

fn cut_after_bytes(acts: VecDeque<Act>, bytes: usize) -> VecDeque<Act> {
    let mut out = VecDeque::new();
    let mut left = bytes;
    for act in acts {
        match act {
            Act::Send(piece) if piece.len() >= left => {
                out.push_back(Act::Send(piece.slice(..left)));
                break;
            }
            Act::Send(piece) => {
                left -= piece.len();
                out.push_back(Act::Send(piece));
            }
            other => out.push_back(other),
        }
    }
    out.push_back(Act::Cut);
    out
}

fn send_bytewise(acts: VecDeque<Act>, interval: Duration) -> VecDeque<Act> {
    let mut out = VecDeque::new();
    for act in acts {
        match act {
            Act::Send(piece) => {
                for at in 0..piece.len() {
                    out.push_back(Act::Send(piece.slice(at..=at)));
                    out.push_back(Act::Wait(interval));
                }
            }
            other => out.push_back(other),
        }
    }
    out
}

fn split_utf8(acts: VecDeque<Act>) -> VecDeque<Act> {
    let mut out = VecDeque::new();
    for act in acts {
        let Act::Send(piece) = act else {
            out.push_back(act);
            continue;
        };
        let mut from = 0;
        // Cuts before each continuation byte of a character.
        for (at, _) in piece.iter().enumerate().filter(|(_, byte)| (0x80..0xc0).contains(*byte)) {
            out.push_back(Act::Send(piece.slice(from..at)));
            out.push_back(Act::Wait(APART));
            from = at;
        }
        out.push_back(Act::Send(piece.slice(from..)));
    }
    out
}
