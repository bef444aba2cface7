//! Redis as it tells of itself: `INFO`, over a plain connection that is kept open.

pub(crate) mod info;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Uri;

use super::series::{Growing, Series};
use super::{Answers, Source};
use crate::fetch;
use crate::report::names;
use info::Info;

const PORT: u16 = 6379;

/// No answer to INFO is as long; a server that claims so is none.
const ANSWER_LEN_MAX: usize = 1 << 20;

/// What only grows, with its name in reports.
const GROWING: [(&str, &str); 6] = [
    ("total_commands_processed", names::COMMANDS),
    ("total_connections_received", "connections received"),
    ("total_net_input_bytes", "bytes in"),
    ("total_net_output_bytes", "bytes out"),
    ("expired_keys", "expired keys"),
    ("evicted_keys", "evicted keys"),
];

/// What goes up and down, of which the highest is told.
const HIGHEST: [(&str, &str); 3] = [
    ("instantaneous_ops_per_sec", "commands a second, at most"),
    ("used_memory", "bytes of data, at most"),
    ("connected_clients", "clients, at most"),
];

/// One server.
struct Server {
    url: Uri,
    /// None while it is out of reach.
    connection: Option<BufReader<TcpStream>>,
    cpu_secs: Growing,
    growing: BTreeMap<&'static str, Growing>,
    highest: BTreeMap<&'static str, f64>,
    answers: Answers,
}

/// All of them: one, or those of a cluster.
pub(super) struct RedisServers {
    servers: Vec<Server>,
    pub(super) series: Series,
}

impl RedisServers {
    pub(super) fn new(urls: &[Uri]) -> Result<Self> {
        let mut rss = 0;
        let mut servers = Vec::new();
        for url in urls {
            let mut connection = connect(url).with_context(|| named(url))?;
            let info = info(&mut connection).with_context(|| named(url))?;
            rss += info.rss();
            let growing = GROWING.map(|(field, name)| (name, Growing::from(info.number(field))));
            servers.push(Server {
                url: url.clone(),
                connection: Some(connection),
                cpu_secs: Growing::from(info.cpu_secs()),
                growing: growing.into(),
                highest: HIGHEST.map(|(field, name)| (name, info.number(field))).into(),
                answers: Answers::default(),
            });
        }
        Ok(Self { servers, series: Series::from(rss) })
    }

    pub(super) fn count(&self) -> usize {
        self.servers.len()
    }

    /// Sums over all servers. Of what goes up and down, each server's highest is taken.
    pub(super) fn figures(&self) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::new();
        for server in &self.servers {
            let growing = server.growing.iter().map(|(name, growing)| (*name, growing.grown()));
            let highest = server.highest.iter().map(|(name, highest)| (*name, *highest));
            for (name, value) in growing.chain(highest) {
                *figures.entry(name.to_owned()).or_default() += value;
            }
        }
        figures
    }
}

impl Source for RedisServers {
    const EVERY: Duration = Duration::from_secs(1);

    fn look(&mut self, at_s: f64) -> Vec<String> {
        let mut notices = Vec::new();
        let (mut rss, mut cpu_secs) = (0, 0.0);
        for server in &mut self.servers {
            let answer = server.ask();
            if let Some(info) = server.answers.note(&named(&server.url), answer, &mut notices) {
                server.note(&info);
                rss += info.rss();
            }
            cpu_secs += server.cpu_secs.grown();
        }
        if !self.servers.is_empty() {
            self.series.note(at_s, rss, cpu_secs);
        }
        notices
    }
}

impl Server {
    /// After an error the connection is made anew the next time.
    fn ask(&mut self) -> Result<Info> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.url)?,
        };
        let info = info(&mut connection)?;
        self.connection = Some(connection);
        Ok(info)
    }

    fn note(&mut self, info: &Info) {
        self.cpu_secs.note(info.cpu_secs());
        for (field, name) in GROWING {
            if let Some(growing) = self.growing.get_mut(name) {
                growing.note(info.number(field));
            }
        }
        for (field, name) in HIGHEST {
            if let Some(highest) = self.highest.get_mut(name) {
                *highest = highest.max(info.number(field));
            }
        }
    }
}

/// The URL without its password.
fn named(url: &Uri) -> String {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match url.scheme_str() {
        Some(scheme) => format!("{scheme}://{host}"),
        None => host.to_owned(),
    }
}

fn connect(url: &Uri) -> Result<BufReader<TcpStream>> {
    ensure!(
        matches!(url.scheme_str(), Some("redis" | "valkey")),
        "only redis:// is spoken here, without TLS, as in redis://127.0.0.1:6379: name each server \
         of a cluster"
    );
    let mut connection = BufReader::new(fetch::connect(url, PORT)?);
    if let Some((user, password)) = credentials(url) {
        let words: Vec<&str> =
            ["AUTH", user, password].into_iter().filter(|word| !word.is_empty()).collect();
        send(&mut connection, &words)?;
        let answer = read_line(&mut connection)?;
        ensure!(answer.starts_with('+'), "AUTH: {answer}");
    }
    Ok(connection)
}

/// The user, who may be empty, and the password.
fn credentials(url: &Uri) -> Option<(&str, &str)> {
    let (credentials, _) = url.authority()?.as_str().rsplit_once('@')?;
    credentials.split_once(':')
}

fn info(connection: &mut BufReader<TcpStream>) -> Result<Info> {
    send(connection, &["INFO"])?;
    let line = read_line(connection)?;
    let Some(len) = line.strip_prefix('$') else { bail!("INFO: {line}") };
    let len: usize = len.parse().context("INFO")?;
    ensure!(len <= ANSWER_LEN_MAX, "INFO: an answer of {len} bytes");
    let mut text = vec![0; len + "\r\n".len()];
    connection.read_exact(&mut text)?;
    Ok(Info::from(String::from_utf8_lossy(&text).into_owned()))
}

fn send(connection: &mut BufReader<TcpStream>, words: &[&str]) -> Result<()> {
    let words_in_full = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let command: String =
        [format!("*{}\r\n", words.len())].into_iter().chain(words_in_full).collect();
    Ok(connection.get_mut().write_all(command.as_bytes())?)
}

fn read_line(connection: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    ensure!(!line.is_empty(), "the connection was closed");
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use presence_testkit::{RedisServer, eventually};

    use super::*;

    #[tokio::test]
    async fn a_server_that_starts_again_goes_on_being_counted() {
        let mut server = RedisServer::start();
        let mut redis = RedisServers::new(&[server.url().parse().unwrap()]).unwrap();
        server.kill();
        let notices = redis.look(1.0);
        assert!(notices[0].contains("cannot be looked at any more"), "{notices:?}");
        server.restart();
        assert!(redis.look(2.0)[0].contains("answers again"));
        assert_eq!(redis.series.seconds()[0].rss, 0);
        // A server does not know its size before it has looked, some 100 ms after its start.
        let mut at_s = 2.0;
        eventually("its memory counts again", Duration::from_secs(10), async || {
            at_s += 1.0;
            redis.look(at_s);
            redis.series.seconds().last().filter(|second| second.rss > 0).map(drop)
        })
        .await;
    }

    #[test]
    fn a_server_is_named_as_it_was_given_but_for_its_password() {
        let table = [
            ("redis://user:secret@10.0.0.1:7", "redis://10.0.0.1:7"),
            ("redis://10.0.0.1", "redis://10.0.0.1"),
            ("10.0.0.1:6379", "10.0.0.1:6379"),
            ("user:secret@10.0.0.1:7", "10.0.0.1:7"),
        ];
        for (given, name) in table {
            assert_eq!(named(&given.parse().unwrap()), name);
        }
    }

    #[test]
    fn a_password_is_given_and_never_told() {
        let server = RedisServer::start();
        assert_eq!(server.cli(&["CONFIG", "SET", "requirepass", "secret"]), "OK");
        let with = |credentials: &str| -> Uri {
            format!("redis://{credentials}@127.0.0.1:{}", server.port()).parse().unwrap()
        };
        assert!(RedisServers::new(&[with(":secret")]).is_ok());
        assert!(RedisServers::new(&[with("default:secret")]).is_ok());
        let refusal = format!("{:#}", RedisServers::new(&[with(":wrong")]).err().unwrap());
        assert!(refusal.contains("AUTH") && !refusal.contains("wrong"), "{refusal}");
    }
}
