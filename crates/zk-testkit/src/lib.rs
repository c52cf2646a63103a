//! A scripted model, a strict fake LLM server with faults, a simulated clock and an event recorder for testing zk and what is built on it.
