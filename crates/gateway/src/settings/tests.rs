//! Where a setting comes from. No test touches the real environment.

mod access;
mod admission;
mod refusals;
mod secrets;

use std::time::Duration;

use super::{
    Auth, Command, File, KeySources, LogFormat, Settings, SettingsError, Store, WatchPolicy,
    WhenDown,
};

const SECRET: &str = "an hs256 secret of at least 32 bytes";

/// Settings from flags, variables and file, each as one would write them.
fn load(flags: &[&str], env: &[(&str, &str)], file: &str) -> Result<Settings, SettingsError> {
    let args = ["presence-gateway"].iter().chain(flags).copied();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::from_parts(args, env, Some(File { path: "gateway.toml", text: file }))
}

fn dev(flags: &[&str]) -> Result<Settings, SettingsError> {
    load(&[&["--dev"], flags].concat(), &[], "")
}

fn keys(settings: &Settings) -> KeySources {
    match &settings.auth {
        Auth::Jwt { keys, .. } => keys.clone(),
        Auth::None => panic!("there are no keys"),
    }
}

fn secrets(keys: &KeySources) -> Vec<&str> {
    keys.secrets.iter().map(super::Secret::expose).collect()
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let flag: &[&str] = &["--dev", "--grace=1s"];
    let none: &[&str] = &["--dev"];
    let env: &[(&str, &str)] = &[("PRESENCE_GRACE", "2s")];
    let file = "grace = '4s'";
    let table = [
        (flag, env, file, 1),
        (flag, &[], file, 1),
        (none, env, file, 2),
        (none, &[], file, 4),
        (none, &[], "", 3),
    ];
    for (flags, env, file, expected) in table {
        let settings = load(flags, env, file).unwrap();
        assert_eq!(settings.grace, Duration::from_secs(expected), "{flags:?} {env:?} {file:?}");
    }
}

#[test]
fn a_switch_can_be_turned_off_by_whatever_comes_later() {
    let on = [("PRESENCE_DEV", "1")];
    let secret = format!("--jwt-secret={SECRET}");
    assert!(load(&[], &on, "").unwrap().dev);
    assert!(load(&[], &[], "dev = true").unwrap().dev);
    assert!(!load(&[&secret], &[("PRESENCE_DEV", "false")], "dev = true").unwrap().dev);
    assert!(!load(&["--dev=false", &secret], &on, "").unwrap().dev);
}

#[test]
fn every_setting_has_the_documented_default() {
    let settings = load(&["--auth=none"], &[], "").unwrap();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
    assert!(matches!(settings.store, Store::Embedded));
    assert!(matches!(settings.auth, Auth::None));
    assert_eq!(settings.prefix, "presence");
    let seconds = [
        (settings.heartbeat, 10),
        (settings.ttl, 30),
        (settings.grace, 3),
        (settings.last_seen, 30 * 24 * 3600),
        (settings.hello_timeout, 5),
        (settings.write_timeout, 10),
        (settings.drain, 30),
    ];
    for (index, (got, expected)) in seconds.into_iter().enumerate() {
        assert_eq!(got, Duration::from_secs(expected), "duration {index}");
    }
    assert_eq!(settings.max_frame_bytes, 65_536);
    assert_eq!((settings.max_watch, settings.max_connections), (1_000, 100_000));
    assert_eq!((settings.log.as_str(), settings.log_format), ("info", LogFormat::Auto));
    assert!(matches!(settings.watch_policy, WatchPolicy::Open));
    assert_eq!(settings.revocation_kept, Duration::from_hours(24));
    assert!(settings.tls.is_none() && settings.api_keys.is_empty());
    assert!(settings.command.is_none() && !settings.dev);
}

#[test]
fn a_file_may_use_either_dash_and_bare_numbers() {
    let text = "max-watch = 7\nmax_frame_bytes = '1MiB'\nlog-format = 'json'\nauth = 'none'";
    let settings = load(&[], &[], text).unwrap();
    assert_eq!((settings.max_watch, settings.max_frame_bytes), (7, 1 << 20));
    assert_eq!(settings.log_format, LogFormat::Json);
}

#[test]
fn the_example_of_a_file_is_taken() {
    let example = include_str!("../../../../deploy/gateway.toml");
    let settings = load(&[], &[("PRESENCE_JWT_SECRET", SECRET)], example).unwrap();
    assert!(matches!(settings.auth, Auth::Jwt { .. }) && matches!(settings.store, Store::Redis(_)));
    // What is commented out as well.
    let whole = example.replace("\n#jwt", "\njwt");
    assert_ne!(whole, example);
    load(&[], &[("PRESENCE_JWT_SECRET", SECRET)], &whole).unwrap();
}

#[test]
fn a_secret_or_a_url_chooses_what_needs_it() {
    let secret = [("PRESENCE_JWT_SECRET", SECRET)];
    let jwt = load(&[], &secret, "").unwrap();
    assert_eq!(secrets(&keys(&jwt)), [SECRET]);
    assert!(matches!(load(&["--dev"], &secret, "").unwrap().auth, Auth::Jwt { .. }));
    assert!(matches!(dev(&[]).unwrap().auth, Auth::None));
    let redis = dev(&["--redis-url=redis-cluster://a:7000"]).unwrap();
    assert!(matches!(redis.store, Store::Redis(url) if url.expose() == "redis-cluster://a:7000"));
}

#[test]
fn the_backend_is_asked_where_its_url_and_the_policy_say_so() {
    let url = "--watch-callback-url=https://app.example.com/watch?key=hush";
    let secret = "--watch-callback-secret=0123456789abcdef";
    let flags = ["--watch-policy=callback", url, secret];
    let WatchPolicy::Callback(callback) = dev(&flags).unwrap().watch_policy else { panic!() };
    assert_eq!(callback.timeout, Duration::from_secs(2));
    assert_eq!((callback.ttl, callback.cache_len), (Duration::from_mins(1), 500_000));
    assert_eq!((callback.down, callback.secret.expose()), (WhenDown::Refuse, "0123456789abcdef"));
    let more = ["--watch-callback-down=allow", "--watch-callback-ttl=0s"];
    let settings = dev(&[&flags[..], &more].concat()).unwrap();
    let WatchPolicy::Callback(callback) = settings.watch_policy else { panic!() };
    assert_eq!((callback.down, callback.ttl), (WhenDown::Allow, Duration::ZERO));
}

#[test]
fn several_api_keys_have_commas_between_them() {
    let settings = dev(&["--api-key=the first key of 2,the second key of 2"]).unwrap();
    let keys: Vec<_> = settings.api_keys.iter().map(super::Secret::expose).collect();
    assert_eq!(keys, ["the first key of 2", "the second key of 2"]);
}

/// A setting as both tell of it: its group, its flag, its variable, and its default where that is a value.
type Row = (String, String, String, Option<String>);

fn rows_of_help() -> Vec<Row> {
    let command = super::flags::command();
    let rows = command.get_arguments().map(|arg| {
        let default = arg.get_default_values().first();
        (
            arg.get_help_heading().expect("a group").to_owned(),
            format!("--{}", arg.get_long().expect("a long flag")),
            format!("PRESENCE_{}", arg.get_id().as_str().to_uppercase()),
            default.map(|value| value.to_str().expect("UTF-8").to_owned()),
        )
    });
    rows.collect()
}

fn rows_of_readme() -> Vec<Row> {
    const README: &str = include_str!("../../../../README.md");
    let (_, section) = README.split_once("\n## Settings\n").expect("it has the settings");
    let (_, table) = section.split_once("\n| --- |").expect("they are a table");
    let mut group = String::new();
    let mut rows = Vec::new();
    for line in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let code = |at: usize| cells[at].strip_prefix('`')?.strip_suffix('`').map(str::to_owned);
        match (code(1), code(2)) {
            (Some(flag), Some(variable)) => rows.push((group.clone(), flag, variable, code(3))),
            _ => cells[1].trim_matches('*').clone_into(&mut group),
        }
    }
    rows
}

#[test]
fn the_readme_tells_of_the_same_settings_in_the_same_groups_and_order_as_the_help() {
    let (help, mut readme) = (rows_of_help(), rows_of_readme());
    for (at, setting) in help.iter().enumerate() {
        let told = readme.get_mut(at).unwrap_or_else(|| panic!("{setting:?} is missing"));
        // What is no value is told in words.
        if setting.3.is_none() {
            told.3 = None;
        }
        assert_eq!(told, setting);
    }
    assert_eq!(readme.len(), help.len());
}

#[test]
fn help_explains_every_setting_and_works_in_a_broken_environment() {
    let Err(SettingsError::Asked(help)) = load(&["--help"], &[("PRESENCE_TTL", "x")], "?") else {
        panic!("--help must show the help");
    };
    for name in super::flags::names() {
        assert!(
            help.contains(&format!("--{}", name.replace('_', "-"))),
            "{name} is not in:\n{help}"
        );
    }
    assert!(help.contains("Access:") && help.contains("presence-gateway --dev"), "{help}");
    let version = load(&["--version"], &[], "");
    let expected = format!("presence-gateway {}\n", env!("CARGO_PKG_VERSION"));
    assert!(matches!(version, Err(SettingsError::Asked(text)) if text == expected));
}

#[test]
fn a_subcommand_takes_settings_before_and_after_it() {
    let settings = load(&["--prefix=a", "key", "ana", "--prefix=b"], &[], "prefix = 'c'").unwrap();
    assert_eq!(settings.prefix, "b");
    assert!(matches!(settings.command, Some(Command::Key { user }) if user.as_str() == "ana"));
    let secret = format!("--jwt-secret={SECRET}");
    let settings = load(&["token", "ana", &secret, "--expires=5m"], &[], "").unwrap();
    let Some(Command::Token { expires, .. }) = settings.command else { panic!("no token") };
    assert_eq!(expires, Duration::from_mins(5));
}

#[test]
fn development_settings_serve_one_machine_alone() {
    let settings = Settings::dev();
    assert!(settings.dev && settings.listen.ip().is_loopback() && settings.listen.port() == 0);
    assert!(matches!((settings.store, settings.auth), (Store::Embedded, Auth::None)));
}

#[test]
fn the_flag_and_else_the_variable_names_the_file() {
    let env = [("PRESENCE_CONFIG".to_owned(), "/from/env".to_owned())];
    let path = |args: &[&str], env: &[(String, String)]| {
        let args: Vec<_> = args.iter().map(Into::into).collect();
        super::sources::config_path(&args, env).unwrap().map(|path| path.display().to_string())
    };
    assert_eq!(path(&["x", "--config=/from/flag"], &env).as_deref(), Some("/from/flag"));
    assert_eq!(path(&["x"], &env).as_deref(), Some("/from/env"));
    assert_eq!(path(&["x"], &[]), None);
}
