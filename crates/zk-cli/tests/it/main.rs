//! The program, run from outside.

#[cfg(test)]
mod acp;
#[cfg(test)]
mod agent_sdk;
#[cfg(test)]
mod agent_sdk_flags;
#[cfg(test)]
mod agent_sdk_recordings;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod answers;
#[cfg(test)]
mod attached;
#[cfg(test)]
mod auth;
mod backends;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod beside;
mod budgets;
#[cfg(test)]
mod colours;
#[cfg(test)]
mod command_hooks;
#[cfg(test)]
mod compact;
#[cfg(test)]
mod completions;
#[cfg(test)]
mod composer;
#[cfg(test)]
mod config;
#[cfg(test)]
mod consent;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod cut_answers;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod desk;
mod directory;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod doing;
mod edits;
#[cfg(test)]
#[path = "../../../zk-tui/tests/it/foreign.rs"]
mod emulator;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod exec_server;
mod extensions;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod first_start;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod goals;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod help;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod hostile_projects;
#[cfg(test)]
mod inline;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod kill;
mod limits;
#[cfg(test)]
mod look;
#[cfg(test)]
mod lost_sandbox;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod mcp_serve;
#[cfg(test)]
mod mcp_sign_in;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod memory_facts;
mod model_names;
mod models;
#[cfg(test)]
mod moved_leaf;
#[cfg(test)]
mod network;
#[cfg(test)]
mod network_credentials;
#[cfg(test)]
mod network_programs;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod permission_modes;
#[cfg(test)]
mod picker;
#[cfg(test)]
mod pipes;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod prefix;
mod protected;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod reopening;
#[cfg(test)]
mod rpc;
#[cfg(test)]
mod screen;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod skills;
mod slash_commands;
#[cfg(test)]
mod start;
#[cfg(test)]
mod streams;
mod switching;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod tmux;
#[cfg(test)]
mod tool_settings;
#[cfg(test)]
mod untrusted;
#[cfg(test)]
mod update;
#[cfg(test)]
mod waits;
mod wall;
#[cfg(test)]
mod web;
#[cfg(test)]
mod while_typing;
#[cfg(test)]
mod window;
mod worker;
mod worker_files;
mod worker_waits;
#[cfg(test)]
mod working_hours;
#[cfg(test)]
mod zk;
