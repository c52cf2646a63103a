//! Tests of the engine as its users have it.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod children;
#[cfg(test)]
mod conform;
#[cfg(test)]
mod damaged;
#[cfg(test)]
mod desk;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod late_mail;
#[cfg(test)]
mod lost_answers;
#[cfg(test)]
mod lost_stores;
#[cfg(test)]
mod retries;
