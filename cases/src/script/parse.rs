//! The text form of a script.
//!
//! One operation a line; `#` starts a comment. `ROW` and `STREAM` are names, `N` is a number.
//!
//! | line | meaning |
//! |---|---|
//! | `prefill ROW PROMPT [salt=N] [hits=N]` | a new row; prompts and hits below |
//! | `append ROW... N` | `N` decode steps; with several rows, in turn one token each |
//! | `fork PARENT CHILD` | the child equals the parent so far |
//! | `free ROW...` | the rows end, in this order |
//! | `pressure N` | another tenant fills and frees `N` blocks |
//! | `preempt ROW`, `resume ROW` | lose the blocks; compute every token again |
//! | `check [ROW...] [q=N]` | compare the rows (all live ones by default) for the last `N` tokens |
//! | `fail prefill ...` | a prefill that must fail and change nothing |
//! | `invariants` | check the invariants only |
//!
//! A prompt is a sum of pieces: `45` is 45 tokens of the row's own stream, `s:48` the first 48 tokens of
//! stream `s`, `s:48+20` both one after the other, `[7,38]` two tokens with these ids. `0` alone is the empty
//! prompt. The own stream of row `A` is the stream `A`, so that `prefill B A:64` repeats what `prefill A 64` had.
//!
//! `hits=48` says that exactly the first 48 tokens of the prompt must come from the prefix cache, in every
//! layout: whole blocks that the row shares with others or takes out of the cache. Tokens copied out of one more
//! block (hybrid) are not counted. `hits=0` says that no block of the prompt may be found. Without `hits` any
//! number may.

use super::{Builder, Script};
use crate::case::{MAX_TOKENS, is_name_char};
use crate::hash;

/// A line that is no operation, or one that the state of the rows does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: at `{word}`: expected {expected}")]
pub struct ScriptError {
    /// Line of the script, from 1.
    pub line: usize,
    /// The offending word; the whole line where a word is missing.
    pub word: String,
    /// What was expected instead.
    pub expected: String,
}

/// A word and what was expected in its place.
type Fault = (String, String);

const VERBS: &str = "one of prefill, append, fork, free, pressure, preempt, resume, check, fail, invariants";

/// Parses the text form of a script, whose lines the [module](self) lists.
///
/// # Errors
/// Unknown verbs, malformed words, operations on rows that are not live, more than 2^20 tokens, and a
/// script without any `check`: each with its line and word.
pub fn parse_script(text: &str) -> Result<Script, ScriptError> {
    let mut builder = Builder::new();
    let mut checked = false;
    let mut last = 1;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let code = raw.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = code.split_whitespace().collect();
        let Some((verb, rest)) = words.split_first() else { continue };
        builder.at_line(line);
        operation(&mut builder, verb, rest, code).map_err(|(word, expected)| ScriptError {
            line,
            word,
            expected,
        })?;
        checked |= *verb == "check";
        last = line;
    }
    if checked {
        Ok(builder.finish())
    } else {
        let expected = "at least one `check` in the script".to_owned();
        Err(ScriptError { line: last, word: "end of script".to_owned(), expected })
    }
}

fn operation(builder: &mut Builder, verb: &str, rest: &[&str], code: &str) -> Result<(), Fault> {
    match verb {
        "prefill" => {
            let Prompt { row, tokens, salt, hits } = prompt_words(rest, code)?;
            within_limit(builder, tokens.len(), code)?;
            builder.prefill(row, tokens, salt, hits).map_err(at(row))
        }
        "fail" => match rest.split_first() {
            Some((&"prefill", rest)) => {
                let Prompt { row, tokens, salt, hits } = prompt_words(rest, code)?;
                if hits.is_some() {
                    return Err(fault(code, "no hits=N: a prefill that fails shares nothing"));
                }
                builder.fail_prefill(row, tokens, salt).map_err(at(row))
            }
            other => Err(fault(other.map_or(code, |(word, _)| word), "`prefill` after `fail`")),
        },
        "append" => append(builder, rest, code),
        "fork" => {
            let [parent, child] = exactly(rest, code, "fork PARENT CHILD")?;
            builder.fork(name(parent)?, name(child)?).map_err(at(code))
        }
        "free" => {
            if rest.is_empty() {
                return Err(fault(code, "free ROW..."));
            }
            builder.free(&owned(rest)).map_err(at(code))
        }
        "pressure" => {
            let [blocks] = exactly(rest, code, "pressure BLOCKS")?;
            builder.pressure(positive(blocks)?);
            Ok(())
        }
        "preempt" => {
            let [row] = exactly(rest, code, "preempt ROW")?;
            builder.preempt(row).map_err(at(row))
        }
        "resume" => {
            let [row] = exactly(rest, code, "resume ROW")?;
            within_limit(builder, 0, code)?;
            builder.resume(row).map_err(at(row))
        }
        "check" => check(builder, rest, code),
        "invariants" => {
            let [] = exactly(rest, code, "invariants alone")?;
            builder.invariants();
            Ok(())
        }
        _ => Err(fault(verb, VERBS)),
    }
}

fn append(builder: &mut Builder, rest: &[&str], code: &str) -> Result<(), Fault> {
    let usage = "append ROW... STEPS";
    let (steps, rows) = rest.split_last().ok_or_else(|| fault(code, usage))?;
    if rows.is_empty() {
        return Err(fault(code, usage));
    }
    let steps = positive(steps)? as usize;
    within_limit(builder, steps * rows.len(), code)?;
    if let [row] = rows {
        return builder.append(row, steps).map_err(at(row));
    }
    for (i, row) in rows.iter().enumerate() {
        if rows[..i].contains(row) {
            return Err(fault(row, "each row once"));
        }
    }
    for _ in 0..steps {
        for row in rows {
            builder.append(row, 1).map_err(at(row))?;
        }
    }
    Ok(())
}

fn check(builder: &mut Builder, rest: &[&str], code: &str) -> Result<(), Fault> {
    let (options, rows): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| word.contains('='));
    let mut q_len = 1;
    for (i, option) in options.iter().enumerate() {
        match option.strip_prefix("q=") {
            Some(n) if i == 0 => q_len = positive(n)?,
            _ => return Err(fault(option, "one option at most: q=N, the number of query tokens")),
        }
    }
    let rows = if rows.is_empty() { builder.live_rows() } else { owned(&rows) };
    builder.check(&rows, q_len).map_err(at(code))
}

/// What follows `prefill`.
struct Prompt<'w> {
    row: &'w str,
    tokens: Vec<u64>,
    salt: u64,
    hits: Option<u32>,
}

/// Reads `ROW PROMPT [salt=N] [hits=N]`.
fn prompt_words<'w>(rest: &[&'w str], code: &str) -> Result<Prompt<'w>, Fault> {
    let [row, prompt, options @ ..] = rest else {
        return Err(fault(code, "prefill ROW PROMPT [salt=N] [hits=N]"));
    };
    let (mut salt, mut hits) = (None, None);
    for option in options {
        match option.split_once('=') {
            Some(("salt", n)) if salt.is_none() => {
                salt = Some(n.parse().map_err(|_| fault(option, "salt=N with a whole number N"))?);
            }
            Some(("hits", n)) if hits.is_none() => {
                hits = Some(n.parse().map_err(|_| fault(option, "hits=N with a whole number N of tokens"))?);
            }
            _ => return Err(fault(option, "salt=N or hits=N, each once at most")),
        }
    }
    Ok(Prompt { row: name(row)?, tokens: prompt_tokens(row, prompt)?, salt: salt.unwrap_or(0), hits })
}

fn prompt_tokens(row: &str, prompt: &str) -> Result<Vec<u64>, Fault> {
    if prompt == "0" {
        return Ok(Vec::new());
    }
    let mut tokens = Vec::new();
    for piece in prompt.split('+') {
        if let Some(list) = piece.strip_prefix('[') {
            let ids = list.strip_suffix(']').map(|ids| ids.split(',').map(str::parse).collect());
            let ids: Result<Vec<u64>, _> = ids.ok_or_else(|| fault(piece, "`]` after the token ids"))?;
            tokens.extend(ids.map_err(|_| fault(piece, "token ids, whole numbers joined by `,`"))?);
            continue;
        }
        let (stream, count) = match piece.split_once(':') {
            Some((stream, count)) => (name(stream)?, count),
            None => (row, piece),
        };
        let count = positive(count).map_err(|_| {
            let pieces =
                "a number of tokens above 0, STREAM:N or [ID,ID...], joined by `+` (`0` alone: empty)";
            fault(piece, pieces)
        })?;
        if tokens.len() + count as usize > MAX_TOKENS {
            return Err(fault(piece, "at most 2^20 tokens"));
        }
        tokens.extend(hash::stream_tokens(stream, count as usize));
    }
    Ok(tokens)
}

fn within_limit(builder: &Builder, more: usize, code: &str) -> Result<(), Fault> {
    if builder.script.token_count() + more <= MAX_TOKENS {
        Ok(())
    } else {
        Err(fault(code, "at most 2^20 tokens in one script"))
    }
}

fn name(word: &str) -> Result<&str, Fault> {
    let starts_well = word.starts_with(|c: char| c.is_ascii_alphabetic());
    if starts_well && word.chars().all(is_name_char) {
        Ok(word)
    } else {
        Err(fault(word, "a name: a letter, then letters, digits, `-`, `_` or `.`"))
    }
}

fn positive(word: &str) -> Result<u32, Fault> {
    match word.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(fault(word, "a whole number above 0")),
    }
}

fn exactly<'w, const N: usize>(rest: &[&'w str], code: &str, usage: &str) -> Result<[&'w str; N], Fault> {
    rest.try_into().map_err(|_| fault(code, usage))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn fault(word: &str, expected: &str) -> Fault {
    (word.to_owned(), expected.to_owned())
}

/// Pairs a builder's refusal with the word it is about.
fn at(word: &str) -> impl FnOnce(String) -> Fault {
    let word = word.to_owned();
    move |expected| (word, expected)
}
