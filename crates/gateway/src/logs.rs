//! Log lines on stderr, for eyes or as JSON; stdout stays free for what a subcommand prints.

use std::io::{IsTerminal, stderr};

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::{LogFormat, Settings};

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

/// Starts logging for the whole process; call once, before the first log line.
pub fn start(settings: &Settings) -> Result<(), LogsError> {
    let filter = EnvFilter::builder().parse(&settings.log)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match shape(settings.log_format, stderr().is_terminal()) {
        Shape::Plain => lines.with_ansi(false).finish().try_init()?,
        Shape::Coloured => lines.with_ansi(true).finish().try_init()?,
        // Fields stand beside the message, where log stores look for them.
        Shape::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    Coloured,
    Json,
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
