use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Map of queues, for keys such as call ids that may occur several times. Adding and taking a value take
/// constant time.
#[derive(Debug)]
pub(crate) struct Queues<K, T> {
    slots: Vec<Slot<T>>,
    queues: HashMap<K, Queue>,
}

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    next: Option<usize>,
}

/// First and last slot of a queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: usize,
    last: usize,
}

impl<K, T> Default for Queues<K, T> {
    fn default() -> Self {
        Self { slots: Vec::new(), queues: HashMap::new() }
    }
}

impl<K: Eq + Hash, T> Queues<K, T> {
    /// Appends a value to the queue of its key.
    pub(crate) fn push(&mut self, key: K, value: T) {
        let at = self.slots.len();
        self.slots.push(Slot { value: Some(value), next: None });
        let queue = self.queues.entry(key).or_insert(Queue { first: at, last: at });
        if queue.last != at {
            if let Some(last) = self.slots.get_mut(queue.last) {
                last.next = Some(at);
            }
            queue.last = at;
        }
    }

    /// Takes the first value of a key.
    pub(crate) fn take<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let queue = self.queues.get_mut(key)?;
        let slot = self.slots.get_mut(queue.first)?;
        let value = slot.value.take();
        match slot.next {
            Some(next) => queue.first = next,
            None => drop(self.queues.remove(key)),
        }
        value
    }
}

impl<K: Eq + Hash, T> FromIterator<(K, T)> for Queues<K, T> {
    fn from_iter<I: IntoIterator<Item = (K, T)>>(items: I) -> Self {
        let mut queues = Self::default();
        items.into_iter().for_each(|(key, value)| queues.push(key, value));
        queues
    }
}

#[cfg(test)]
mod tests {
    use super::Queues;

    #[test]
    fn values_of_one_key_are_taken_in_the_order_in_which_they_came() {
        let mut queues: Queues<&str, u32> = [("a", 1), ("b", 2), ("a", 3)].into_iter().collect();
        assert_eq!((queues.take("a"), queues.take("a"), queues.take("a")), (Some(1), Some(3), None));
        queues.push("a", 4);
        assert_eq!((queues.take("a"), queues.take("b")), (Some(4), Some(2)));
    }
}
