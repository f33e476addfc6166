//! Rows to JSON lines and back, with errors that name the file, the line and the field.

use std::collections::BTreeMap;
use std::io::{self, Write};

use thiserror::Error;

use super::Row;

/// Why a file of results cannot be used. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The file holds no row at all.
    #[error("{file}: no result rows")]
    Empty {
        /// Name of the file.
        file: String,
    },
    /// The last line ends in the middle of a row: the writer was stopped, or the copy was cut.
    #[error("{file}, line {line}: the last row is cut off; remove it to resume")]
    Truncated {
        /// Name of the file.
        file: String,
        /// Line of the cut row.
        line: usize,
    },
    /// A line is not a row.
    #[error("{file}, line {line}, field {field}: {reason}")]
    Field {
        /// Name of the file.
        file: String,
        /// Line of the row.
        line: usize,
        /// Path of the field, `.` for the row as a whole.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two rows say something about the same case, layout, kernel and adapter.
    #[error("{file}, line {line}: repeats line {first} ({id} on {kernel} @ {adapter})")]
    Duplicate {
        /// Name of the file.
        file: String,
        /// Line of the second row.
        line: usize,
        /// Line of the first row.
        first: usize,
        /// Case id.
        id: String,
        /// Kernel name.
        kernel: String,
        /// Adapter name.
        adapter: String,
    },
}

/// Writes one row and a line feed. Fails only where the writer fails.
///
/// # Errors
/// The writer's own.
pub fn write_line(row: &Row, out: &mut impl Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Reads rows from JSON lines, in file order. Blank lines and a byte-order mark are skipped, unknown fields are
/// ignored so that an older program reads a newer file. `file` names the source in errors.
///
/// # Errors
/// No rows at all, a last line that is cut off, a line that is not a row, an empty name, a number that no run can
/// produce, or two rows with one key.
pub fn read(text: &str, file: &str) -> Result<Vec<Row>, ReadError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let filled: Vec<(usize, &str)> = body
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    let last = filled.last().map_or(0, |&(line, _)| line);
    let complete = body.ends_with('\n');

    let mut rows = Vec::with_capacity(filled.len());
    for &(line, content) in &filled {
        rows.push(parse(content, file, line, line == last && !complete)?);
    }
    if rows.is_empty() {
        return Err(ReadError::Empty { file: file.to_owned() });
    }
    let mut seen = BTreeMap::new();
    for (row, &(line, _)) in rows.iter().zip(&filled) {
        if let Some(first) = seen.insert(row.key(), line) {
            return Err(ReadError::Duplicate {
                file: file.to_owned(),
                line,
                first,
                id: row.id.clone(),
                kernel: row.kernel.clone(),
                adapter: row.adapter.name.clone(),
            });
        }
    }
    Ok(rows)
}

/// One line to one row; `may_be_cut` says that no line feed follows.
fn parse(content: &str, file: &str, line: usize, may_be_cut: bool) -> Result<Row, ReadError> {
    let mut json = serde_json::Deserializer::from_str(content);
    let field =
        |field: String, reason: String| ReadError::Field { file: file.to_owned(), line, field, reason };
    let row: Row = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        if may_be_cut && error.inner().is_eof() {
            return ReadError::Truncated { file: file.to_owned(), line };
        }
        let path = error.path().to_string();
        field(path, error.into_inner().to_string())
    })?;
    json.end().map_err(|error| field(".".to_owned(), error.to_string()))?;
    if let Some((name, reason)) = implausible(&row) {
        return Err(field(name.to_owned(), reason.to_owned()));
    }
    Ok(row)
}

/// The first field whose value no run can have written.
fn implausible(row: &Row) -> Option<(&'static str, &'static str)> {
    let names = [("id", &row.id), ("name", &row.name), ("layout", &row.layout), ("kernel", &row.kernel)];
    if let Some((field, _)) = names.into_iter().find(|(_, value)| value.trim().is_empty()) {
        return Some((field, "is empty"));
    }
    if row.budget_used.is_some_and(|used| used < 0.0) {
        return Some(("budget_used", "is negative"));
    }
    if row.over.as_ref().is_some_and(|over| over.over > over.total) {
        return Some(("over", "more elements outside than judged"));
    }
    (row.time_ms < 0.0).then_some(("time_ms", "is negative"))
}
