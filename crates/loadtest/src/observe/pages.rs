//! What gateways tell of themselves: their `/metrics`, in the text form of `OpenMetrics`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::Uri;

use super::series::{Growing, Series};
use super::{Answers, Source};
use crate::fetch;
use crate::tls::Tls;

/// What the names begin with, which says nothing here.
const PREFIX: &str = "presence_";

/// What the process takes of its machine.
const RSS: &str = "process_resident_memory_bytes ";
const CPU_SECS: &str = "process_cpu_seconds_total";

/// What only grows has one of these endings. Gauges are left out: what a run did to them is over
/// when it is.
const GROWING: [&str; 3] = ["_total", "_sum", "_count"];

/// The page of one gateway.
struct Page {
    url: Uri,
    counters: BTreeMap<String, Growing>,
    rss: u64,
    answers: Answers,
}

/// The pages of all.
pub(super) struct Pages {
    all: Vec<Page>,
    /// What they take of their machines together.
    pub(super) series: Series,
    tls: Option<Tls>,
}

impl Pages {
    /// `authorities`: whose certificates are trusted (PEM), if not those that this machine trusts.
    pub(super) fn new(urls: &[Uri], authorities: Option<&str>) -> Result<Self> {
        let is_encrypted = urls.iter().any(|url| url.scheme_str() == Some("https"));
        let tls = is_encrypted.then(|| Tls::new(authorities)).transpose()?;
        let page = |url: &Uri| {
            let text = read(url, tls.as_ref()).with_context(|| url.to_string())?;
            let counters = counters(&text).map(|(name, now)| (name, Growing::from(now))).collect();
            let rss = rss(&text).unwrap_or(0);
            Ok(Page { url: url.clone(), counters, rss, answers: Answers::default() })
        };
        let pages = urls.iter().map(page).collect::<Result<Vec<_>>>()?;
        let series = Series::from(pages.iter().map(|page| page.rss).sum());
        Ok(Self { all: pages, series, tls })
    }

    /// Whether all tell what they take of their machines.
    pub(super) fn tell_use(&self) -> bool {
        !self.all.is_empty() && self.all.iter().all(|page| page.rss > 0)
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// How much each counter grew in all gateways together; those that did not are left out.
    pub(super) fn figures(&self) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::new();
        for (name, counter) in self.all.iter().flat_map(|page| &page.counters) {
            if counter.grown() > 0.0 {
                *figures.entry(name.clone()).or_default() += counter.grown();
            }
        }
        figures
    }
}

impl Source for Pages {
    /// A gateway looks through what it has to write its page.
    const EVERY: Duration = Duration::from_secs(10);

    fn look(&mut self, at_s: f64) -> Vec<String> {
        let mut notices = Vec::new();
        let begun = Instant::now();
        for page in &mut self.all {
            // Gateways that hang do not hold up the report; of the rest, what was read last counts.
            if begun.elapsed() > Self::EVERY {
                break;
            }
            let text = read(&page.url, self.tls.as_ref());
            let Some(text) = page.answers.note(&page.url.to_string(), text, &mut notices) else {
                continue;
            };
            for (name, now) in counters(&text) {
                page.counters.entry(name).or_insert_with(|| Growing::from(0.0)).note(now);
            }
            page.rss = rss(&text).unwrap_or(page.rss);
        }
        let cpu_secs = self.all.iter().filter_map(|page| page.counters.get(CPU_SECS));
        let cpu_secs = cpu_secs.map(|cpu_secs| cpu_secs.grown()).sum();
        self.series.note(at_s, self.all.iter().map(|page| page.rss).sum(), cpu_secs);
        notices
    }
}

fn read(url: &Uri, tls: Option<&Tls>) -> Result<String> {
    match (url.scheme_str(), tls) {
        (Some("http"), _) => fetch::get(url, &[]),
        (Some("https"), Some(tls)) => fetch::get_encrypted(url, tls),
        _ => bail!("metrics are at http:// or https://, as in http://127.0.0.1:8080/metrics"),
    }
}

/// Resident bytes, if the page tells.
fn rss(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(RSS)?.trim().parse().ok())
}

/// The counters of a page, by their name and labels.
pub(crate) fn counters(text: &str) -> impl Iterator<Item = (String, f64)> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| {
        // A label may hold a space; a value does not.
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_at(series.find('{').unwrap_or(series.len()));
        let is_growing = GROWING.iter().any(|ending| name.ends_with(ending));
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        is_growing.then_some((format!("{name}{labels}"), value.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const BEFORE: &str = "\
# HELP presence_accepted Accepted TCP connections.
# TYPE presence_accepted counter
presence_accepted_total 5
presence_connections 12
presence_closes_total{reason=\"going away\"} 1
presence_lateness_seconds_sum{cause=\"bye\"} 0.5
presence_lateness_seconds_bucket{le=\"0.005\",cause=\"bye\"} 3
process_resident_memory_bytes 1000
process_cpu_seconds_total 2.5
# EOF
";

    #[test]
    fn counters_are_read_with_their_labels_and_gauges_are_not() {
        let found: BTreeMap<_, _> = counters(BEFORE).collect();
        let wanted = [
            ("accepted_total", 5.0),
            ("closes_total{reason=\"going away\"}", 1.0),
            ("lateness_seconds_sum{cause=\"bye\"}", 0.5),
            ("process_cpu_seconds_total", 2.5),
        ];
        assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn figures_are_the_growth_of_all_pages_together() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Uri =
            format!("http://{}/metrics", listener.local_addr().unwrap()).parse().unwrap();
        let server = thread::spawn(move || {
            // Two pages of one server: the first looks, then the next.
            for (accepted, rss, cpu_secs) in
                [(5, 1_000, 2.5), (7, 2_000, 3.0), (9, 3_000, 4.5), (8, 2_500, 0.5)]
            {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let len = stream.read(&mut request).unwrap();
                assert!(request[..len].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                let page = BEFORE.replace("_total 5", &format!("_total {accepted}"));
                let page = page.replace("bytes 1000", &format!("bytes {rss}"));
                let page = page.replace("_total 2.5", &format!("_total {cpu_secs}"));
                write!(stream, "HTTP/1.0 200 OK\r\n\r\n{page}").unwrap();
            }
        });
        let mut pages = Pages::new(&[url.clone(), url], None).unwrap();
        assert!(pages.look(1.0).is_empty());
        server.join().unwrap();
        let figures = [("accepted_total".to_owned(), 5.0), (CPU_SECS.to_owned(), 2.5)];
        assert_eq!(pages.figures(), figures.into());
        let used = pages.series.footprint(&[]);
        assert_eq!((used.rss_before, used.rss_peak), (3_000, 5_500));
        assert!((used.cpu_secs - 2.5).abs() < 1e-9 && pages.tell_use(), "{used:?}");
        let notices = pages.look(0.0);
        assert!(notices[0].contains("cannot be looked at any more"), "{notices:?}");
        assert!(pages.look(0.0).is_empty(), "it is told once");
    }
}
