//! The program as a person runs it, in scratch checkouts.

#[cfg(test)]
mod checkout;
#[cfg(test)]
mod dist;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod release;
#[cfg(test)]
mod scratch;
