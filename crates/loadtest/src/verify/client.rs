//! One session of a simulated user: a socket in a task of its own, which heartbeats, writes down
//! what it hears, and does what it is ordered to. It never reconnects by itself.

mod life;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use presence_protocol::{ClientMessage, Device, Format, GatewayMessage, Hello, Show};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::dial::{Socket, frame, read, upgrade};
use crate::failure::Failure;
use crate::verify::client::life::Life;
use crate::verify::record::{Ending, Facts, Moment, Place, Told, User};
use crate::verify::world::{Record, World, user_id};

/// How long a sign-in may take before the client gives up.
const SIGN_IN_LIMIT: Duration = Duration::from_secs(5);

/// What a session is told to do.
#[derive(Debug)]
pub(crate) enum Order {
    Drop,
    Bye,
    Freeze,
    Stall(Duration),
    Status(Show, String),
    Watch(Vec<User>),
    Unwatch(Vec<User>),
}

/// A session that was signed in. Dropping it closes the socket, but writes nothing down.
pub(crate) struct Session {
    pub(crate) record: Arc<Record>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Session {
    pub(crate) fn order(&self, order: Order) {
        // A session that is over does nothing any more.
        let _ = self.orders.send(order);
    }

    pub(crate) fn is_living(&self) -> bool {
        self.record.facts.lock().is_living()
    }
}

/// Signs a user in at a gateway; none when the gateway does not let it in.
pub(crate) async fn sign_in(
    world: &Arc<World>,
    user: User,
    place: Place,
    device: Option<&'static str>,
) -> Option<Session> {
    let opened = timeout(SIGN_IN_LIMIT, upgrade(world.route(place))).await;
    let mut socket = match opened.unwrap_or(Err(Failure::TimedOut)) {
        Ok(socket) => socket,
        Err(failure) => {
            world.refusals.add(format!("sign-in: {failure}"));
            return None;
        }
    };
    let record = Arc::new(Record {
        facts: Mutex::new(Facts::new(user, place, device, world.now())),
        told: Mutex::new(Told::default()),
    });
    world.records.lock().push(record.clone());
    let welcomed = timeout(SIGN_IN_LIMIT, say_hello(&mut socket, user, device)).await;
    let now = world.now();
    let ending = match welcomed {
        Ok(Ok(())) => {
            record.facts.lock().welcome = Some(now);
            world.living.fetch_add(1, Ordering::Relaxed);
            let (orders, ordered) = mpsc::unbounded_channel();
            let life = Life { world: world.clone(), record: record.clone(), socket, ordered };
            tokio::spawn(life.live());
            return Some(Session { record, orders });
        }
        Ok(Err(failure)) => {
            world.refusals.add(format!("sign-in: {failure}"));
            cut(&failure)
        }
        Err(_) => {
            world.refusals.add("sign-in: no welcome in time".to_owned());
            Ending::Closed
        }
    };
    drop(socket);
    let mut facts = record.facts.lock();
    facts.end = Some((Moment { after: now, by: world.now() }, ending));
    None
}

async fn say_hello(
    socket: &mut Socket,
    user: User,
    device: Option<&'static str>,
) -> Result<(), Failure> {
    let device = device.map(|label| Device::new(label).expect("the labels are valid"));
    let hello = Hello { user: Some(user_id(user)), device, ..Hello::default() };
    socket.send(frame(Format::MsgPack, &ClientMessage::Hello(hello))).await?;
    loop {
        let frame = socket.next().await.ok_or(Failure::Ended)??;
        if let Some(GatewayMessage::Welcome(_)) = read(Format::MsgPack, frame)? {
            return Ok(());
        }
    }
}

fn cut(failure: &Failure) -> Ending {
    match failure {
        Failure::Closed(code) => Ending::Cut(*code),
        _ => Ending::Cut(None),
    }
}
