//! MCP servers as real processes.

#[cfg(test)]
mod asking;
#[cfg(test)]
mod bootstrap;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod chaos_http;
#[cfg(test)]
mod disclosure;
#[cfg(test)]
mod eras;
#[cfg(test)]
mod event_stream;
#[cfg(test)]
mod exposure;
#[cfg(test)]
mod first_prompt;
#[cfg(test)]
mod headers;
#[cfg(test)]
mod http;
#[cfg(test)]
mod late;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod pins;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod rpc;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod web;
