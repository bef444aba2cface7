//! The cases of the contract about what crosses the store beside transitions: notices, and orders that are remembered.

use presence::store::notice::{Answer, Dated, Notice, Order, Question, SessionInfo};
use presence::store::{Event, ORDERS_LEN_MAX};
use presence_protocol::{Device, Show};

use crate::world::{World, user};

fn revoke(name: &str) -> Order {
    Order::Revoke(user(name))
}

pub(crate) async fn every_gateway_hears_every_notice_as_it_was_told(world: World) {
    let mut gateways = [world.gateway("g0").await, world.gateway("g1").await];
    let question = Question {
        gateway: "g0".to_owned(),
        number: 7,
        user: user("}:user:{ é"),
        named: vec!["g0".to_owned(), "g1".to_owned()],
    };
    let session = SessionInfo {
        id: "g1-1".to_owned(),
        gateway: "g1".to_owned(),
        device: Some(Device::new("ios").expect("a label")),
        since: 1_764_000_000_000,
        heard: 1_764_000_000_001,
        address: Some("::1".parse().expect("an address")),
        format: "json".to_owned(),
        show: Some(Show::Invisible),
    };
    let bare = SessionInfo { device: None, address: None, show: None, ..session.clone() };
    let sessions = vec![session, bare];
    let answer =
        Answer { question: question.clone(), gateway: "g1".to_owned(), sessions, truncated: true };
    let notices = [
        Notice::Disconnect(user("ana")),
        Notice::Order(Dated { order: Order::Refresh(user("ana")), from_s: 3 }),
        Notice::Order(Dated { order: revoke("ana"), from_s: 1_764_000_000 }),
        Notice::Question(question),
        Notice::Answer(answer),
    ];
    for notice in notices {
        gateways[0].store().tell(notice.clone()).await.expect("it is told");
        for g in &mut gateways {
            g.event_until(|event| matches!(event, Event::Notice(told) if *told == notice)).await;
        }
    }
}

pub(crate) async fn orders_are_remembered_with_the_latest_of_their_dates(world: World) {
    let (one, other) = (world.gateway("g0").await, world.gateway("g1").await);
    let now_s = one.store().now_ms() / 1000;
    let date = one.store().record(vec![(revoke("ana"), None)]).await.expect("it is recorded");
    assert!((now_s..now_s + 60).contains(&date), "{date} is not about {now_s}");
    let later = date + 100;
    let orders = vec![
        (revoke("bo"), Some(later)),
        (Order::Refresh(user("bo")), Some(later + 1)),
        (revoke("ana"), Some(date - 5)),
    ];
    other.store().record(orders).await.expect("they are recorded");
    let all = vec![
        Dated { order: revoke("ana"), from_s: date },
        Dated { order: revoke("bo"), from_s: later },
        Dated { order: Order::Refresh(user("bo")), from_s: later + 1 },
    ];
    let read = async |from_s, skip| one.store().orders(from_s, skip).await.expect("orders");
    assert_eq!(read(0, 0).await, all);
    assert_eq!(read(later, 0).await, all[1..]);
    assert_eq!(read(later, 1).await, all[2..]);
    assert_eq!(read(later + 2, 0).await, []);
}

pub(crate) async fn orders_are_read_in_pages_and_forgotten_when_they_are_old(world: World) {
    let g = world.gateway("g").await;
    let now_s = g.store().now_ms() / 1000;
    let many = (0..ORDERS_LEN_MAX).map(|number| (revoke(&number.to_string()), Some(now_s)));
    g.store().record(many.collect()).await.expect("they are recorded");
    let ages = world.config.orders_kept.as_secs() + 5;
    let more = vec![(revoke("old"), Some(now_s - ages)), (revoke("new"), Some(now_s + 1))];
    g.store().record(more).await.expect("they are recorded");
    g.store().record(Vec::new()).await.expect("nothing is recorded");
    let first = g.store().orders(0, 0).await.expect("orders");
    assert_eq!(first.len(), ORDERS_LEN_MAX);
    assert!(first.iter().all(|dated| dated.from_s == now_s));
    let rest = g.store().orders(now_s, ORDERS_LEN_MAX).await.expect("orders");
    assert_eq!(rest, [Dated { order: revoke("new"), from_s: now_s + 1 }]);
}
