//! Users with names, tokens and contacts of their own: a file with a line of JSON for each.
//!
//! `{"user": "ana", "token": "eyJ…", "contacts": ["bo", "cy"]}`; without a token a user signs in as all others do.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::mem;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use presence_protocol::UserId;
use serde::Deserialize;

use crate::scenario::WATCH_MESSAGE_LEN_MAX;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    user: UserId,
    token: Option<String>,
    #[serde(default)]
    contacts: Vec<UserId>,
}

/// All that is kept of whoever is not of the share.
#[derive(Deserialize)]
struct Named {
    user: UserId,
}

impl From<Named> for Person {
    fn from(Named { user }: Named) -> Self {
        Self { user, token: None, contacts: Vec::new() }
    }
}

/// What is wrong with a line, which is not the first of anything.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("{what}; each line is such as {{\"user\": \"ana\"}}")
}

/// Everybody's name, and what else is told of a share of them. Users are numbered as their lines are.
pub(crate) struct People {
    names: Vec<UserId>,
    numbers: HashMap<UserId, u32>,
    share: Range<u32>,
    /// Of the share.
    tokens: Vec<Option<String>>,
    contacts: Vec<Vec<u32>>,
}

impl People {
    /// Reads a file, and of these users the tokens and contacts as well.
    pub(crate) fn read(path: &Path, share: Range<u32>) -> Result<Self> {
        Self::parse(path, share).with_context(|| path.display().to_string())
    }

    fn parse(path: &Path, share: Range<u32>) -> Result<Self> {
        let (mut names, mut numbers) = (Vec::new(), HashMap::new());
        let (mut tokens, mut contacts_of) = (Vec::new(), Vec::new());
        for line in BufReader::new(File::open(path)?).lines() {
            let number = names.len() as u32;
            let place = number + 1;
            let in_line = |error: String| anyhow!("line {place}: {error}");
            let line = line.map_err(|error| in_line(error.to_string()))?;
            let person = if share.contains(&number) {
                serde_json::from_str(&line)
            } else {
                serde_json::from_str::<Named>(&line).map(Person::from)
            };
            let person = person.map_err(|error| in_line(without_line(&error)))?;
            if let Some(before) = numbers.insert(person.user.clone(), number) {
                bail!("line {place}: {} is in line {} already", person.user, before + 1);
            }
            names.push(person.user);
            if share.contains(&number) {
                tokens.push(person.token);
                contacts_of.push(person.contacts);
            }
        }
        ensure!(!names.is_empty(), "nobody is in it: a line of JSON for each user is needed");
        let numbered = (share.start..).zip(&contacts_of);
        let contacts = numbered
            .map(|(user, contacts)| {
                known(&numbers, user, contacts).with_context(|| format!("line {}", user + 1))
            })
            .collect::<Result<_>>()?;
        Ok(Self { names, numbers, share, tokens, contacts })
    }

    pub(crate) fn count(&self) -> u32 {
        self.names.len() as u32
    }

    pub(crate) fn name(&self, user: u32) -> &UserId {
        &self.names[user as usize]
    }

    /// The inverse of [`People::name`]; none for somebody else's user.
    pub(crate) fn user_of(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Of a user of the share.
    pub(crate) fn token(&self, user: u32) -> Option<&str> {
        self.tokens[(user - self.share.start) as usize].as_deref()
    }

    /// Whether any of the share has one of its own.
    pub(crate) fn have_tokens(&self) -> bool {
        self.tokens.iter().any(Option::is_some)
    }

    /// The most contacts that any of the share has.
    pub(crate) fn contacts_max(&self) -> u32 {
        self.contacts.iter().map(Vec::len).max().unwrap_or(0) as u32
    }

    /// The contacts of the share, user by user: distinct others, sorted. They are here no more.
    pub(crate) fn take_contacts(&mut self) -> Vec<Vec<u32>> {
        mem::take(&mut self.contacts)
    }

    /// The length of the longest name, in bytes.
    pub(crate) fn name_len_max(&self) -> usize {
        self.names.iter().map(|name| name.as_str().len()).max().unwrap_or(0)
    }
}

/// The numbers of a user's contacts.
fn known(numbers: &HashMap<UserId, u32>, user: u32, contacts: &[UserId]) -> Result<Vec<u32>> {
    let len: usize = contacts.iter().map(|contact| contact.as_str().len() + 3).sum();
    ensure!(
        len <= WATCH_MESSAGE_LEN_MAX,
        "contacts: their ids take {len} bytes, and one message holds {WATCH_MESSAGE_LEN_MAX}"
    );
    let number_of = |contact: &UserId| {
        let number = numbers.get(contact).copied();
        let number = number.with_context(|| format!("contacts: {contact} has no line"))?;
        ensure!(number != user, "contacts: {contact} is the user itself");
        Ok(number)
    };
    let mut found = contacts.iter().map(number_of).collect::<Result<Vec<_>>>()?;
    found.sort_unstable();
    found.dedup();
    ensure!(found.len() == contacts.len(), "contacts: somebody is named twice");
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(text: &str, share: Range<u32>) -> Result<People> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        People::read(file.path(), share)
    }

    #[test]
    fn names_are_known_of_all_and_the_rest_of_a_share() {
        let text = r#"{"user": "ana"}
{"user": "bo", "token": "t.o.k", "contacts": ["cy", "ana"]}
{"user": "cy"}
"#;
        let mut people = read(text, 1..3).unwrap();
        assert_eq!((people.count(), people.name(0).as_str()), (3, "ana"));
        assert_eq!([people.user_of("cy"), people.user_of("load-1")], [Some(2), None]);
        assert_eq!([people.token(1), people.token(2)], [Some("t.o.k"), None]);
        assert!(people.have_tokens() && people.contacts_max() == 2);
        assert_eq!(people.take_contacts(), [vec![0, 2], vec![]]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let table = [
            ("", "nobody is in it"),
            ("ana\n", "line 1"),
            ("{\"user\": \"ana\"}\n{\"user\": \"\"}", "line 2: a user id is 1 to 128 bytes"),
            ("{\"user\": \"ana\", \"friends\": []}", "unknown field `friends`"),
            ("{\"user\": \"ana\"}\n{\"user\": \"ana\"}", "line 2: ana is in line 1 already"),
            ("{\"user\": \"ana\", \"contacts\": [\"bo\"]}", "line 1: contacts: bo has no line"),
            ("{\"user\": \"ana\", \"contacts\": [\"ana\"]}", "the user itself"),
            (
                "{\"user\": \"ana\", \"contacts\": [\"bo\", \"bo\"]}\n{\"user\": \"bo\"}",
                "somebody is named twice",
            ),
        ];
        for (text, named) in table {
            let refusal = format!("{:#}", read(text, 0..u32::MAX).err().unwrap());
            assert!(refusal.contains(named), "{text}: {refusal}");
        }
    }
}
