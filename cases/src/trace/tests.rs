//! Traces become cases with real sharing, forks and eviction, and bad traces are refused with their line.

use std::collections::BTreeMap;

use super::*;
use crate::replay::Walk;
use crate::script::Op;

const EXCERPT: &str = include_str!("../../../tests/data/mooncake_excerpt.jsonl");
const LINE: &str = r#"{"timestamp": 0, "input_length": 700, "output_length": 40, "hash_ids": [0, 1]}"#;

fn refusal(text: &str, requests: usize) -> String {
    mooncake(text, "t.jsonl", requests, TraceOptions::default()).expect_err("must be refused").to_string()
}

#[test]
fn the_excerpt_shares_forks_and_evicts() {
    let (case, summary) =
        mooncake(EXCERPT, "data/mooncake_excerpt.jsonl", 48, TraceOptions::default()).expect("valid");
    assert_eq!(case.short_id(), "trace:mooncake_excerpt-48");
    assert_eq!((summary.requests, summary.forks, summary.scale), (48, 6, "1/16"));
    assert!(summary.repeated_prompt_tokens >= 47 * 32, "{summary:?}");
    assert!((12..=14).contains(&summary.checks), "{summary:?}");
    assert!(summary.clipped > 0 && summary.tokens == case.script.token_count(), "{summary:?}");
    assert_eq!(case.blocks, summary.pool_blocks);
    assert!(summary.tokens > 2 * 16 * summary.pool_blocks as usize, "the pool is turned over: {summary:?}");
}

#[test]
fn rows_fit_the_pool_and_forks_are_in_mid_block() {
    let (case, summary) = mooncake(EXCERPT, "t.jsonl", 60, TraceOptions::default()).expect("valid");
    let mut lens: BTreeMap<&str, usize> = BTreeMap::new();
    let mut appended: BTreeMap<&str, usize> = BTreeMap::new();
    let mut most_rows = 0;
    for op in &case.script.ops {
        match op {
            Op::Prefill { row, tokens, .. } => assert_eq!(lens.insert(row, tokens.len()), None),
            Op::Append { row, tokens } => {
                *lens.get_mut(row.as_str()).expect("live") += tokens.len();
                *appended.entry(row).or_default() += tokens.len();
            }
            Op::Fork { parent, child } => {
                assert_ne!(lens[parent.as_str()] % 16, 0);
                lens.insert(child, lens[parent.as_str()]);
            }
            Op::Free { rows } => rows.iter().for_each(|row| {
                lens.remove(row.as_str());
            }),
            Op::Check { rows, .. } => assert_eq!(rows.len(), lens.len(), "all live rows"),
            other => panic!("unexpected {other:?}"),
        }
        most_rows = most_rows.max(lens.len());
        let blocks: usize = lens.values().map(|len| len.div_ceil(16)).sum();
        assert!(blocks < case.blocks as usize);
    }
    assert_eq!(most_rows, 8);
    assert_eq!(appended.len(), 60 + summary.forks, "every row and every fork appends");
}

#[test]
fn an_excerpt_replays() {
    let options = TraceOptions { live_rows: 4, longest: 200 };
    let (case, summary) = mooncake(EXCERPT, "t.jsonl", 16, options).expect("valid");
    let checks: Vec<_> = Walk::new(&case, 0).expect("valid").collect::<Result<_, _>>().expect("valid");
    assert_eq!(checks.len(), summary.checks);
    assert!(checks.iter().all(|check| (1..=4).contains(&check.rows.len())));
    let rows = &checks[0].rows;
    assert_eq!(rows[0].identity[..32], rows[1].identity[..32], "the system prompt is shared");
    assert_ne!(rows[0].identity[32], rows[1].identity[32]);
}

#[test]
fn bad_lines_are_named() {
    let table = [
        ("{\"timestamp\": 0, \"input_le", "t.jsonl:2: line: EOF"),
        (
            "{\"timestamp\": 0, \"input_length\": 5, \"hash_ids\": [1]}",
            "t.jsonl:2: output_length: missing field",
        ),
        ("[]", "t.jsonl:2: "),
        (&LINE.replace("[0, 1]", "[0]"), "t.jsonl:2: hash_ids: 1 ids for 700 tokens, 2 are needed"),
        (&LINE.replace("700", "0"), "t.jsonl:2: input_length: must be at least 1"),
        (&LINE.replace("700", "-3"), "t.jsonl:2: "),
    ];
    for (line, expected) in table {
        let shown = refusal(&format!("{LINE}\n{line}\n"), 2);
        assert!(shown.starts_with(expected), "{shown}");
    }
    assert_eq!(refusal(LINE, 0), "t.jsonl: 0 requests asked for: at least 1 is needed");
    assert_eq!(refusal(&format!("{LINE}\n\n"), 2), "t.jsonl: 2 requests asked for, but the file has 1");
    assert!(mooncake(&format!("{LINE}\nnot read"), "t.jsonl", 1, TraceOptions::default()).is_ok());
    let alone = TraceOptions { live_rows: 1, ..TraceOptions::default() };
    assert!(
        mooncake(LINE, "t.jsonl", 1, alone)
            .expect_err("no room for a fork")
            .to_string()
            .contains("live_rows")
    );
}
