//! A gateway that goes away, and another where its users are watched.

use std::time::Duration;

use presence::store::embedded::EmbeddedHub;
use presence::{Config, Metrics, Presence};
use presence_protocol::Availability;

use crate::client::{Client, user};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn who_was_sent_away_keeps_the_place_though_another_session_dies_meanwhile() {
    let config = Config::default();
    let hub = EmbeddedHub::new(config.clone());
    let start = |name| Presence::start(config.clone(), hub.open(name), Metrics::default());
    let (leaving, staying) = (start("leaving"), start("staying"));
    let _phone = Client::join(&leaving, "ana", None, None);
    let mut laptop = Client::join(&leaving, "ana", None, None);
    laptop.live_for(config.ttl - SECOND).await;
    let mut watcher = Client::join(&staying, "bo", None, None);
    watcher.watch(&["ana"]);
    watcher.live_for(SECOND / 2).await;
    let watch = async {
        drop(laptop);
        watcher.live_for(config.ttl - SECOND).await;
        assert_eq!(watcher.view[&user("ana")].state, Availability::Online);
        watcher.live_for(3 * SECOND + config.grace).await;
        assert_eq!(watcher.view[&user("ana")].state, Availability::Offline);
    };
    tokio::select! {
        biased;
        () = leaving.drain(20 * config.ttl) => panic!("the phone is still there"),
        () = watch => {}
    }
}
