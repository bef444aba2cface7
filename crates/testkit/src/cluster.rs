//! A real Redis Cluster of three primaries and three replicas, whose failures a test makes.
//!
//! Servers are named by their number, 0 to 5; which of them are primaries changes with every failover. Everything here
//! blocks for some milliseconds but what is `async`: a failover takes seconds, in which a test's other tasks must run.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::keeper::Scratch;
use crate::redis::{RedisServer, Role, SAVE_NOTHING};
use crate::wait::eventually;

const PRIMARIES: usize = 3;
const SERVERS: usize = 2 * PRIMARIES;
const SLOTS: usize = 16_384;

/// So long a server may be silent before the others replace it: short enough to wait for, and long enough for a busy
/// machine.
const NODE_TIMEOUT_MS: &str = "2000";

/// How long any change of the cluster may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Longer than a replica tries to take over.
const PROMOTION_TIME: Duration = Duration::from_secs(6);

/// How many keys are moved at a time.
const MOVE_LEN: &str = "100";

/// Six servers; those that were killed can be started again. Ends with the test process.
///
/// ```no_run
/// # async fn example() {
/// let mut cluster = presence_testkit::RedisCluster::start();
/// let slot = cluster.slot_of("presence:{7}:gateways");
/// let old = cluster.primary_of(slot).expect("the cluster is whole");
/// cluster.kill(old);
/// let new = cluster.failover(slot, old).await; // its replica serves the slot now
/// cluster.restart(old); // as a replica of it
/// cluster.migrate_slot(slot, cluster.primaries().into_iter().find(|&node| node != new).unwrap());
/// # }
/// ```
pub struct RedisCluster {
    servers: Vec<RedisServer>,
    paused: [AtomicBool; SERVERS],
    /// Where the servers keep what they know of each other, so that they know it when they are started again.
    _scratch: Scratch,
}

/// The slots of a server, as another knows them.
struct Share {
    number: usize,
    slots: Vec<RangeInclusive<u16>>,
}

impl RedisCluster {
    /// Starts it and waits until it serves all slots, each primary with one replica. Takes some seconds.
    pub fn start() -> Self {
        let scratch = Scratch::new();
        let start = |number: usize| {
            let file = scratch.file(&format!("nodes-{number}.conf"));
            let options = [
                ["--cluster-config-file", &file],
                ["--cluster-node-timeout", NODE_TIMEOUT_MS],
                ["--cluster-replica-validity-factor", "0"],
                ["--cluster-allow-replica-migration", "no"],
                ["--repl-diskless-sync-delay", "0"],
            ];
            RedisServer::launch(Role::Member, &[&SAVE_NOTHING, options.as_flattened()].concat())
        };
        let servers: Vec<_> = (0..SERVERS).map(start).collect();
        let cluster = Self { servers, paused: Default::default(), _scratch: scratch };
        cluster.form();
        cluster
    }

    /// The URL that a store takes: it names every server, so that any may be away.
    pub fn url(&self) -> String {
        self.url_with("")
    }

    /// The URL that names one server only: the others are found through it.
    pub fn url_of(&self, number: usize) -> String {
        format!("redis-cluster://127.0.0.1:{}", self.servers[number].port())
    }

    /// The primary that a client asks first, whatever the order in a URL: the one with the lowest port; and a slot of it.
    pub fn first_primary(&self) -> (usize, u16) {
        let shares = self.shares_known_to(self.any());
        let first = shares.min_by_key(|share| self.servers[share.number].port());
        let first = first.expect("there are three");
        (first.number, *first.slots[0].start())
    }

    /// The URL for a user of the servers' access control lists.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url_with(&format!("{user}:{password}@"))
    }

    fn url_with(&self, credentials: &str) -> String {
        let others =
            self.servers[1..].iter().map(|server| format!("node=127.0.0.1:{}", server.port()));
        let others: Vec<_> = others.collect();
        let first = self.servers[0].port();
        format!("redis-cluster://{credentials}127.0.0.1:{first}?{}", others.join("&"))
    }

    /// A server, for its `cli` and its `port`. Kill, start and pause it through the cluster.
    pub fn server(&self, number: usize) -> &RedisServer {
        &self.servers[number]
    }

    /// The answers of all servers that run to a command, in their order.
    pub fn cli_everywhere(&self, words: &[&str]) -> Vec<String> {
        self.reachable().map(|number| self.servers[number].cli(words)).collect()
    }

    /// The hash slot of a key or a sharded channel.
    pub fn slot_of(&self, key: &str) -> u16 {
        self.any().cli(&["CLUSTER", "KEYSLOT", key]).parse().expect("a slot")
    }

    /// Which servers serve slots now.
    pub fn primaries(&self) -> Vec<usize> {
        let shares = self.shares_known_to(self.any());
        let mut numbers: Vec<_> = shares.map(|share| share.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Which server serves a slot; none while those that run disagree, or while the cluster is not whole.
    pub fn primary_of(&self, slot: u16) -> Option<usize> {
        let mut found = self.reachable().map(|number| {
            let server = &self.servers[number];
            let has_slot = |share: &Share| share.slots.iter().any(|range| range.contains(&slot));
            let owner = self.shares_known_to(server).find(has_slot)?;
            let whole = server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
            Some(owner.number).filter(|_| whole)
        });
        let first = found.next().flatten()?;
        found.all(|other| other == Some(first)).then_some(first)
    }

    /// Kills a server as a crash would (SIGKILL).
    pub fn kill(&mut self, number: usize) {
        self.servers[number].kill();
    }

    /// Starts a server again, with no keys, as what the cluster has made of it meanwhile.
    pub fn restart(&mut self, number: usize) {
        self.servers[number].restart();
    }

    /// Makes a server hang (SIGSTOP).
    pub fn pause(&self, number: usize) {
        self.paused[number].store(true, Ordering::Relaxed);
        self.servers[number].pause();
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self, number: usize) {
        self.servers[number].resume();
        self.paused[number].store(false, Ordering::Relaxed);
    }

    /// Makes a replica take over in good order, as before its primary is upgraded. Await [`Self::failover`] then.
    pub async fn promote(&self, replica: usize) {
        // On a busy machine its voters may be late: then it gives up after 5 s, and may be asked again.
        let mut asked = None;
        let takes_over = async || {
            let due = asked.is_none_or(|asked: Instant| asked.elapsed() > PROMOTION_TIME);
            if due && self.servers[replica].cli(&["CLUSTER", "FAILOVER"]) == "OK" {
                asked = Some(Instant::now());
            }
            Some(()).filter(|()| self.servers[replica].cli(&["ROLE"]).starts_with("master"))
        };
        eventually("the replica takes over", PATIENCE, takes_over).await;
    }

    /// Waits until the replicas of a primary have what was written to it so far: what they have not is lost with it.
    pub async fn replicate(&self, primary: usize) {
        let offsets = || -> Vec<u64> {
            let role = self.servers[primary].cli(&["ROLE"]);
            // "master", its offset, and of each replica the address, the port and the offset.
            let of_all = role.lines().skip(1).step_by(3);
            of_all.filter_map(|offset| offset.parse().ok()).collect()
        };
        let written = offsets()[0];
        eventually("the replicas have all", PATIENCE, async || {
            let all = offsets();
            Some(()).filter(|()| all.len() > 1 && all.iter().all(|has| *has >= written))
        })
        .await;
    }

    /// The replicas of a primary.
    pub fn replicas_of(&self, primary: usize) -> Vec<usize> {
        let port = self.servers[primary].port().to_string();
        let follows = |&number: &usize| {
            self.servers[number].cli(&["ROLE"]).lines().nth(2) == Some(port.as_str())
        };
        self.reachable().filter(|&number| number != primary).filter(follows).collect()
    }

    /// Waits until another server than `old`, which was killed or paused, serves a slot and the cluster is whole.
    pub async fn failover(&self, slot: u16, old: usize) -> usize {
        let promoted = async || self.primary_of(slot).filter(|&new| new != old);
        eventually("a replica was promoted", PATIENCE, promoted).await
    }

    /// Moves a slot with its keys to another primary, as a resharding does.
    pub fn migrate_slot(&self, slot: u16, to: usize) {
        self.begin_migration(slot, to);
        self.move_keys(slot, to);
        self.end_migration(slot, to);
    }

    /// Its first step: the slot is on its way, and its keys are where they were.
    pub fn begin_migration(&self, slot: u16, to: usize) {
        let from = self.primary_of(slot).expect("the cluster is whole");
        let (from_id, to_id) = (self.id(from), self.id(to));
        let slot = slot.to_string();
        self.expect_ok(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        self.expect_ok(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
    }

    /// Its second step: the keys are moved.
    pub fn move_keys(&self, slot: u16, to: usize) {
        let from = self.primary_of(slot).expect("the cluster is whole");
        let (slot, port) = (slot.to_string(), self.servers[to].port().to_string());
        loop {
            let keys = self.servers[from].cli(&["CLUSTER", "GETKEYSINSLOT", &slot, MOVE_LEN]);
            let keys: Vec<_> = keys.lines().collect();
            if keys.is_empty() {
                return;
            }
            let migrate = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            self.expect_ok(from, &[&migrate[..], &keys].concat());
        }
    }

    /// Its last step: every primary is told who serves the slot.
    pub fn end_migration(&self, slot: u16, to: usize) {
        let id = self.id(to);
        let others = self.primaries().into_iter().filter(|&number| number != to);
        for number in [to].into_iter().chain(others) {
            self.expect_ok(number, &["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id]);
        }
    }

    /// Those that have any.
    fn shares_known_to(&self, server: &RedisServer) -> impl Iterator<Item = Share> {
        let nodes = server.cli(&["CLUSTER", "NODES"]);
        let share = |line: &str| {
            let (port, slots) = slots_of(line)?;
            let number = self.servers.iter().position(|server| server.port() == port)?;
            Some(Share { number, slots }).filter(|share| !share.slots.is_empty())
        };
        nodes.lines().filter_map(share).collect::<Vec<_>>().into_iter()
    }

    fn id(&self, number: usize) -> String {
        self.servers[number].cli(&["CLUSTER", "MYID"])
    }

    fn expect_ok(&self, number: usize, words: &[&str]) {
        let answer = self.servers[number].cli(words);
        assert_eq!(answer, "OK", "server {number}: {words:?}");
    }

    fn reachable(&self) -> impl Iterator<Item = usize> {
        let reachable = |&number: &usize| {
            self.servers[number].is_running() && !self.paused[number].load(Ordering::Relaxed)
        };
        (0..SERVERS).filter(reachable)
    }

    fn any(&self) -> &RedisServer {
        &self.servers[self.reachable().next().expect("a server that runs")]
    }

    /// Makes the servers meet, and gives out slots and replicas.
    fn form(&self) {
        for (number, server) in self.servers.iter().enumerate() {
            let epoch = (number + 1).to_string();
            self.expect_ok(number, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            let bus_port = server.cli(&["CONFIG", "GET", "cluster-port"]);
            let bus_port = bus_port.lines().last().expect("a port");
            let port = server.port().to_string();
            self.expect_ok(0, &["CLUSTER", "MEET", "127.0.0.1", &port, bus_port]);
        }
        for number in 0..PRIMARIES {
            let (first, next) = (number * SLOTS / PRIMARIES, (number + 1) * SLOTS / PRIMARIES);
            let (first, last) = (first.to_string(), (next - 1).to_string());
            self.expect_ok(number, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        }
        for server in &self.servers {
            let count = format!("cluster_known_nodes:{SERVERS}\r");
            server.wait_until("it knows all others", &["CLUSTER", "INFO"], &count);
            server.wait_until("the cluster is ok", &["CLUSTER", "INFO"], "cluster_state:ok");
        }
        for number in 0..PRIMARIES {
            self.expect_ok(number + PRIMARIES, &["CLUSTER", "REPLICATE", &self.id(number)]);
        }
        for server in &self.servers[..PRIMARIES] {
            // Only then is what is written passed on; the replica's link is up some time before.
            server.wait_until("the replica follows", &["INFO", "replication"], "state=online");
        }
    }
}

/// Reads the slots off a line of `CLUSTER NODES`, with the port of the server that has them:
/// `id ip:port@bus flags primary ping pong epoch link slot slot-slot …`. Slots that are on their way are left out.
fn slots_of(line: &str) -> Option<(u16, Vec<RangeInclusive<u16>>)> {
    let mut words = line.split(' ');
    let port = words.nth(1)?.split('@').next()?.rsplit(':').next()?.parse().ok()?;
    let slots = words.skip(6).filter_map(|word| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    Some((port, slots.collect()))
}
