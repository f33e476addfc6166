//! Lifecycle scripts: what happens to the rows of the cache, in order.
//!
//! A script is text, one operation a line (see [`parse`] for the grammar), or is built operation by operation
//! with a [`Builder`]. Both end in the same [`Op`]s with every token spelled out, and both refuse an
//! operation that the state of the rows does not allow.

pub mod parse;

use std::collections::BTreeMap;

use crate::hash;

pub use parse::{ScriptError, parse_script};

/// One lifecycle operation. Tokens are ids; equal ids after equal prefixes (and salts) are equal content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new row with a whole prompt; an empty prompt makes a row of length 0.
    Prefill {
        /// Name of the new row.
        row: String,
        /// The prompt.
        tokens: Vec<u64>,
        /// Rows share a prefix only under equal salts.
        salt: u64,
        /// The leading tokens that must be found in the prefix cache, in every layout: exactly so many, in whole
        /// blocks that the row shares. What a layout copies out of one more block is not counted. `None`: any number.
        hits: Option<u32>,
    },
    /// `tokens.len()` decode steps of one token each, with window release after each.
    Append {
        /// A live row.
        row: String,
        /// The generated tokens, in order.
        tokens: Vec<u64>,
    },
    /// A new row that equals a live one so far.
    Fork {
        /// The live row.
        parent: String,
        /// Name of the new row.
        child: String,
    },
    /// Rows end, in this order.
    Free {
        /// Live rows.
        rows: Vec<String>,
    },
    /// Another tenant allocates, overwrites and frees so many blocks.
    Pressure {
        /// Number of blocks.
        blocks: u32,
    },
    /// A row loses its blocks; its tokens are kept for a resume.
    Preempt {
        /// A live row.
        row: String,
    },
    /// A preempted row is prefilled again with every token it had.
    Resume {
        /// The preempted row.
        row: String,
        /// Prompt and generated tokens together.
        tokens: Vec<u64>,
        /// The salt of its prefill.
        salt: u64,
    },
    /// All invariants, and output and LSE of the named rows, in this batch order.
    Check {
        /// Live rows.
        rows: Vec<String>,
        /// Query tokens per row: the last `min(q_len, len)` tokens, one for a row of length 0.
        q_len: u32,
    },
    /// An operation that must fail and change nothing; a prefill too large for the pool.
    ExpectFail(Box<Op>),
    /// All invariants.
    Invariants,
}

/// Operations with the lines they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The operations in order.
    pub ops: Vec<Op>,
    /// Source line of each operation, from 1; one line may give several operations.
    pub lines: Vec<usize>,
}

impl Script {
    /// Tokens computed by all operations together, resumed ones counted again.
    pub fn token_count(&self) -> usize {
        self.ops
            .iter()
            .map(|op| match op {
                Op::Prefill { tokens, .. } | Op::Append { tokens, .. } | Op::Resume { tokens, .. } => {
                    tokens.len()
                }
                _ => 0,
            })
            .sum()
    }

    /// The most tokens any row ever has.
    pub fn longest_row(&self) -> usize {
        let mut lens: BTreeMap<&str, usize> = BTreeMap::new();
        let mut longest = 0;
        for op in &self.ops {
            let (row, len) = match op {
                Op::Prefill { row, tokens, .. } | Op::Resume { row, tokens, .. } => (row, tokens.len()),
                Op::Append { row, tokens } => (row, lens.get(row.as_str()).unwrap_or(&0) + tokens.len()),
                Op::Fork { parent, child } => (child, *lens.get(parent.as_str()).unwrap_or(&0)),
                _ => continue,
            };
            lens.insert(row, len);
            longest = longest.max(len);
        }
        longest
    }

    /// The first prefill whose `hits` are no whole blocks: its line and what is wrong.
    pub(crate) fn uneven_hits(&self, block_size: u32) -> Option<(usize, String)> {
        self.ops.iter().zip(&self.lines).find_map(|(op, &line)| match op {
            Op::Prefill { hits: Some(hits), .. } if !hits.is_multiple_of(block_size) => {
                Some((line, format!("hits={hits} must be a multiple of block ({block_size})")))
            }
            _ => None,
        })
    }

    /// Whether every check asks for one query token a row.
    pub fn asks_last_tokens_only(&self) -> bool {
        !self.ops.iter().any(|op| matches!(op, Op::Check { q_len, .. } if *q_len > 1))
    }
}

/// A row as the builder tracks it.
#[derive(Clone, Debug)]
struct Row {
    tokens: Vec<u64>,
    salt: u64,
    /// Order of creation.
    since: usize,
}

/// Builds a script and refuses what the state of the rows does not allow. Every method's error is a
/// sentence saying what was expected.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    script: Script,
    live: BTreeMap<String, Row>,
    preempted: BTreeMap<String, Row>,
    created: usize,
    line: usize,
}

impl Builder {
    /// An empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Operations from here on come from this source line.
    pub fn at_line(&mut self, line: usize) {
        self.line = line;
    }

    /// The script so far.
    pub fn finish(self) -> Script {
        self.script
    }

    /// Length of a live row in tokens.
    pub fn len_of(&self, row: &str) -> Option<usize> {
        self.live.get(row).map(|r| r.tokens.len())
    }

    /// Live rows in order of creation.
    pub fn live_rows(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.live.iter().collect();
        rows.sort_by_key(|(_, row)| row.since);
        rows.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// [`Op::Prefill`].
    ///
    /// # Errors
    /// The row is live or preempted, or `hits` leaves no token to compute.
    pub fn prefill(
        &mut self,
        row: &str,
        tokens: Vec<u64>,
        salt: u64,
        hits: Option<u32>,
    ) -> Result<(), String> {
        self.must_be_new(row)?;
        if hits.is_some_and(|hits| hits > 0 && hits as usize >= tokens.len()) {
            return Err(format!(
                "hits of less than the prompt's {} tokens: the last is computed",
                tokens.len()
            ));
        }
        self.insert(row, tokens.clone(), salt);
        self.push(Op::Prefill { row: row.to_owned(), tokens, salt, hits });
        Ok(())
    }

    /// A prefill that must fail: the row stays unknown.
    ///
    /// # Errors
    /// The row is live or preempted.
    pub fn fail_prefill(&mut self, row: &str, tokens: Vec<u64>, salt: u64) -> Result<(), String> {
        self.must_be_new(row)?;
        self.push(Op::ExpectFail(Box::new(Op::Prefill { row: row.to_owned(), tokens, salt, hits: None })));
        Ok(())
    }

    /// [`Op::Append`] of `n` generated tokens.
    ///
    /// # Errors
    /// The row is not live.
    pub fn append(&mut self, row: &str, n: usize) -> Result<(), String> {
        self.must_be_live(row)?;
        let mut tokens = Vec::new();
        if let Some(live) = self.live.get_mut(row) {
            let len = live.tokens.len();
            tokens = (len..len + n).map(|position| hash::generated_token(row, position)).collect();
            live.tokens.extend(&tokens);
        }
        self.push(Op::Append { row: row.to_owned(), tokens });
        Ok(())
    }

    /// [`Op::Fork`].
    ///
    /// # Errors
    /// The parent is not live, or the child exists.
    pub fn fork(&mut self, parent: &str, child: &str) -> Result<(), String> {
        self.must_be_new(child)?;
        let row = self.live.get(parent).ok_or_else(|| self.not_live(parent))?;
        let (tokens, salt) = (row.tokens.clone(), row.salt);
        self.insert(child, tokens, salt);
        self.push(Op::Fork { parent: parent.to_owned(), child: child.to_owned() });
        Ok(())
    }

    /// [`Op::Free`].
    ///
    /// # Errors
    /// A row is not live, or named twice.
    pub fn free(&mut self, rows: &[String]) -> Result<(), String> {
        self.must_be_live_once(rows)?;
        for row in rows {
            self.live.remove(row);
        }
        self.push(Op::Free { rows: rows.to_vec() });
        Ok(())
    }

    /// [`Op::Pressure`].
    pub fn pressure(&mut self, blocks: u32) {
        self.push(Op::Pressure { blocks });
    }

    /// [`Op::Preempt`].
    ///
    /// # Errors
    /// The row is not live.
    pub fn preempt(&mut self, row: &str) -> Result<(), String> {
        let state = self.live.remove(row).ok_or_else(|| self.not_live(row))?;
        self.preempted.insert(row.to_owned(), state);
        self.push(Op::Preempt { row: row.to_owned() });
        Ok(())
    }

    /// [`Op::Resume`].
    ///
    /// # Errors
    /// The row is not preempted.
    pub fn resume(&mut self, row: &str) -> Result<(), String> {
        let state = self.preempted.remove(row).ok_or("a preempted row")?;
        self.insert(row, state.tokens.clone(), state.salt);
        self.push(Op::Resume { row: row.to_owned(), tokens: state.tokens, salt: state.salt });
        Ok(())
    }

    /// [`Op::Check`].
    ///
    /// # Errors
    /// No row, a row that is not live, or one named twice.
    pub fn check(&mut self, rows: &[String], q_len: u32) -> Result<(), String> {
        if rows.is_empty() {
            return Err("at least one live row to check".to_owned());
        }
        self.must_be_live_once(rows)?;
        self.push(Op::Check { rows: rows.to_vec(), q_len });
        Ok(())
    }

    /// [`Op::Invariants`].
    pub fn invariants(&mut self) {
        self.push(Op::Invariants);
    }

    fn push(&mut self, op: Op) {
        self.script.ops.push(op);
        self.script.lines.push(self.line);
    }

    fn insert(&mut self, row: &str, tokens: Vec<u64>, salt: u64) {
        self.live.insert(row.to_owned(), Row { tokens, salt, since: self.created });
        self.created += 1;
    }

    fn must_be_new(&self, row: &str) -> Result<(), String> {
        if self.live.contains_key(row) {
            return Err(format!("a new row name: `{row}` is live"));
        }
        if self.preempted.contains_key(row) {
            return Err(format!("a new row name: `{row}` is preempted, `resume` it"));
        }
        Ok(())
    }

    fn must_be_live(&self, row: &str) -> Result<(), String> {
        if self.live.contains_key(row) { Ok(()) } else { Err(self.not_live(row)) }
    }

    fn must_be_live_once(&self, rows: &[String]) -> Result<(), String> {
        for (i, row) in rows.iter().enumerate() {
            self.must_be_live(row)?;
            if rows[..i].contains(row) {
                return Err(format!("each row once: `{row}` is named twice"));
            }
        }
        Ok(())
    }

    fn not_live(&self, row: &str) -> String {
        let live = self.live_rows();
        if live.is_empty() {
            format!("a live row: `{row}` is not, no row is")
        } else {
            format!("a live row: `{row}` is not; live are {}", live.join(" "))
        }
    }
}

#[cfg(test)]
mod tests;
