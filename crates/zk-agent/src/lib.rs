//! The agent loop of zk: run handle, turn machine, tool dispatch, gates, steering, sub-agents.
