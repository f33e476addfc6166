//! Real requests: the head of a public trace through every layout on both kernels.

use std::collections::BTreeSet;

use crate::common::{LAYOUTS, TRACE, kept, need_adapter, of_kernel, text};

/// The fewest requests, in tens, whose lifecycles evict.
const REQUESTS: &str = "20";

#[test]
fn every_layout_serves_real_requests() {
    need_adapter();
    let run = kept(&["--trace", TRACE, "--requests", REQUESTS]);
    assert_eq!(run.ran.code, 0, "{}{}", run.ran.out, run.ran.err);
    assert!(run.ran.err.starts_with("trace: 20 requests, lengths scaled by 1/16: "), "{}", run.ran.err);
    for kernel in ["wgsl", "cpu-twin"] {
        let layouts: Vec<_> = of_kernel(&run.rows, kernel).iter().map(|row| text(row, "layout")).collect();
        assert_eq!(layouts, LAYOUTS, "{kernel}");
    }
    for row in &run.rows {
        assert_eq!(text(row, "status"), "pass", "{row}");
        assert_eq!(row["reads"]["predicted_equal"], true, "{row}");
        for what in ["hit_tokens", "hit_blocks", "copies", "evictions", "reused_blocks"] {
            assert!(row["counts"][what].as_u64().is_some_and(|n| n > 0), "no {what} in {row}");
        }
    }
    let digests: BTreeSet<_> = run.rows.iter().map(|row| text(row, "inputs_sha256")).collect();
    assert_eq!(digests.len(), 1);
    let counted = |what: &str| {
        let line = run.ran.out.lines().find(|line| line.trim_start().starts_with(what));
        let line = line.unwrap_or_else(|| panic!("no line {what} in\n{}", run.ran.out));
        line.split_whitespace().filter(|word| word.parse::<f64>().is_ok_and(|n| n > 0.0)).count()
    };
    for what in ["hit ", "copies ", "evicted ", "reused "] {
        assert_eq!(counted(what), LAYOUTS.len(), "{what} in the report:\n{}", run.ran.out);
    }
}

#[test]
fn more_requests_are_other_inputs() {
    let of = |n: &str| {
        kept(&["--adapter", "cpu", "--layout", "packed-block-table", "--trace", TRACE, "--requests", n])
    };
    let (five, six) = (of("5"), of("6"));
    assert_ne!(five.rows[0]["inputs_sha256"], six.rows[0]["inputs_sha256"]);
    assert_eq!(
        five.rows[0]["counts"]["evictions"], 0,
        "five requests fit: the counts are counted, not claimed"
    );
}
