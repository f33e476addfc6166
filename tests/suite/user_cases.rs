//! Cases of the user's own, right and wrong ones: the runner must see what they do.

use std::fs;

use crate::common::{Kept, LAYOUTS, folder, kept, need_adapter, text};

/// Runs `script` as the one case of a file, with the further keys `keys`.
fn case(keys: &str, script: &str, args: &[&str]) -> Kept {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    let case = format!(
        "[[case]]\nname = \"mine\"\nwhy = \"A user's own.\"\nhq = 4\nhk = 2\nd = 32\n{keys}\nscript = \"\"\"\n{script}\n\"\"\"\n"
    );
    fs::write(&file, case).expect("a case file");
    kept(&[args, &["--cases", file.to_str().expect("a UTF-8 path")]].concat())
}

#[test]
fn a_case_of_the_user_runs_on_both_kernels() {
    need_adapter();
    let script = "prefill A 37\nprefill B A:32+9\nfork A C\nappend A C 3\ncheck A B C\nfree A\ncheck";
    let mine = case("window = 20\nkv = \"f16\"\nscales = \"head/token\"", script, &[]);
    assert_eq!(mine.ran.code, 0, "{}{}", mine.ran.out, mine.ran.err);
    assert_eq!(mine.rows.len(), 2 * LAYOUTS.len());
    for row in &mine.rows {
        assert_eq!(text(row, "status"), "pass", "{row}");
        assert!(text(row, "id").starts_with("user:mine;layout="), "{row}");
        assert_eq!(row["counts"]["checks"], 2);
        assert_eq!(
            row["counts"]["copies"].as_u64().map(|n| n > 0),
            Some(true),
            "the fork's last block is shared: {row}"
        );
    }
    assert_eq!(mine.rows[0]["why"], "A user's own.");
}

#[test]
fn what_a_script_asks_in_vain_is_an_error() {
    let full_pool = case("blocks = 4", "prefill A 200\ncheck A", &["--adapter", "cpu"]);
    assert_eq!(full_pool.ran.code, 1);
    assert!(full_pool.ran.headline().starts_with("FAIL: "), "{}", full_pool.ran.out);
    for row in &full_pool.rows {
        assert_eq!(text(row, "status"), "error", "{row}");
        assert!(
            text(row, "detail").starts_with("script line 1: out of blocks: 13 needed, 4 available"),
            "{row}"
        );
        assert!(row["budget_used"].is_null(), "nothing was judged: {row}");
    }
}

#[test]
fn hits_that_do_not_come_are_a_broken_invariant() {
    let found = case("", "prefill A 40\nprefill B A:32+9 hits=32\ncheck", &["--adapter", "cpu"]);
    assert_eq!(found.ran.code, 0, "{}", found.ran.out);
    let missed = case("", "prefill A 40\nprefill B C:32+9 hits=32\ncheck", &["--adapter", "cpu"]);
    assert_eq!(missed.ran.code, 1);
    for row in &missed.rows {
        assert_eq!(text(row, "status"), "invariant", "{row}");
        let detail = "script line 2: hits: row B: whole blocks of 0 prompt tokens came from the prefix cache";
        assert!(text(row, "detail").starts_with(detail), "{row}");
    }
}

#[test]
fn a_refusal_that_does_not_come_is_a_broken_invariant() {
    let refused = case("blocks = 4", "prefill A 20\nfail prefill B 200\ncheck A", &["--adapter", "cpu"]);
    assert_eq!(refused.ran.code, 0, "{}", refused.ran.out);
    let granted = case("blocks = 40", "prefill A 20\nfail prefill B 200\ncheck A", &["--adapter", "cpu"]);
    assert_eq!(granted.ran.code, 1);
    for row in &granted.rows {
        assert_eq!(text(row, "status"), "invariant", "{row}");
        assert!(text(row, "detail").contains("must be refused"), "{row}");
    }
}
