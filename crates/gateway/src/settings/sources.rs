//! Turns the file and the environment into flags, and parses all three at once.
//!
//! Each value from the file or the environment is parsed alone first, so that an error names the
//! key or the variable it came from, even where a flag would have won.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::flags::{self, Flags};
use super::{File, SettingsError, values};

const PROGRAM: &str = "presence-gateway";
const ENV_PREFIX: &str = "PRESENCE_";

/// One setting's value, and what to call it when it is wrong.
struct Given {
    name: String,
    value: String,
    origin: String,
}

/// Parses flags over variables over the file.
pub(super) fn merge(
    args: &[OsString],
    env: impl IntoIterator<Item = (String, String)>,
    file: Option<File>,
) -> Result<Flags, SettingsError> {
    // Alone first: help shows the built-in defaults, and works whatever the environment says.
    parse(args)?;
    let mut given = file.map_or_else(|| Ok(Vec::new()), from_file)?;
    given.extend(from_environment(env)?);
    // The later one of two wins: the environment's over the file's.
    let mut before = BTreeMap::new();
    for one in given {
        let flag = format!("--{}={}", one.name.replace('_', "-"), one.value);
        parse(&[PROGRAM.into(), OsString::from(&flag)])
            .map_err(|error| SettingsError::Invalid(name_origin(&one.origin, &error)))?;
        before.insert(one.name, OsString::from(flag));
    }
    let program = args.first().cloned().unwrap_or_else(|| PROGRAM.into());
    let rest = args.iter().skip(1).cloned();
    let all: Vec<_> = [program].into_iter().chain(before.into_values()).chain(rest).collect();
    parse(&all)
}

/// The process's `PRESENCE_…` variables.
pub(super) fn environment() -> Result<Vec<(String, String)>, SettingsError> {
    let ours = |name: &OsString| name.to_string_lossy().starts_with(ENV_PREFIX);
    let utf8 = |(name, value): (OsString, OsString)| {
        let name = name.to_string_lossy().into_owned();
        match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(SettingsError::Invalid(format!("{name}: its value is not UTF-8"))),
        }
    };
    std::env::vars_os().filter(|(name, _)| ours(name)).map(utf8).collect()
}

/// The file that `--config` names, or else `PRESENCE_CONFIG`.
pub(super) fn config_path(
    args: &[OsString],
    env: &[(String, String)],
) -> Result<Option<PathBuf>, SettingsError> {
    let from_env = || env.iter().find(|(name, _)| name == "PRESENCE_CONFIG");
    let flags = parse(args)?;
    Ok(flags.config.or_else(|| from_env().map(|(_, path)| PathBuf::from(path))))
}

/// What the file says.
pub(super) fn read(path: &Path) -> Result<String, SettingsError> {
    std::fs::read_to_string(path).map_err(|error| {
        SettingsError::Invalid(format!("cannot read the settings in {}: {error}", path.display()))
    })
}

fn parse(args: &[OsString]) -> Result<Flags, SettingsError> {
    let parsed = flags::command().try_get_matches_from(args);
    parsed.and_then(|matches| Flags::from_arg_matches(&matches)).map_err(|error| {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                SettingsError::Asked(error.render().to_string())
            }
            ErrorKind::InvalidSubcommand => {
                SettingsError::Invalid(format!("{}; {}", one_line(&error), no_word(&error)))
            }
            _ => SettingsError::Invalid(one_line(&error)),
        }
    })
}

fn from_file(file: File) -> Result<Vec<Given>, SettingsError> {
    let invalid = |what: String| SettingsError::Invalid(format!("{}{what}", file.path));
    let table: toml::Table = toml::from_str(file.text).map_err(|error: toml::de::Error| {
        let before = error.span().map_or("", |span| &file.text[..span.start]);
        let line = before.matches('\n').count() + 1;
        invalid(format!(", line {line}: {}", error.message().replace('\n', "; ")))
    })?;
    let mut seen = BTreeMap::new();
    for (key, value) in table {
        let name = known(&key.replace('-', "_"), str::to_owned)
            .map_err(|close| invalid(format!(": unknown setting '{key}'{close}")))?;
        let value = plain(value).ok_or_else(|| {
            invalid(format!(": '{key}' must be a text, a whole number, true or false"))
        })?;
        let origin = format!("{}: '{key}'", file.path);
        let given = Given { name: name.clone(), value, origin };
        if seen.insert(name, given).is_some() {
            return Err(invalid(format!(": '{key}' is given twice, with '_' and with '-'")));
        }
    }
    Ok(seen.into_values().collect())
}

fn plain(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn from_environment(
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Given>, SettingsError> {
    let variable = |name: &str| format!("{ENV_PREFIX}{}", name.to_uppercase());
    let mut given = Vec::new();
    for (origin, value) in env {
        let Some(rest) = origin.strip_prefix(ENV_PREFIX) else { continue };
        if is_service_link(rest, &value) {
            continue;
        }
        let name = known(&origin, variable).map_err(|close| {
            SettingsError::Invalid(format!("{origin}: unknown variable{close}"))
        })?;
        given.push(Given { name, value, origin });
    }
    given.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(given)
}

/// Whether Kubernetes set this variable for a Service called `presence` or `presence-…`.
///
/// For each Service it sets `X_SERVICE_HOST`, `X_SERVICE_PORT`, `X_SERVICE_PORT_<NAME>`, `X_PORT`
/// and `X_PORT_<N>_<PROTOCOL>`, the last also with `_PROTO`, `_PORT` and `_ADDR`. `X_PORT` always
/// holds a URL, which tells it from somebody's wish to set the port.
fn is_service_link(rest: &str, value: &str) -> bool {
    let rest = format!("_{rest}");
    let tail_of = |mark: &str| rest.rfind(mark).map(|at| &rest[at + mark.len()..]);
    if rest.ends_with("_SERVICE_HOST") || rest.ends_with("_SERVICE_PORT") {
        return true;
    }
    if tail_of("_SERVICE_PORT_").is_some_and(|name| !name.is_empty()) {
        return true;
    }
    if rest.ends_with("_PORT")
        && ["tcp://", "udp://", "sctp://"].iter().any(|p| value.starts_with(p))
    {
        return true;
    }
    let numbered = rest.match_indices("_PORT_").map(|(at, mark)| &rest[at + mark.len()..]);
    numbered.into_iter().any(|tail| {
        let mut parts = tail.split('_');
        let number = parts.next().is_some_and(|n| n.parse::<u16>().is_ok());
        let protocol = matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"));
        let last = matches!(parts.next(), None | Some("PROTO" | "PORT" | "ADDR"));
        number && protocol && last && parts.next().is_none()
    })
}

/// The setting that is spelled like this, or a did-you-mean for the one that is closest.
fn known(spelled: &str, spell: impl Fn(&str) -> String) -> Result<String, String> {
    /// The same bar that clap sets for flags.
    const CLOSE: f64 = 0.7;
    let names = flags::names();
    if let Some(name) = names.iter().find(|name| spell(name) == spelled) {
        return Ok(name.clone());
    }
    let wanted = spelled.strip_prefix(ENV_PREFIX).unwrap_or(spelled).to_lowercase();
    let closeness = |name: &String| strsim::jaro(&wanted, name);
    let closest = names.iter().max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
    Err(match closest.filter(|name| closeness(name) > CLOSE) {
        Some(name) => format!("; did you mean {}?", spell(name)),
        None => "; --help lists them all".to_owned(),
    })
}

/// What would be right where a word stands that is neither a flag nor a subcommand.
fn no_word(error: &clap::Error) -> &'static str {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word,
        _ => "",
    };
    if values::truth(word).is_ok() {
        "a switch takes its value after '=', as in --dev=false"
    } else {
        "to serve, give flags and no word, as in presence-gateway --dev"
    }
}

fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim);
    let telling = lines.filter(|line| {
        !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let line = telling.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).replace(" tip: ", "; tip: ")
}

/// Says the key or the variable where clap would say the flag.
fn name_origin(origin: &str, error: &SettingsError) -> String {
    let line = error.to_string();
    let parts = line.split_once(" for '--").and_then(|(what, rest)| {
        rest.split_once('\'').map(|(_, why)| format!("{origin}: {what}{why}"))
    });
    parts.unwrap_or_else(|| format!("{origin}: {line}"))
}
