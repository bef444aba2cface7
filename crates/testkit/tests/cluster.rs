//! That the cluster of the tests is one: without this, a test on it that passes may have tested nothing.

use presence_testkit::RedisCluster;

#[tokio::test]
async fn a_killed_primary_is_replaced_and_comes_back_as_a_replica_and_slots_move_with_their_keys() {
    let mut cluster = RedisCluster::start();
    assert_eq!(cluster.primaries(), [0, 1, 2]);
    let slot = cluster.slot_of("foo");
    assert_eq!(slot, 12182);
    let old = cluster.primary_of(slot).expect("the cluster is whole");
    assert_eq!(cluster.server(old).cli(&["SET", "foo", "bar"]), "OK");
    cluster.replicate(old).await;

    cluster.kill(old);
    let new = cluster.failover(slot, old).await;
    assert_eq!(cluster.server(new).cli(&["GET", "foo"]), "bar");
    cluster.restart(old);
    cluster.server(old).wait_until("it follows", &["ROLE"], "slave");

    let to = cluster.primaries().into_iter().find(|&number| number != new).expect("another");
    cluster.migrate_slot(slot, to);
    assert_eq!(cluster.server(to).cli(&["GET", "foo"]), "bar");
    assert_eq!(cluster.failover(slot, new).await, to);
}
