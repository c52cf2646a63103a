//! What a collector receives of runs with a scripted model.

mod collector;
mod config;
mod export;
mod rig;
mod scenes;
