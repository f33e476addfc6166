//! Traces of real requests as cases.
//!
//! The input has the form of the Mooncake traces (Qin et al.: Mooncake, FAST 2025; JSON lines with
//! `timestamp`, `input_length`, `output_length`, `hash_ids`): each id stands for up to 512 prompt tokens, and
//! equal ids mean an equal prefix. Lengths are scaled by 1/16, so that an id is 32 tokens, two blocks.
//!
//! The lifecycle: requests are admitted in order, each a prefill; after each admission every live row decodes a few
//! tokens in turn; when the batch is full the oldest row finishes its output and is freed. Every eighth request
//! is forked after its prefill at a length that is no multiple of the block, and both sides append. The
//! live rows are checked after every fourth admission and at the end. The pool holds 1.3 times the
//! largest live batch, so old prefixes are evicted while no prefill ever fails.

mod request;

use std::collections::BTreeSet;
use std::path::Path;

use attnproof_oracle::Shape;

use crate::case::{Case, CaseError, Family, is_name_char};
use crate::hash;
use crate::script::Builder;
use request::Request;

/// Trace tokens per token of the case.
pub const SCALE: usize = 16;
/// Tokens of the case per hash id: 512 / 16.
pub const TOKENS_PER_ID: usize = request::TOKENS_PER_ID / SCALE;
/// Tokens per block of the case.
const BLOCK: usize = 16;
/// One request in so many is forked.
const FORK_EVERY: usize = 8;
/// Checks come after so many admissions.
const CHECK_EVERY: usize = 4;
/// Decode steps of every live row after an admission.
const ROUNDS: usize = 3;

/// How a trace becomes a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// Rows alive at once, at least 2.
    pub live_rows: usize,
    /// Longest prompt and longest output, in tokens of the case; longer ones are clipped.
    pub longest: usize,
}

impl Default for TraceOptions {
    /// 8 rows; prompts and outputs up to 2048 tokens, 32,768 of the trace.
    fn default() -> Self {
        Self { live_rows: 8, longest: 2048 }
    }
}

/// What became of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    /// Requests used.
    pub requests: usize,
    /// Prompt and generated tokens of the case, forks' own tokens included.
    pub tokens: usize,
    /// Prompt tokens whose whole prefix had been prompted before in the trace.
    pub repeated_prompt_tokens: usize,
    /// Requests whose prompt or output was clipped.
    pub clipped: usize,
    /// Forked requests.
    pub forks: usize,
    /// Checks in the script.
    pub checks: usize,
    /// Blocks in the pool.
    pub pool_blocks: u32,
    /// Lengths in the case per length in the trace.
    pub scale: &'static str,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line that is no request, or one whose fields do not fit together.
    #[error("{file}:{line}: {field}: {reason}")]
    Line {
        /// Name of the file, as given.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The field at fault; `line` where the JSON itself is.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// No requests were asked for.
    #[error("{file}: 0 requests asked for: at least 1 is needed")]
    NoRequests {
        /// Name of the file, as given.
        file: String,
    },
    /// The file ends too early.
    #[error("{file}: {wanted} requests asked for, but the file has {found}")]
    TooFew {
        /// Name of the file, as given.
        file: String,
        /// Requests asked for.
        wanted: usize,
        /// Requests in the file.
        found: usize,
    },
    /// An option outside its limits.
    #[error("{option}: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// The case made of the trace does not keep the limits of cases, such as 2^20 tokens.
    #[error("{file}")]
    Case {
        /// Name of the file, as given.
        file: String,
        /// The limit.
        source: CaseError,
    },
}

/// The first `requests` requests of a trace as a case named after the file's stem and the number, with 4 query
/// heads, 2 KV heads, D 32, f32 and blocks of 16. Lines after the last one used are not read.
///
/// # Errors
/// See [`TraceError`]. Fewer ids than `ceil(input_length / 512)` are an error, more are ignored.
pub fn mooncake(
    text: &str,
    file: &str,
    requests: usize,
    options: TraceOptions,
) -> Result<(Case, TraceSummary), TraceError> {
    if options.live_rows < 2 {
        return Err(TraceError::Option { option: "live_rows", reason: "a fork needs 2 live rows" });
    }
    if options.longest == 0 {
        return Err(TraceError::Option { option: "longest", reason: "must be at least 1 token" });
    }
    let requests = request::parse(text, file, requests)?;
    let mut schedule = Schedule::new(options);
    for (i, request) in requests.iter().enumerate() {
        let last = i + 1 == requests.len();
        schedule.admit(request).and_then(|()| if last { schedule.drain() } else { Ok(()) }).map_err(
            |reason| TraceError::Line { file: file.to_owned(), line: request.line, field: "line", reason },
        )?;
    }
    let pool_blocks = schedule.pool_blocks();
    let summary = TraceSummary { requests: requests.len(), pool_blocks, ..schedule.summary };
    let case = Case {
        blocks: pool_blocks,
        ..Case::new(
            Family::Trace,
            &format!("{}-{}", stem(file), requests.len()),
            "Real requests with real shared prefixes, forks and eviction under a small pool.",
            Shape { q_heads: 4, kv_heads: 2, d: 32, dv: 32 },
            schedule.builder.finish(),
        )
    };
    case.validate().map_err(|source| TraceError::Case { file: file.to_owned(), source })?;
    Ok((case, summary))
}

/// The file's name without folders and extension, reduced to the characters of case names.
fn stem(file: &str) -> String {
    let stem = Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let plain: String =
        stem.unwrap_or_default().chars().map(|c| if is_name_char(c) { c } else { '-' }).collect();
    if plain.is_empty() { "trace".to_owned() } else { plain }
}

/// A live row that may still have tokens to generate.
struct Live {
    name: String,
    remaining: usize,
}

/// Turns requests into operations.
struct Schedule {
    options: TraceOptions,
    builder: Builder,
    /// Oldest first.
    live: Vec<Live>,
    admitted: usize,
    /// Chain hashes of all prompts so far.
    prompted: BTreeSet<u64>,
    /// Largest sum of blocks of the live rows so far, nothing shared.
    peak_blocks: usize,
    summary: TraceSummary,
}

impl Schedule {
    fn new(options: TraceOptions) -> Self {
        let summary = TraceSummary {
            requests: 0,
            tokens: 0,
            repeated_prompt_tokens: 0,
            clipped: 0,
            forks: 0,
            checks: 0,
            pool_blocks: 0,
            scale: "1/16",
        };
        Self {
            options,
            builder: Builder::new(),
            live: Vec::new(),
            admitted: 0,
            prompted: BTreeSet::new(),
            peak_blocks: 0,
            summary,
        }
    }

    fn admit(&mut self, request: &Request) -> Result<(), String> {
        self.builder.at_line(request.line);
        let forked = self.admitted % FORK_EVERY == FORK_EVERY - 1;
        let arriving = if forked { 2 } else { 1 };
        while self.live.len() + arriving > self.options.live_rows {
            self.retire_oldest()?;
        }
        let longest = self.options.longest;
        let (prompt_len, output_len) = (request.input_length / SCALE, request.output_length / SCALE);
        self.summary.clipped += usize::from(prompt_len.max(output_len) > longest);
        let prompt = prompt(request, prompt_len.clamp(1, longest));
        let output = output_len.clamp(1, longest);
        self.count_prompt(&prompt);
        let name = format!("r{}", self.admitted);
        self.builder.prefill(&name, prompt, 0, None)?;
        self.live.push(Live { name: name.clone(), remaining: output });
        if forked {
            if self.builder.len_of(&name).is_some_and(|len| len % BLOCK == 0) {
                self.generate(&name, 1)?;
            }
            let child = format!("f{}", self.admitted);
            self.builder.fork(&name, &child)?;
            self.live.push(Live { name: child, remaining: output });
            self.summary.forks += 1;
        }
        self.admitted += 1;
        self.note_peak();
        for _ in 0..ROUNDS {
            self.round()?;
        }
        if self.admitted.is_multiple_of(CHECK_EVERY) {
            self.check()?;
        }
        Ok(())
    }

    /// Everyone finishes; one last check if something happened since the last.
    fn drain(&mut self) -> Result<(), String> {
        while self.live.iter().any(|row| row.remaining > 0) {
            self.round()?;
        }
        self.check()?;
        let names = self.builder.live_rows();
        self.builder.free(&names)
    }

    fn check(&mut self) -> Result<(), String> {
        self.summary.checks += 1;
        self.builder.check(&self.builder.live_rows(), 1)
    }

    /// One token for every live row that still has tokens to generate.
    fn round(&mut self) -> Result<(), String> {
        let names: Vec<String> =
            self.live.iter().filter(|row| row.remaining > 0).map(|row| row.name.clone()).collect();
        for name in &names {
            self.generate(name, 1)?;
        }
        for row in &mut self.live {
            row.remaining = row.remaining.saturating_sub(1);
        }
        self.note_peak();
        Ok(())
    }

    fn generate(&mut self, name: &str, n: usize) -> Result<(), String> {
        self.summary.tokens += n;
        self.builder.append(name, n)
    }

    fn retire_oldest(&mut self) -> Result<(), String> {
        while self.live.first().is_some_and(|row| row.remaining > 0) {
            self.round()?;
        }
        let oldest = self.live.remove(0);
        self.builder.free(&[oldest.name])
    }

    fn count_prompt(&mut self, prompt: &[u64]) {
        self.summary.tokens += prompt.len();
        let mut chain = 0;
        for token in prompt {
            chain = hash::fold(chain, *token);
            self.summary.repeated_prompt_tokens += usize::from(!self.prompted.insert(chain));
        }
    }

    fn note_peak(&mut self) {
        let blocks = self.live.iter().filter_map(|row| self.builder.len_of(&row.name));
        self.peak_blocks = self.peak_blocks.max(blocks.map(|len| len.div_ceil(BLOCK)).sum());
    }

    /// 1.3 times the peak, and a block of room for each live row.
    fn pool_blocks(&self) -> u32 {
        (self.peak_blocks * 13 / 10 + self.options.live_rows) as u32
    }
}

/// The first `len` prompt tokens: each id is the stream `h<id>`.
fn prompt(request: &Request, len: usize) -> Vec<u64> {
    let mut tokens = Vec::with_capacity(len + TOKENS_PER_ID);
    for id in request.hash_ids.iter().take(len.div_ceil(TOKENS_PER_ID)) {
        tokens.extend(hash::stream_tokens(&format!("h{id}"), TOKENS_PER_ID));
    }
    tokens.truncate(len);
    tokens
}

#[cfg(test)]
mod tests;
