//! A way to a server on loopback that a test can make slow, cut or make deaf: a TCP proxy.
//!
//! It knows no protocol, and never lets bytes arrive in another order.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

const CHUNK_LEN: usize = 16 * 1024;

/// A TCP proxy that misbehaves as it is told. Dropping it closes all its connections.
pub struct FaultyLink {
    port: u16,
    weather: Arc<watch::Sender<Weather>>,
}

/// What happens to bytes and connections now.
#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    delay: Duration,
    jitter: Duration,
    deaf: bool,
    /// How often the link was made deaf: connections from before never work again.
    deafened: u32,
    /// The connection that is forgotten, by its number.
    forgotten: Option<usize>,
    /// How often connections were reset.
    resets: u32,
    /// A connection is reset as soon as a client says this.
    taboo: Option<&'static str>,
    /// How often that was so.
    taboos_broken: u32,
}

impl FaultyLink {
    /// A way to this port of loopback, at first a good one.
    pub fn to(server: u16) -> Self {
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let changing = Arc::downgrade(&weather);
        let forecast = weather.subscribe();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        // On a thread of its own, so that the test's work delays nothing.
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let listen = async {
                listen(TcpListener::from_std(listener)?, server, forecast, changing).await
            };
            runtime.expect("a runtime").block_on(listen)
        });
        Self { port, weather }
    }

    /// The port on 127.0.0.1 that leads to the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a Redis behind it.
    pub fn redis_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on every byte takes so long, in each direction, and up to `jitter` longer.
    pub fn delay(&self, delay: Duration, jitter: Duration) {
        self.weather.send_modify(|weather| (weather.delay, weather.jitter) = (delay, jitter));
    }

    /// Swallows everything from now on. Connections stay open, new ones are accepted, and nobody is told: half-open.
    pub fn deafen(&self) {
        self.weather.send_modify(|weather| {
            weather.deaf = true;
            weather.deafened += 1;
        });
    }

    /// Lets new connections through again. Those that the link was deaf to are lost, and nobody is told.
    pub fn hear(&self) {
        self.weather.send_modify(|weather| weather.deaf = false);
    }

    /// Swallows whatever comes over one connection, the first ever being 0, while all others work: as when a firewall has
    /// forgotten it. Another one that was forgotten before is remembered again, without what it lost.
    pub fn forget(&self, connection: usize) {
        self.weather.send_modify(|weather| weather.forgotten = Some(connection));
    }

    /// From now on, whoever says this is hung up on, with a reset towards both sides; nobody when there is nothing.
    pub fn hang_up_on(&self, taboo: Option<&'static str>) {
        self.weather.send_modify(|weather| weather.taboo = taboo);
    }

    /// How often that was done.
    pub fn hung_up(&self) -> u32 {
        self.weather.borrow().taboos_broken
    }

    /// Ends all connections at once, with a reset towards both sides.
    pub fn reset(&self) {
        self.weather.send_modify(|weather| weather.resets += 1);
    }
}

async fn listen(
    listener: TcpListener,
    server: u16,
    mut forecast: watch::Receiver<Weather>,
    changing: Weak<watch::Sender<Weather>>,
) -> io::Result<()> {
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                drop(tokio::spawn(join(accepted?.0, number, server, forecast.clone(), changing.clone())));
                number += 1;
            }
            changed = forecast.changed() => if changed.is_err() {
                return Ok(());
            },
        }
    }
}

async fn join(
    client: TcpStream,
    number: usize,
    server: u16,
    mut forecast: watch::Receiver<Weather>,
    changing: Weak<watch::Sender<Weather>>,
) -> io::Result<()> {
    let born = *forecast.borrow_and_update();
    let server = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, server))).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        // Whatever ends it, both sides see a reset: no test needs a link that closes in good order.
        stream.set_zero_linger()?;
    }
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let is_deaf =
        |now: &Weather| born.deaf || now.deafened != born.deafened || now.forgotten == Some(number);
    let (broken, mut taboo_broken) = mpsc::channel(1);
    let listens = |now: &Weather, said: &[u8]| {
        let says = |taboo: &str| said.windows(taboo.len()).any(|part| part == taboo.as_bytes());
        if now.taboo.is_some_and(says) {
            let _ = broken.try_send(());
        }
    };
    let pumps = async {
        tokio::join!(
            pump(from_client, to_server, is_deaf, listens, forecast.clone()),
            pump(from_server, to_client, is_deaf, |_, _| {}, forecast.clone()),
        )
    };
    let mut changes = forecast.clone();
    let reset = changes.wait_for(|weather| weather.resets != born.resets);
    tokio::select! {
        _ = pumps => {}
        _ = reset => {}
        Some(()) = taboo_broken.recv() => if let Some(weather) = changing.upgrade() {
            weather.send_modify(|weather| weather.taboos_broken += 1);
        },
    }
    Ok(())
}

/// Hands bytes on, each after its delay.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_deaf: impl Fn(&Weather) -> bool,
    listens: impl Fn(&Weather, &[u8]),
    forecast: watch::Receiver<Weather>,
) {
    let (queue, mut queued) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut due = Instant::now();
        loop {
            let mut chunk = vec![0; CHUNK_LEN];
            let len = from.read(&mut chunk).await.unwrap_or(0);
            let weather = *forecast.borrow();
            listens(&weather, &chunk[..len]);
            match (len, is_deaf(&weather)) {
                (0, false) => return,
                // The other side never learns of the end.
                (0, true) => pending().await,
                (_, true) => continue,
                (_, false) => chunk.truncate(len),
            }
            due = due.max(Instant::now() + weather.delay + weather.jitter.mul_f64(fastrand::f64()));
            let _ = queue.send((due, chunk));
        }
    };
    let write = async move {
        while let Some((due, chunk)) = queued.recv().await {
            sleep_until(due).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
