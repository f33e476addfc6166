//! The thirty cases, the extra family, probes, random inputs, and case files of users.
//!
//! Case files are TOML: one `[[case]]` table each, with `name`, `why`, `script` and the keys of the id grammar
//! (see [`crate::id`]). `hq`, `hk` and `d` are required; every other key has the default that ids omit.
//! `scales = "head/token"` gives the granularities of K and V.

mod read;

use std::collections::BTreeMap;

use crate::case::{Case, Family};

/// Why a case file cannot be read; printed as `file:line: case NAME: FIELD: reason`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{}{reason}", prefix("case ", case.as_deref()), prefix("", field.as_deref()))]
pub struct CatalogueError {
    /// Name of the file, as given.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// Name of the case, if it is known.
    pub case: Option<String>,
    /// The key, if one is at fault.
    pub field: Option<String>,
    /// What is wrong.
    pub reason: String,
}

fn prefix(label: &str, value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| format!("{label}{value}: "))
}

/// The thirty decode cases, in their fixed order.
pub fn thirty() -> Vec<Case> {
    embedded(include_str!("catalogue/thirty.toml"), "thirty.toml", Family::Decode)
}

/// The extra family: what the thirty do not exercise.
pub fn extra() -> Vec<Case> {
    embedded(include_str!("catalogue/extra.toml"), "extra.toml", Family::Extra)
}

/// The probes: inputs whose outputs spell what was read, 16 to 65,536 keys, and inputs that stress a kernel.
pub fn probes() -> Vec<Case> {
    embedded(include_str!("catalogue/probe.toml"), "probe.toml", Family::Probe)
}

/// Random inputs of plain profiles, 16 to 8,192 keys.
pub fn random() -> Vec<Case> {
    embedded(include_str!("catalogue/random.toml"), "random.toml", Family::Random)
}

fn embedded(text: &str, file: &str, family: Family) -> Vec<Case> {
    from_toml(text, file, family).expect("the text is fixed when the crate is built, and a test reads it")
}

/// Reads a case file. `file` is only named in errors.
///
/// # Errors
/// TOML that does not parse, unknown or missing keys, values outside their limits, script lines that are
/// no operations, names used twice, and a file without cases.
pub fn from_toml(text: &str, file: &str, family: Family) -> Result<Vec<Case>, CatalogueError> {
    let document = read::Document { text, file };
    let mut lines_of_names: BTreeMap<String, usize> = BTreeMap::new();
    let mut cases = Vec::new();
    document.each_case(|line, reader| {
        let case = reader.case(family)?;
        if let Some(first) = lines_of_names.insert(case.name.clone(), line) {
            return Err(reader.error("name", &format!("used already by the case at line {first}")));
        }
        cases.push(case);
        Ok(())
    })?;
    Ok(cases)
}

#[cfg(test)]
mod tests;
