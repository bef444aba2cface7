//! Log lines on stderr, for eyes or as JSON; stdout stays free for what a subcommand prints.

use std::io::{IsTerminal, Write, stderr};

use serde::{Serialize, Serializer};
use thiserror::Error;
use tracing::{Level, enabled, info};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::{LogFormat, Settings};

/// With the time before it, a line of settings still fits a wide terminal.
const LINE_LEN_MAX: usize = 100;

/// Why nothing would be logged.
#[derive(Debug, Error)]
pub enum LogsError {
    /// The filter is not one.
    #[error("log: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Something else in this process logs already.
    #[error("logs were set up twice: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// The log of this process.
#[derive(Debug)]
pub struct Logs {
    shape: Shape,
}

/// How lines look.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    Coloured,
    Json,
}

/// The line of the start, with the settings as an object, which no field of a `tracing` event can be.
#[derive(Serialize)]
struct Started<'a> {
    timestamp: String,
    level: &'a str,
    message: &'a str,
    #[serde(serialize_with = "as_object")]
    settings: &'a [(&'static str, String)],
    target: &'a str,
}

/// Starts logging for the whole process; call once, before the first log line.
pub fn start(settings: &Settings) -> Result<Logs, LogsError> {
    let filter = EnvFilter::builder().parse(&settings.log)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    let shape = shape(settings.log_format, stderr().is_terminal());
    match shape {
        Shape::Plain => lines.with_ansi(false).finish().try_init()?,
        Shape::Coloured => lines.with_ansi(true).finish().try_init()?,
        // Fields stand beside the message, where log stores look for them.
        Shape::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(Logs { shape })
}

impl Logs {
    /// Tells what the gateway was started with: in one object, or in lines that a terminal has room for.
    pub fn tell_start(&self, settings: &[(&'static str, String)]) {
        if self.shape != Shape::Json {
            for line in lines(settings) {
                info!("started with {line}");
            }
        } else if enabled!(Level::INFO) {
            // Where stderr is closed, there is nobody to tell.
            let _ = stderr().write_all(json_line(settings).as_bytes());
        }
    }
}

fn json_line(settings: &[(&'static str, String)]) -> String {
    let mut timestamp = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let level = Level::INFO.as_str();
    let started =
        Started { timestamp, level, message: "started", settings, target: module_path!() };
    serde_json::to_string(&started).expect("texts always serialise") + "\n"
}

fn as_object<S: Serializer>(
    settings: &&[(&'static str, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(settings.iter().map(|(name, value)| (name, value)))
}

/// Settings side by side, as many as fit on a line.
fn lines(settings: &[(&str, String)]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in settings {
        let setting = format!("{name}={value:?}");
        match lines.last_mut() {
            Some(line) if line.len() + 1 + setting.len() <= LINE_LEN_MAX => {
                line.push(' ');
                line.push_str(&setting);
            }
            _ => lines.push(setting),
        }
    }
    lines
}

fn shape(format: LogFormat, terminal: bool) -> Shape {
    match (format, terminal) {
        (LogFormat::Json, _) | (LogFormat::Auto, false) => Shape::Json,
        (LogFormat::Human | LogFormat::Auto, true) => Shape::Coloured,
        (LogFormat::Human, false) => Shape::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_for_eyes_on_a_terminal_and_json_elsewhere_unless_told() {
        let table = [
            (LogFormat::Auto, true, Shape::Coloured),
            (LogFormat::Auto, false, Shape::Json),
            (LogFormat::Human, true, Shape::Coloured),
            (LogFormat::Human, false, Shape::Plain),
            (LogFormat::Json, true, Shape::Json),
            (LogFormat::Json, false, Shape::Json),
        ];
        for (format, terminal, expected) in table {
            assert_eq!(shape(format, terminal), expected, "{format:?}, terminal: {terminal}");
        }
    }
}
