//! Scenarios as TOML files, read with a sentence for whatever is wrong.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::scenario::Scenario;

impl Scenario {
    /// Reads a file; what its numbers mean together is not checked yet.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("reading {file}"))?;
        let mut scenario = Self::parse(&text).with_context(|| file.to_string())?;
        if scenario.name.is_empty() {
            let stem = path.file_stem().unwrap_or_default();
            scenario.name = stem.to_string_lossy().into_owned();
        }
        if let (Some(people), Some(folder)) = (&mut scenario.people, path.parent()) {
            *people = folder.join(&*people);
        }
        Ok(scenario)
    }

    fn parse(text: &str) -> Result<Self> {
        let toml = toml::Deserializer::parse(text);
        let toml = toml.map_err(|error| anyhow!("{}", error.message()))?;
        serde_path_to_error::deserialize(toml).map_err(|error| {
            let what = error.inner().message().trim();
            match error.path().to_string().as_str() {
                // The file as a whole.
                "." => anyhow!("{what}"),
                key => anyhow!("{key}: {what}"),
            }
        })
    }

    /// The file that makes the same run again.
    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("names, numbers and texts can all be written as TOML")
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Beat, Phase};

    use super::*;

    const WHOLE: &str = r#"
        name = "morning"
        users = 1_000_000
        devices = 2
        seed = 7
        user_prefix = "m"
        format = "json"
        [heartbeat]
        kind = "pong"
        interval = "30s"
        [contacts]
        model = "power_law"
        mean = 40.0
        max = 2000
        exponent = 2.2
        [[phases]]
        kind = "ramp"
        rate = "3000/s"
        [[phases]]
        kind = "hold"
        duration = "10m"
        [[phases]]
        kind = "churn"
        duration = "1m"
        rate = "100/s"
        gap = "1s..20s"
        [[phases]]
        kind = "storm"
        share = 0.5
        within = "5s"
        duration = "1m"
        [[phases]]
        kind = "silent"
        count = 1000
        within = "10s"
        duration = "1m"
        [[phases]]
        kind = "flaky"
        rate = "5/s"
        freeze = "1s..40s"
        duration = "1m"
        [[phases]]
        kind = "sign_out"
        rate = "0.5/s"
        gap = "5s..1m"
        duration = "1m"
    "#;

    #[test]
    fn every_kind_of_phase_reads_and_what_is_written_reads_back() {
        let scenario = Scenario::parse(WHOLE).unwrap();
        assert_eq!(scenario.heartbeat.kind, Beat::Pong);
        let kinds: Vec<_> = scenario.phases.iter().map(Phase::name).collect();
        assert_eq!(kinds, ["ramp", "hold", "churn", "storm", "silent", "flaky", "sign_out"]);
        assert_eq!(Scenario::parse(&scenario.to_toml()).unwrap(), scenario);
        let bytes = rmp_serde::to_vec_named(&scenario).unwrap();
        assert_eq!(rmp_serde::from_slice::<Scenario>(&bytes).unwrap(), scenario);
    }

    #[test]
    fn the_scenarios_beside_this_crate_can_be_done() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let scenario = Scenario::read(&entry.unwrap().path()).unwrap();
            scenario.check().unwrap();
            names.push(scenario.name);
        }
        names.sort_unstable();
        assert_eq!(names, ["ease", "million", "morning", "popular", "restart", "storm"]);
    }

    #[test]
    fn a_bad_file_is_told_in_a_sentence_that_names_the_place() {
        let table = [
            ("users = 5", "missing field `phases`"),
            ("users = \"many\"\nphases = []", "users"),
            ("user = 5\nphases = []", "user"),
            ("users = 5\nphases = [{kind = \"jump\"}]", "`jump`"),
            ("users = 5\nphases = [{kind = \"ramp\", rate = \"3000\", x = 1}]", "`x`"),
            ("users = 5\nphases = [{kind = \"ramp\", rate = \"fast\"}]", "such as 2000/s"),
            ("users = 5\nphases = [\n{kind = \"hold\", duration = \"long\"}]", "phases[0]"),
            ("users = 5\nheartbeat = {kind = \"ping\", interval = \"soon\"}", "heartbeat"),
            ("users 5", "expected"),
        ];
        for (text, named) in table {
            let refusal = format!("{:#}", Scenario::parse(text).unwrap_err());
            assert!(refusal.contains(named) && !refusal.contains('\n'), "{text}: {refusal}");
            assert!(!refusal.starts_with('.'), "{text}: {refusal}");
        }
    }
}
