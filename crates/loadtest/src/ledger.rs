//! The truth about every user, as far as the tester itself made it: one file that all workers of a
//! host read and write, a word for each user.
//!
//! A word is read for every push: of a worker's own users from its memory, and of others by a
//! positioned read of a file in memory (about half a microsecond), so that no memory is shared
//! unsafely. Nothing is judged here.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Files here are memory, on Linux.
const MEMORY_FOLDER: &str = "/dev/shm";

const WORD_LEN: u64 = 8;

/// A moment takes this many of the 64 bits: 25 days of µs.
const MOMENT_BITS: u32 = 41;

/// And how long after it the `welcome` came: 8 minutes of ms.
const DELAY_BITS: u32 = 19;

/// And whether watchers were to be told offline before.
const OFFLINE_BITS: u32 = 1;

/// What is true of a user, by what the tester did. Moments are in µs since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// Nobody was connected yet.
    Never,
    /// The `hello` was sent, and no `welcome` came yet: any state may be shown. `after_offline` is
    /// when the user was gone for so long that every watcher must have been told.
    Joining { since: u64, after_offline: bool },
    /// Since the `hello`; how long later the `welcome` came, in ms.
    Online { since: u64, welcome_after_ms: u32, after_offline: bool },
    /// The same, back within grace: nobody may have noticed.
    Returned { since: u64, welcome_after_ms: u32 },
    /// Said `bye`.
    Bye { at: u64 },
    /// Closed its socket.
    Closed { at: u64 },
    /// Sent its last sign of life, and keeps its socket.
    Silent { at: u64 },
    /// Was ended by the other side, who knows since when.
    Cut { at: u64 },
}

impl Truth {
    pub(crate) fn pack(self) -> u64 {
        let (kind, moment, delay_ms, after_offline) = match self {
            Self::Never => (0, 0, 0, false),
            Self::Joining { since, after_offline } => (1, since, 0, after_offline),
            Self::Online { since, welcome_after_ms, after_offline } => {
                (2, since, welcome_after_ms, after_offline)
            }
            Self::Returned { since, welcome_after_ms } => (3, since, welcome_after_ms, false),
            Self::Bye { at } => (4, at, 0, false),
            Self::Closed { at } => (5, at, 0, false),
            Self::Silent { at } => (6, at, 0, false),
            Self::Cut { at } => (7, at, 0, false),
        };
        let moment = moment.min((1 << MOMENT_BITS) - 1);
        let delay = u64::from(delay_ms).min((1 << DELAY_BITS) - 1);
        let head = kind << OFFLINE_BITS | u64::from(after_offline);
        head << (MOMENT_BITS + DELAY_BITS) | delay << MOMENT_BITS | moment
    }

    pub(crate) fn unpack(word: u64) -> Self {
        let moment = word & ((1 << MOMENT_BITS) - 1);
        let welcome_after_ms = (word >> MOMENT_BITS & ((1 << DELAY_BITS) - 1)) as u32;
        let (since, at) = (moment, moment);
        let head = word >> (MOMENT_BITS + DELAY_BITS);
        let after_offline = head & 1 == 1;
        match head >> OFFLINE_BITS {
            0 => Self::Never,
            1 => Self::Joining { since, after_offline },
            2 => Self::Online { since, welcome_after_ms, after_offline },
            3 => Self::Returned { since, welcome_after_ms },
            4 => Self::Bye { at },
            5 => Self::Closed { at },
            6 => Self::Silent { at },
            _ => Self::Cut { at },
        }
    }

    pub(crate) fn is_online(self) -> bool {
        matches!(self, Self::Online { .. } | Self::Returned { .. })
    }
}

/// The words of some users.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    users: Range<u32>,
    own: Range<u32>,
    own_words: Box<[u64]>,
}

/// Makes a ledger in which nobody was connected yet; it is removed when this is dropped.
pub(crate) fn create(users: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("presence-loadtest-");
    let made = builder.tempfile_in(MEMORY_FOLDER).or_else(|_| builder.tempfile());
    let file = made?;
    file.as_file().set_len(u64::from(users) * WORD_LEN)?;
    Ok(file)
}

impl Ledger {
    /// Opens one that was made for exactly these users. Nobody else writes of its `own`.
    pub(crate) fn open(path: &Path, users: Range<u32>, own: Range<u32>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let own_words = vec![Truth::Never.pack(); own.len()].into();
        Ok(Self { file, users, own, own_words })
    }

    /// What is true of a user; never connected, for one who is not in it.
    pub(crate) fn read(&self, user: u32) -> io::Result<Truth> {
        if self.own.contains(&user) {
            return Ok(Truth::unpack(self.own_words[(user - self.own.start) as usize]));
        }
        let Some(place) = self.place(user) else { return Ok(Truth::Never) };
        let mut word = [0; WORD_LEN as usize];
        self.file.read_exact_at(&mut word, place)?;
        Ok(Truth::unpack(u64::from_le_bytes(word)))
    }

    pub(crate) fn write(&mut self, user: u32, truth: Truth) -> io::Result<()> {
        if self.own.contains(&user) {
            self.own_words[(user - self.own.start) as usize] = truth.pack();
        }
        let Some(place) = self.place(user) else { return Ok(()) };
        self.file.write_all_at(&truth.pack().to_le_bytes(), place)
    }

    fn place(&self, user: u32) -> Option<u64> {
        self.users.contains(&user).then(|| u64::from(user - self.users.start) * WORD_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUTHS: [Truth; 9] = [
        Truth::Never,
        Truth::Joining { since: 1, after_offline: true },
        Truth::Online { since: 2, welcome_after_ms: 500_000, after_offline: false },
        Truth::Online { since: 2, welcome_after_ms: 0, after_offline: true },
        Truth::Returned { since: (1 << 41) - 1, welcome_after_ms: 3 },
        Truth::Bye { at: 4 },
        Truth::Closed { at: 5 },
        Truth::Silent { at: 6 },
        Truth::Cut { at: 7 },
    ];

    #[test]
    fn a_truth_fits_in_a_word() {
        for truth in TRUTHS {
            assert_eq!(Truth::unpack(truth.pack()), truth);
        }
        let long =
            Truth::Online { since: u64::MAX, welcome_after_ms: u32::MAX, after_offline: true };
        let cut = Truth::Online {
            since: (1 << 41) - 1,
            welcome_after_ms: (1 << 19) - 1,
            after_offline: true,
        };
        assert_eq!(Truth::unpack(long.pack()), cut);
    }

    #[test]
    fn what_one_writes_another_reads() {
        let file = create(9).unwrap();
        let mut one = Ledger::open(file.path(), 100..109, 100..109).unwrap();
        let other = Ledger::open(file.path(), 100..109, 109..109).unwrap();
        assert_eq!(other.read(103).unwrap(), Truth::Never);
        for (user, truth) in (100..).zip(TRUTHS) {
            one.write(user, truth).unwrap();
        }
        for (user, truth) in (100..).zip(TRUTHS) {
            assert_eq!(one.read(user).unwrap(), truth);
            assert_eq!(other.read(user).unwrap(), truth);
        }
    }

    #[test]
    fn who_is_not_in_it_was_never_connected() {
        let file = create(9).unwrap();
        let mut ledger = Ledger::open(file.path(), 100..108, 100..108).unwrap();
        ledger.write(108, Truth::Bye { at: 1 }).unwrap();
        assert_eq!(ledger.read(108).unwrap(), Truth::Never);
        assert_eq!(ledger.read(99).unwrap(), Truth::Never);
    }
}
