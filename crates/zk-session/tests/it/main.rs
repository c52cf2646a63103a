//! The crate from outside: real files, real processes.

#[cfg(test)]
mod conform;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod leg_waits;
#[cfg(test)]
mod legs;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod live;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod power;
#[cfg(test)]
mod prepare;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod scanning;
#[cfg(test)]
mod search;
#[cfg(test)]
mod sub_agents;
#[cfg(test)]
mod support;
#[cfg(test)]
mod trash;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod tree_kill;
#[cfg(test)]
mod tree_size;
#[cfg(test)]
mod verify;
