//! Addresses as they are counted, in eight bytes, and how many connections each has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU64;

use parking_lot::Mutex;

/// Where IPv4 addresses are put among the upper halves of IPv6 addresses: a multicast address is nobody's own.
const IPV4: u64 = 0xffff_ffff << 32;

/// What counts as one address: an IPv4 address, or all of an IPv6 /64, which is what one customer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address(NonZeroU64);

impl Address {
    /// None on loopback: whoever is on this machine, such as a proxy that says nothing of its clients, is not counted.
    pub(super) fn of(ip: IpAddr) -> Option<Self> {
        let number = match ip.to_canonical() {
            ip if ip.is_loopback() => return None,
            IpAddr::V4(ip) => IPV4 | u64::from(ip.to_bits()),
            IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64,
        };
        NonZeroU64::new(number).map(Self)
    }
}

/// How many connections each address has.
pub(super) struct Tally {
    /// The most that one may have; 0 is any number.
    max: u32,
    counts: Mutex<HashMap<Address, u32>>,
}

impl Tally {
    pub(super) fn new(max: u32) -> Self {
        Self { max, counts: Mutex::default() }
    }

    /// One more; false when it is one too many, which is not counted then.
    pub(super) fn enter(&self, address: Option<Address>) -> bool {
        let Some(address) = address.filter(|_| self.max > 0) else { return true };
        let mut counts = self.counts.lock();
        let count = counts.entry(address).or_default();
        let has_room = *count < self.max;
        *count += u32::from(has_room);
        has_room
    }

    /// One that was counted is gone.
    pub(super) fn leave(&self, address: Option<Address>) {
        let Some(address) = address.filter(|_| self.max > 0) else { return };
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
                if counts.len() <= counts.capacity() / 4 {
                    let len = counts.len();
                    counts.shrink_to(len * 2);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str) -> Option<Address> {
        Address::of(ip.parse().unwrap())
    }

    #[test]
    fn an_ipv6_network_of_a_customer_is_one_address_and_a_mapped_ipv4_address_is_itself() {
        assert_eq!(address("2001:db8:1:2::1"), address("2001:db8:1:2:ffff::9"));
        assert_ne!(address("2001:db8:1:2::1"), address("2001:db8:1:3::1"));
        assert_eq!(address("203.0.113.7"), address("::ffff:203.0.113.7"));
        assert_ne!(address("203.0.113.7"), address("203.0.113.8"));
        assert_ne!(address("0.0.0.0"), address("::"));
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(address(own), None, "{own}");
        }
        assert_eq!(size_of::<Option<Address>>(), 8);
    }

    #[test]
    fn each_address_is_counted_by_itself_and_forgotten_when_it_has_no_connection() {
        let tally = Tally::new(2);
        let [a, b] = ["203.0.113.7", "2001:db8::1"].map(address);
        assert!(tally.enter(a) && tally.enter(a) && tally.enter(b));
        assert!(!tally.enter(a), "a third one");
        assert!((0..9).all(|_| tally.enter(None)), "whoever is on this machine");
        tally.leave(a);
        assert!(tally.enter(a));
        for address in [a, a, b, None] {
            tally.leave(address);
        }
        assert!(tally.counts.lock().is_empty());
    }

    #[test]
    fn none_is_any_number() {
        let tally = Tally::new(0);
        assert!((0..9).all(|_| tally.enter(address("203.0.113.7"))));
        assert!(tally.counts.lock().is_empty());
    }
}
