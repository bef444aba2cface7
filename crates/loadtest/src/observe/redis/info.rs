//! A server's answer to `INFO`, read field by field. Does not ask.

/// What a server says of itself.
pub(crate) struct Info(String);

impl From<String> for Info {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Info {
    /// A field; nothing where this server has none.
    pub(crate) fn number(&self, field: &str) -> f64 {
        self.text(field).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// How often a command was called, by clients or by scripts; only `INFO all` tells.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let calls = self.text(&format!("cmdstat_{command}")).and_then(|stats| {
            let (calls, _) = stats.strip_prefix("calls=")?.split_once(',')?;
            calls.parse().ok()
        });
        calls.unwrap_or(0)
    }

    pub(crate) fn rss(&self) -> u64 {
        self.number("used_memory_rss") as u64
    }

    pub(crate) fn cpu_secs(&self) -> f64 {
        self.number("used_cpu_sys") + self.number("used_cpu_user")
    }

    fn text(&self, field: &str) -> Option<&str> {
        let mut fields = self.0.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| *name == field).map(|(_, value)| value.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_what_is_missing_counts_nothing() {
        let info = Info::from(
            "# Memory\r\nused_memory:1024\r\nused_memory_human:1.00K\r\n\
             # CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:9.0\r\n\
             # Commandstats\r\ncmdstat_evalsha:calls=7,usec=70,usec_per_call=10.00\r\n"
                .to_owned(),
        );
        assert!((info.number("used_memory") - 1024.0).abs() < 1e-9);
        assert!((info.cpu_secs() - 3.75).abs() < 1e-9);
        assert_eq!((info.calls("evalsha"), info.calls("set"), info.rss()), (7, 0, 0));
    }
}
