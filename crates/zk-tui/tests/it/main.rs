//! The screen on a terminal in memory.

#[cfg(test)]
mod alternate;
#[cfg(test)]
mod bursts;
#[cfg(test)]
mod composer;
#[cfg(test)]
mod doing;
#[cfg(test)]
mod emulator;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod look;
#[cfg(test)]
mod margins;
#[cfg(test)]
mod paint;
#[cfg(test)]
mod person;
#[cfg(test)]
mod picking;
#[cfg(test)]
mod pressing;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod reflow;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod resizes;
#[cfg(test)]
mod rows;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod transcript;

/// Number of generated sessions: a hundredth of a campaign, unless the environment says otherwise.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "whoever runs a campaign says how large it is")]
fn cases() -> u32 {
    std::env::var("ZK_TUI_SESSIONS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100)
}
