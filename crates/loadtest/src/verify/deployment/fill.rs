//! Fills Redis with what a gateway has nothing to do with, to show that it does not matter: living
//! users of other gateways, and keys of other programs.

use anyhow::{Result, ensure};

use crate::verify::deployment::backing::Backing;
use crate::verify::deployment::{Deployment, PREFIX};

/// Keys a call: tenths of a second of Redis.
const BATCH: u64 = 20_000;

/// KEYS none. ARGV: prefix, first, count. The layout is that of `record.lua`, `crates/presence`.
const OTHER_USERS: &str = r"
for number = tonumber(ARGV[2]), ARGV[2] + ARGV[3] - 1 do
  local bucket = number % 1024
  local gateway = 'other' .. number % 50
  local ttl = 1800000 + number * 7919 % 1800000
  local tag = ARGV[1] .. ':{' .. bucket .. '}:'
  local user = tag .. 'user:other-' .. number
  redis.call('HSET', user, gateway, '0 . . ')
  redis.call('PEXPIRE', user, ttl)
  redis.call('SET', tag .. 'seen:other-' .. number,
    '1700000000000000 online 1700000000000 . . ' .. gateway .. ' ', 'PX', ttl)
end
return ARGV[3]";

/// KEYS none. ARGV: ignored, first, count.
const OTHER_KEYS: &str = r"
for number = tonumber(ARGV[2]), ARGV[2] + ARGV[3] - 1 do
  redis.call('SET', 'elsewhere:' .. number, 'value', 'PX', 1800000 + number * 7919 % 1800000)
end
return ARGV[3]";

/// What is filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filling {
    Users,
    Keys,
}

impl Filling {
    fn script(self) -> &'static str {
        match self {
            Self::Users => OTHER_USERS,
            Self::Keys => OTHER_KEYS,
        }
    }
}

/// Fills in `count` of them; `tell` is called with how many there are so far.
pub(crate) async fn fill(
    deployment: &Deployment,
    filling: Filling,
    count: u64,
    tell: impl Fn(u64),
) -> Result<()> {
    let mut done = 0;
    while done < count {
        let batch = BATCH.min(count - done);
        let words = [filling.script(), "0", PREFIX, &done.to_string(), &batch.to_string()];
        let words = words.map(str::to_owned);
        let eval = move |backing: &mut Backing| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            backing.one(&[&["EVAL"], words.as_slice()].concat())
        };
        let answer = deployment.with_backing(eval).await??;
        ensure!(answer == batch.to_string(), "filling Redis: {answer}");
        done += batch;
        tell(done);
    }
    Ok(())
}
