//! Whose heartbeat is due: all in turn, each once in an interval, evenly. Pure.

use std::time::Duration;

/// Hearts that beat one after the other: the n-th of all at n/all of every interval.
#[derive(Debug)]
pub(crate) struct Rhythm {
    hearts: u32,
    interval: Duration,
    /// Beats that were due so far.
    beaten: u64,
}

impl Rhythm {
    pub(crate) fn new(hearts: u32, interval: Duration) -> Self {
        Self { hearts, interval, beaten: 0 }
    }

    /// Whose turn came since the last call, in order; the time counts from the start.
    pub(crate) fn due(&mut self, since_start: Duration) -> impl Iterator<Item = u32> + use<> {
        let hearts = u64::from(self.hearts);
        let due = since_start.as_nanos() * u128::from(hearts) / self.interval.as_nanos();
        let from = std::mem::replace(&mut self.beaten, due as u64);
        (from..self.beaten).map(move |beat| (beat % hearts) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_beats_once_an_interval_however_the_time_is_cut() {
        let mut rhythm = Rhythm::new(1_000, Duration::from_secs(10));
        let mut beats = vec![0u32; 1_000];
        let mut busiest = 0;
        for ms in (7..=20_000).step_by(7).chain([20_000]) {
            let due: Vec<u32> = rhythm.due(Duration::from_millis(ms)).collect();
            busiest = busiest.max(due.len());
            for heart in due {
                beats[heart as usize] += 1;
            }
        }
        assert!(beats.iter().all(|beats| *beats == 2), "{beats:?}");
        assert_eq!(busiest, 1);
    }

    #[test]
    fn what_was_missed_is_made_up_for() {
        let mut rhythm = Rhythm::new(4, Duration::from_secs(4));
        assert_eq!(rhythm.due(Duration::from_secs(1)).collect::<Vec<_>>(), [0]);
        assert_eq!(rhythm.due(Duration::from_millis(5_900)).collect::<Vec<_>>(), [1, 2, 3, 0]);
    }
}
