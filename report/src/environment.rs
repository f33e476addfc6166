//! What a reader needs to know of where rows come from: adapters, versions, seeds, precision models, limits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::evidence::WORD;
use crate::format::{clean, grouped};
use crate::model::Row;
use crate::summary::{MOST_TARGETS, Summary};
use crate::target::place;

/// Most values listed for one fact.
const MOST: usize = 8;

/// Labelled facts, in the order in which a report shows them.
pub(crate) fn facts(summary: &Summary<'_>) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for target in summary.targets.iter().take(MOST_TARGETS) {
        let mut value = place(target.kernel, target.adapter);
        if !target.adapter.backend.is_empty() {
            let _ = write!(value, ", backend {}", clean(&target.adapter.backend, WORD));
        }
        let models: BTreeSet<&str> = target.rows().map(|row| row.model.as_str()).collect();
        if models.iter().any(|model| !model.is_empty()) {
            let _ = write!(value, ", precision model {}", list(&models));
        }
        if target.adapter.is_software() {
            value.push_str(
                "; a software adapter runs in order with one subgroup size: it cannot show races, subgroup-size \
                 faults or f16 overflow",
            );
        }
        facts.push(("kernel".to_owned(), value));
    }
    more(&mut facts, "kernel", summary.targets.len(), MOST_TARGETS);
    let rows = summary.rows;
    for (label, field) in [
        ("attnproof", (|row| row.version.as_str()) as fn(&Row) -> &str),
        ("suite", |row| row.suite.as_str()),
        ("seed", |row| row.seed.as_str()),
    ] {
        let values: BTreeSet<&str> = rows.iter().map(field).filter(|value| !value.is_empty()).collect();
        if !values.is_empty() {
            facts.push((label.to_owned(), list(&values)));
        }
    }
    let limits: BTreeMap<&str, BTreeSet<u64>> = rows
        .iter()
        .filter_map(|row| row.limits.as_ref())
        .flatten()
        .fold(BTreeMap::new(), |mut limits, (name, &value)| {
            limits.entry(name.as_str()).or_insert_with(BTreeSet::new).insert(value);
            limits
        });
    for (name, values) in limits.iter().take(MOST) {
        let values: Vec<String> = values.iter().take(MOST).map(|&value| grouped(value)).collect();
        facts.push((format!("limit {}", clean(name, WORD)), values.join(" or ")));
    }
    more(&mut facts, "limit", limits.len(), MOST);
    facts
}

fn list(values: &BTreeSet<&str>) -> String {
    let mut parts: Vec<String> = values.iter().take(MOST).map(|value| clean(value, WORD)).collect();
    if values.len() > MOST {
        parts.push(format!("... {} more", values.len() - MOST));
    }
    parts.join(", ")
}

fn more(facts: &mut Vec<(String, String)>, label: &str, total: usize, shown: usize) {
    if total > shown {
        facts.push((label.to_owned(), format!("... {} more", total - shown)));
    }
}
