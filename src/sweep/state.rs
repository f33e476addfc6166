//! A sweep as JSON: all that is needed to go on. Largest shares are written as the bits of the f64, so that nothing is
//! lost.

use serde_json::{Map, Value, json};

use super::judge::Violation;
use super::stat::{Shares, Stat};
use super::{Request, Sweep};

/// Why a state cannot be used; printed as `field: reason`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct StateError {
    /// Path of the field, `$` for the whole.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

fn error(field: &str, reason: impl Into<String>) -> StateError {
    StateError { field: field.to_owned(), reason: reason.into() }
}

/// The fields of a request: what a state must have been made with, in words.
fn request_fields(request: &Request) -> [(&'static str, Value); 7] {
    [
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("suite", json!(attnproof_cases::SUITE)),
        ("seed", json!(format!("{:#x}", request.seed))),
        ("rows", json!(request.rows)),
        ("max-keys", json!(request.max_keys)),
        ("adapter", json!(request.adapter)),
        ("control", json!(request.control)),
    ]
}

/// The sweep as one JSON document.
pub fn write(sweep: &Sweep) -> String {
    let mut root: Map<String, Value> =
        request_fields(&sweep.request).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let violation = |v: &Violation| json!({"index": v.index, "kernel": v.kernel, "detail": v.detail});
    let stat = |stat: &Stat| {
        json!({
            "rows": stat.rows,
            "no-guarantee": stat.no_guarantee,
            "violations": stat.violations,
            "o": shares(&stat.o),
            "lse": shares(&stat.lse),
        })
    };
    let table: Map<String, Value> = sweep.table.0.iter().map(|(name, s)| (name.clone(), stat(s))).collect();
    root.insert("cases".to_owned(), json!(sweep.cases));
    root.insert("asked".to_owned(), json!(sweep.asked));
    root.insert("table".to_owned(), Value::Object(table));
    root.insert("violations".to_owned(), sweep.violations.iter().map(violation).collect());
    Value::Object(root).to_string() + "\n"
}

fn shares(shares: &Shares) -> Value {
    let buckets: Vec<_> = shares.sparse().collect();
    json!({"max": shares.max.to_bits(), "at": shares.max_at, "buckets": buckets})
}

/// Reads a state that [`write()`] wrote for `request`.
///
/// # Errors
/// [`StateError`]: no state, or one of another request.
pub fn read(text: &str, request: &Request) -> Result<Sweep, StateError> {
    let root: Value =
        serde_json::from_str(text).map_err(|e| error("$", format!("no state of a sweep: {e}")))?;
    let root = Node { path: String::new(), value: &root };
    for (field, wanted) in request_fields(request) {
        let found = root.get(field)?;
        if *found.value != wanted {
            return Err(found.error(format!("the state has {}, this sweep {wanted}", found.value)));
        }
    }
    let mut sweep = Sweep::new(request.clone());
    sweep.cases = root.get("cases")?.whole()?;
    sweep.asked = root.get("asked")?.whole()?;
    let table = root.get("table")?;
    let entries = table.value.as_object().ok_or_else(|| table.error("expected an object"))?;
    for name in entries.keys() {
        sweep.table.0.insert(name.clone(), read_stat(&table.get(name)?)?);
    }
    for violation in root.get("violations")?.list()? {
        sweep.violations.push(Violation {
            index: violation.get("index")?.whole()?,
            kernel: violation.get("kernel")?.text()?,
            detail: violation.get("detail")?.text()?,
        });
    }
    Ok(sweep)
}

fn read_stat(node: &Node<'_>) -> Result<Stat, StateError> {
    Ok(Stat {
        rows: node.get("rows")?.whole()?,
        no_guarantee: node.get("no-guarantee")?.whole()?,
        violations: node.get("violations")?.whole()?,
        o: read_shares(&node.get("o")?)?,
        lse: read_shares(&node.get("lse")?)?,
    })
}

fn read_shares(node: &Node<'_>) -> Result<Shares, StateError> {
    let buckets = node.get("buckets")?;
    let pairs = buckets.list()?.iter().map(Node::pair).collect::<Result<Vec<_>, _>>()?;
    let max = f64::from_bits(node.get("max")?.whole()?);
    let shares = Shares::from_sparse(&pairs, max, node.get("at")?.whole()?);
    shares.ok_or_else(|| buckets.error("no such bucket"))
}

/// A value of the document, and where it is.
struct Node<'v> {
    path: String,
    value: &'v Value,
}

impl<'v> Node<'v> {
    fn error(&self, reason: impl Into<String>) -> StateError {
        error(if self.path.is_empty() { "$" } else { &self.path }, reason)
    }

    fn get(&self, key: &str) -> Result<Node<'v>, StateError> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        match self.value.get(key) {
            Some(value) => Ok(Node { path, value }),
            None => Err(error(&path, "missing")),
        }
    }

    fn whole(&self) -> Result<u64, StateError> {
        self.value.as_u64().ok_or_else(|| self.error("expected a whole number"))
    }

    fn text(&self) -> Result<String, StateError> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.error("expected a string"))
    }

    fn list(&self) -> Result<Vec<Node<'v>>, StateError> {
        let items = self.value.as_array().ok_or_else(|| self.error("expected a list"))?;
        let node = |(i, value)| Node { path: format!("{}[{i}]", self.path), value };
        Ok(items.iter().enumerate().map(node).collect())
    }

    fn pair(&self) -> Result<(usize, u64), StateError> {
        match self.list()?.as_slice() {
            [index, count] => Ok((index.whole()? as usize, count.whole()?)),
            _ => Err(self.error("expected a bucket and its count")),
        }
    }
}
