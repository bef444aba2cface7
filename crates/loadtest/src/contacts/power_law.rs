//! Contacts by a power law, with nothing kept for any user.
//!
//! Each user has a rank, by a permutation of all; its degree is the bounded Pareto quantile at that
//! rank. Whom it watches is drawn with a chance in proportion to degree, by inverting the closed
//! form of the size-biased distribution. A choice costs a few powers, whatever the number of users.

use std::collections::HashSet;

use fastrand::Rng;

/// See `random`.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Halvings of the interval in which the least degree is looked for: far below one in a million.
const HALVINGS: u32 = 60;

/// Rolls for each contact, after which somebody is watched by fewer: only the very popular among
/// very few users come so far.
const ROLLS_PER_CONTACT: usize = 16;

/// Degrees from `least` to `most` with density x^-(shape + 1).
#[derive(Clone, Copy, Debug)]
struct BoundedPareto {
    least: f64,
    most: f64,
    shape: f64,
}

/// The contacts of users 0 to `users`.
#[derive(Clone, Debug)]
pub(super) struct PowerLaw {
    users: u32,
    degrees: BoundedPareto,
    seed: u64,
    /// A user's rank is `user * factor + shift`, modulo the number of users.
    factor: u64,
    unfactor: u64,
    shift: u64,
}

impl BoundedPareto {
    /// The one with this mean, which is below `most`.
    fn with_mean(mean: f64, most: f64, shape: f64) -> Self {
        let mut low = 1e-6;
        let mut high = most;
        for _ in 0..HALVINGS {
            let least = f64::midpoint(low, high);
            if (Self { least, most, shape }).mean() < mean { low = least } else { high = least }
        }
        Self { least: low, most, shape }
    }

    fn mean(self) -> f64 {
        let Self { least, most, shape } = self;
        integral(least, most, shape) / integral(least, most, shape + 1.0)
    }

    /// Where this share of the distribution lies below.
    fn quantile(self, share: f64) -> f64 {
        quantile(self.least, self.most, self.shape + 1.0, share)
    }

    /// The same with each value as likely as it is large, too.
    fn quantile_by_size(self, share: f64) -> f64 {
        quantile(self.least, self.most, self.shape, share)
    }

    fn share_below(self, value: f64) -> f64 {
        let power = self.shape + 1.0;
        integral(self.least, value, power) / integral(self.least, self.most, power)
    }
}

impl PowerLaw {
    pub(super) fn new(users: u32, mean: f64, max: u32, exponent: f64, seed: u64) -> Self {
        let n = u64::from(users);
        let mut rng = Rng::with_seed(seed);
        let factor = loop {
            let factor = rng.u64(1..=n);
            if gcd(factor, n) == 1 {
                break factor;
            }
        };
        Self {
            users,
            degrees: BoundedPareto::with_mean(mean, f64::from(max), exponent - 1.0),
            seed,
            factor,
            unfactor: inverse(factor, n),
            shift: rng.u64(..n),
        }
    }

    /// Whom this user watches, in no order.
    pub(super) fn watched_by(&self, user: u32) -> Vec<u32> {
        let mut rng = Rng::with_seed(self.seed ^ u64::from(user + 1).wrapping_mul(SPREAD));
        let degree = self.degree(user);
        let mut picked = HashSet::with_capacity(degree);
        for _ in 0..degree * ROLLS_PER_CONTACT {
            let other = self.popular(&mut rng);
            if other != user {
                picked.insert(other);
            }
            if picked.len() == degree {
                break;
            }
        }
        picked.into_iter().collect()
    }

    fn degree(&self, user: u32) -> usize {
        let n = u64::from(self.users);
        let rank = (u64::from(user) * self.factor + self.shift) % n;
        let value = self.degrees.quantile((rank as f64 + 0.5) / n as f64);
        (value.round() as usize).min(self.users as usize - 1)
    }

    /// Somebody, the likelier the higher the degree.
    fn popular(&self, rng: &mut Rng) -> u32 {
        let n = u64::from(self.users);
        let value = self.degrees.quantile_by_size(rng.f64());
        let rank = ((self.degrees.share_below(value) * n as f64) as u64).min(n - 1);
        ((rank + n - self.shift) % n * self.unfactor % n) as u32
    }
}

/// Of x^-power.
fn integral(from: f64, to: f64, power: f64) -> f64 {
    let left = 1.0 - power;
    if left.abs() < 1e-9 { (to / from).ln() } else { (to.powf(left) - from.powf(left)) / left }
}

/// Where this share of [`integral`] from `from` to `to` is reached.
fn quantile(from: f64, to: f64, power: f64, share: f64) -> f64 {
    let left = 1.0 - power;
    if left.abs() < 1e-9 {
        return from * (to / from).powf(share);
    }
    let reached = from.powf(left) + share * (to.powf(left) - from.powf(left));
    reached.powf(1.0 / left).clamp(from, to)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The number that undoes multiplication by `factor` modulo `n`, to which it has no common divisor.
fn inverse(factor: u64, n: u64) -> u64 {
    let (mut old, mut new) = ((i128::from(n), 0i128), (i128::from(factor), 1i128));
    while new.0 != 0 {
        let times = old.0 / new.0;
        (old, new) = (new, (old.0 - times * new.0, old.1 - times * new.1));
    }
    old.1.rem_euclid(i128::from(n)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_have_the_mean_that_was_asked_for() {
        let contacts = PowerLaw::new(20_000, 40.0, 2_000, 2.2, 3);
        let degrees: Vec<usize> = (0..20_000).map(|user| contacts.degree(user)).collect();
        let mean = degrees.iter().sum::<usize>() as f64 / 20_000.0;
        assert!((38.0..42.0).contains(&mean), "{mean}");
        let most = *degrees.iter().max().unwrap();
        assert!((1_000..=2_000).contains(&most), "{most}");
    }

    #[test]
    fn who_watches_many_is_watched_by_many() {
        let users = 2_000;
        let contacts = PowerLaw::new(users, 20.0, 400, 2.5, 5);
        let mut watchers = vec![0u32; users as usize];
        for user in 0..users {
            for other in contacts.watched_by(user) {
                watchers[other as usize] += 1;
            }
        }
        let mut by_degree: Vec<u32> = (0..users).collect();
        by_degree.sort_unstable_by_key(|user| contacts.degree(*user));
        let sum = |users: &[u32]| users.iter().map(|user| watchers[*user as usize]).sum::<u32>();
        let tenth = by_degree.len() / 10;
        let (least, most) = (sum(&by_degree[..tenth]), sum(&by_degree[by_degree.len() - tenth..]));
        assert!(most > 4 * least, "{most} and {least}");
        let all: u32 = watchers.iter().sum();
        assert!((36_000..44_000).contains(&all), "{all}");
    }

    #[test]
    fn a_rank_is_undone_by_its_inverse() {
        for n in [2, 97, 1_000, 65_536] {
            let contacts = PowerLaw::new(n, 1.0, 2, 2.5, u64::from(n));
            let n = u64::from(n);
            assert_eq!(contacts.factor * contacts.unfactor % n, 1 % n);
        }
    }
}
