//! Lines of a Mooncake trace.

use serde::Deserialize;

use super::TraceError;

/// Prompt tokens that one hash id stands for.
pub(super) const TOKENS_PER_ID: usize = 512;

/// One request of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Line in the file, from 1.
    pub(super) line: usize,
    /// Prompt tokens, at least 1.
    pub(super) input_length: usize,
    /// Generated tokens.
    pub(super) output_length: usize,
    /// One id per 512 prompt tokens begun.
    pub(super) hash_ids: Vec<u64>,
}

/// A line as it is written; other keys are allowed, since traces carry more than we need.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "timestamp")]
    _timestamp: f64,
    input_length: usize,
    output_length: usize,
    hash_ids: Vec<u64>,
}

/// The first `wanted` requests; blank lines are skipped, later lines are not read.
pub(super) fn parse(text: &str, file: &str, wanted: usize) -> Result<Vec<Request>, TraceError> {
    if wanted == 0 {
        return Err(TraceError::NoRequests { file: file.to_owned() });
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let requests: Vec<Request> =
        lines.take(wanted).map(|(index, line)| request(line, file, index + 1)).collect::<Result<_, _>>()?;
    if requests.len() < wanted {
        return Err(TraceError::TooFew { file: file.to_owned(), wanted, found: requests.len() });
    }
    Ok(requests)
}

fn request(text: &str, file: &str, line: usize) -> Result<Request, TraceError> {
    let error = |field, reason| TraceError::Line { file: file.to_owned(), line, field, reason };
    let parsed: Line = serde_json::from_str(text).map_err(|cause| {
        let reason = cause.to_string();
        let fields = ["timestamp", "input_length", "output_length", "hash_ids"];
        // serde_json names a missing or repeated field in backquotes.
        let field = fields.into_iter().find(|field| reason.contains(&format!("`{field}`")));
        error(field.unwrap_or("line"), reason)
    })?;
    if parsed.input_length == 0 {
        return Err(error("input_length", "must be at least 1".to_owned()));
    }
    let needed = parsed.input_length.div_ceil(TOKENS_PER_ID);
    if parsed.hash_ids.len() < needed {
        let reason =
            format!("{} ids for {} tokens, {needed} are needed", parsed.hash_ids.len(), parsed.input_length);
        return Err(error("hash_ids", reason));
    }
    Ok(Request {
        line,
        input_length: parsed.input_length,
        output_length: parsed.output_length,
        hash_ids: parsed.hash_ids,
    })
}
