//! How many connections one address may have, so that one stranger cannot take them all.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Counts the connections of every address that has any.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    per_address: usize,
}

/// One connection's place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    address: IpAddr,
}

impl Seats {
    pub(crate) fn new(per_address: usize) -> Seats {
        Seats { taken: Arc::default(), per_address }
    }

    /// A place, if the address has not too many already.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Seat> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(Seat { seats: self.clone(), address })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_seats_and_no_more_and_leaves_no_trace() {
        let seats = Seats::new(2);
        let (here, there) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let (first, second) = (seats.take(here), seats.take(here));
        assert!(first.is_some() && second.is_some() && seats.take(here).is_none());
        assert!(seats.take(there).is_some());
        drop(first);
        assert!(seats.take(here).is_some());
        drop(second);
        assert!(seats.taken.lock().unwrap().is_empty());
    }
}
