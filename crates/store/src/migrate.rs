//! The numbered steps that make the schema. Both dialects have the same numbers.

use skep_base::{Hash32, hash::sha256};

use crate::error::OpenError;

/// One step. It runs in one transaction, or not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    pub(crate) number: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    pub(crate) fn fingerprint(&self) -> Hash32 {
        sha256(self.sql.as_bytes())
    }
}

macro_rules! migrations {
    ($dialect:literal: $($number:literal $name:literal),+ $(,)?) => {
        &[$(Migration {
            number: $number,
            name: $name,
            sql: include_str!(concat!("../../../migrations/", $dialect, "/", $name, ".sql")),
        }),+]
    };
}

pub(crate) const SQLITE: &[Migration] =
    migrations!("sqlite": 1 "0001_foundation", 2 "0002_settle", 3 "0003_pages");
pub(crate) const POSTGRES: &[Migration] =
    migrations!("postgres": 1 "0001_foundation", 2 "0002_settle", 3 "0003_pages");

/// What is still to be run, given the (number, fingerprint) pairs that were run. An unknown newer
/// step, or one that is not ours, is refused before anything is touched.
pub(crate) fn pending(
    all: &'static [Migration],
    applied: &[(i64, String)],
) -> Result<&'static [Migration], OpenError> {
    let known = all.last().map_or(0, |m| m.number);
    for (index, (number, fingerprint)) in applied.iter().enumerate() {
        let Some(ours) = all.get(index) else {
            return Err(OpenError::NewerSchema { found: *number, known });
        };
        if ours.number != *number || ours.fingerprint().to_string() != *fingerprint {
            let detail = format!("ours is {}", ours.name);
            return Err(OpenError::ForeignSchema { number: *number, detail });
        }
    }
    Ok(&all[applied.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_dialects_have_the_same_numbers() {
        let names = |all: &[Migration]| all.iter().map(|m| (m.number, m.name)).collect::<Vec<_>>();
        assert_eq!(names(SQLITE), names(POSTGRES));
    }

    #[test]
    fn unknown_and_foreign_steps_are_refused() {
        let ours = (1, SQLITE[0].fingerprint().to_string());
        assert_eq!(pending(SQLITE, &[]).unwrap().len(), SQLITE.len());
        assert!(pending(SQLITE, std::slice::from_ref(&ours)).is_ok());
        let mut newer: Vec<_> =
            SQLITE.iter().map(|m| (m.number, m.fingerprint().to_string())).collect();
        newer.push((SQLITE.len() as i64 + 1, "ab".into()));
        assert!(matches!(pending(SQLITE, &newer), Err(OpenError::NewerSchema { .. })));
        let foreign = [(1, "00".to_owned())];
        assert!(matches!(pending(SQLITE, &foreign), Err(OpenError::ForeignSchema { .. })));
    }
}
