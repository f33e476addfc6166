//! Parsed operations, and every refusal with its line and word.

use proptest::prelude::*;

use super::*;

fn ops(text: &str) -> Vec<Op> {
    parse_script(text).expect("a valid script").ops
}

fn refusal(text: &str) -> (usize, String, String) {
    let error = parse_script(text).expect_err("must be refused");
    (error.line, error.word, error.expected)
}

#[test]
fn every_verb() {
    let text = "
        # a comment, then every verb
        prefill A 3            # own stream
        prefill B A:2+s:2+1 salt=7
        prefill Z 0
        append A 2
        fork A C
        append A B 2
        free B Z
        pressure 12
        preempt C
        fail prefill H 400
        invariants
        resume C
        check C A q=3
        check
    ";
    let script = parse_script(text).expect("valid");
    assert_eq!(script.ops.len(), script.lines.len());
    let a = hash::stream_tokens("A", 3);
    let s = hash::stream_tokens("s", 2);
    let b = hash::stream_tokens("B", 1);
    assert_eq!(script.ops[0], Op::Prefill { row: "A".into(), tokens: a.clone(), salt: 0, hits: None });
    assert_eq!(
        script.ops[1],
        Op::Prefill { row: "B".into(), tokens: vec![a[0], a[1], s[0], s[1], b[0]], salt: 7, hits: None }
    );
    assert_eq!(script.ops[2], Op::Prefill { row: "Z".into(), tokens: vec![], salt: 0, hits: None });
    let generated = |row: &str, range: std::ops::Range<usize>| -> Vec<u64> {
        range.map(|position| hash::generated_token(row, position)).collect()
    };
    assert_eq!(script.ops[3], Op::Append { row: "A".into(), tokens: generated("A", 3..5) });
    assert_eq!(script.ops[4], Op::Fork { parent: "A".into(), child: "C".into() });
    let interleaved: Vec<Op> = [("A", 5), ("B", 5), ("A", 6), ("B", 6)]
        .map(|(row, at)| Op::Append { row: row.into(), tokens: generated(row, at..at + 1) })
        .to_vec();
    assert_eq!(script.ops[5..9], interleaved);
    assert_eq!(script.lines[5..9], [8; 4]);
    assert_eq!(script.ops[9], Op::Free { rows: vec!["B".into(), "Z".into()] });
    assert_eq!(script.ops[10], Op::Pressure { blocks: 12 });
    assert_eq!(script.ops[11], Op::Preempt { row: "C".into() });
    assert!(matches!(&script.ops[12], Op::ExpectFail(op) if matches!(**op, Op::Prefill { .. })));
    assert_eq!(script.ops[13], Op::Invariants);
    let whole = [a, generated("A", 3..5)].concat();
    assert_eq!(script.ops[14], Op::Resume { row: "C".into(), tokens: whole, salt: 0 });
    assert_eq!(script.ops[15], Op::Check { rows: vec!["C".into(), "A".into()], q_len: 3 });
    assert_eq!(script.ops[16], Op::Check { rows: vec!["A".into(), "C".into()], q_len: 1 });
    assert_eq!(script.token_count(), 3 + 5 + 2 + 4 + 5);
}

#[test]
fn token_ids_and_expected_hits() {
    let script = ops("prefill A [7,38]+s:2+[9]\nprefill B [7] hits=0 salt=3\nprefill C A:40 hits=32\ncheck");
    let s = hash::stream_tokens("s", 2);
    let prefill =
        |row: &str, tokens: Vec<u64>, salt, hits| Op::Prefill { row: row.into(), tokens, salt, hits };
    assert_eq!(script[0], prefill("A", vec![7, 38, s[0], s[1], 9], 0, None));
    assert_eq!(script[1], prefill("B", vec![7], 3, Some(0)));
    assert_eq!(script[2], prefill("C", hash::stream_tokens("A", 40), 0, Some(32)));
}

#[test]
fn forks_diverge_and_a_freed_name_may_come_back() {
    let script = ops("prefill A 20\nfork A B\nappend A 1\nappend B 1\nfree A\nprefill A 20\ncheck");
    let (Op::Append { tokens: a, .. }, Op::Append { tokens: b, .. }) = (&script[2], &script[3]) else {
        panic!("two appends");
    };
    assert_ne!(a, b);
}

#[test]
fn faults_name_line_word_and_expectation() {
    let cases = [
        ("prefil A 3\ncheck", 1, "prefil", "one of prefill, append"),
        ("prefill A\ncheck", 1, "prefill A", "prefill ROW PROMPT"),
        ("prefill A x\ncheck", 1, "x", "a number of tokens above 0"),
        ("prefill A 3+\ncheck", 1, "", "a number of tokens above 0"),
        ("prefill A s:0\ncheck", 1, "s:0", "a number of tokens above 0"),
        ("prefill A 3 salt=x\ncheck", 1, "salt=x", "whole number"),
        ("prefill A 3 q=2\ncheck", 1, "q=2", "salt=N or hits=N"),
        ("prefill A 3 salt=1 salt=1\ncheck", 1, "salt=1", "each once at most"),
        ("prefill A 3 hits=x\ncheck", 1, "hits=x", "whole number"),
        ("prefill A 3 hits=-16\ncheck", 1, "hits=-16", "whole number"),
        ("prefill A 3 hits\ncheck", 1, "hits", "hits=N"),
        ("prefill A 3 hits=0 hits=0\ncheck", 1, "hits=0", "each once at most"),
        ("prefill A 16\nprefill B A:16 hits=16\ncheck", 2, "B", "less than the prompt's 16 tokens"),
        ("prefill A 3\nfail prefill B 400 hits=16\ncheck", 2, "fail prefill B 400 hits=16", "no hits=N"),
        ("prefill A [1,2\ncheck", 1, "[1,2", "`]` after the token ids"),
        ("prefill A [1,x]\ncheck", 1, "[1,x]", "token ids"),
        ("prefill A []\ncheck", 1, "[]", "token ids"),
        ("prefill A [-1]+4\ncheck", 1, "[-1]", "token ids"),
        ("prefill 7 3\ncheck", 1, "7", "a name"),
        ("prefill A 2000000\ncheck", 1, "2000000", "2^20"),
        ("\n\nprefill A 3\nprefill A 4\ncheck", 4, "A", "`A` is live"),
        ("prefill A 3\npreempt A\nprefill A 4\ncheck", 3, "A", "preempted"),
        ("prefill A 3\nappend B 1\ncheck", 2, "B", "live are A"),
        ("append B 1\ncheck", 1, "B", "no row is"),
        ("prefill A 3\nappend A 0\ncheck", 2, "0", "above 0"),
        ("prefill A 3\nappend A\ncheck", 2, "append A", "append ROW... STEPS"),
        ("prefill A 3\nappend A A 2\ncheck", 2, "A", "each row once"),
        ("prefill A 3\nappend A 1048576\ncheck", 2, "append A 1048576", "2^20"),
        ("prefill A 3\nfork A A\ncheck", 2, "fork A A", "`A` is live"),
        ("prefill A 3\nfork A\ncheck", 2, "fork A", "fork PARENT CHILD"),
        ("prefill A 3\nfree\ncheck", 2, "free", "free ROW..."),
        ("prefill A 3\nfree A A\ncheck", 2, "free A A", "named twice"),
        ("prefill A 3\npressure\ncheck", 2, "pressure", "pressure BLOCKS"),
        ("prefill A 3\npressure -1\ncheck", 2, "-1", "above 0"),
        ("prefill A 3\nresume A\ncheck", 2, "A", "a preempted row"),
        ("prefill A 3\ncheck A B", 2, "check A B", "`B` is not"),
        ("prefill A 3\ncheck A A", 2, "check A A", "named twice"),
        ("prefill A 3\ncheck A p=2", 2, "p=2", "q=N"),
        ("prefill A 3\ncheck A q=0", 2, "0", "above 0"),
        ("prefill A 3\ncheck A q=1 q=2", 2, "q=2", "one option"),
        ("check", 1, "check", "at least one live row"),
        ("prefill A 3\nfail append A 3\ncheck", 2, "append", "`prefill` after `fail`"),
        ("prefill A 3\ninvariants now\ncheck", 2, "invariants now", "invariants alone"),
        ("prefill A 3", 1, "end of script", "at least one `check`"),
        ("", 1, "end of script", "at least one `check`"),
    ];
    for (text, line, word, expected) in cases {
        let found = refusal(text);
        assert_eq!((found.0, found.1.as_str()), (line, word), "{text:?}");
        assert!(found.2.contains(expected), "{text:?}: {}", found.2);
    }
    let error = parse_script("prefill A 3\nfrok A B").expect_err("a typing error");
    assert!(error.to_string().starts_with("line 2: at `frok`: expected one of"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Lines of plausible words: whatever is accepted replays, whatever is refused names a line of the text.
    #[test]
    fn any_text_is_a_script_or_an_error_in_place(lines in prop::collection::vec(
        "(prefill|append|fork|free|preempt|resume|check|fail prefill|pressure) [AB]( [AB])?( [0-9]{1,2})?", 1..12,
    )) {
        let text = format!("prefill A 3\n{}\ncheck", lines.join("\n"));
        match parse_script(&text) {
            Ok(script) => {
                let shape = attnproof_oracle::Shape { q_heads: 1, kv_heads: 1, d: 4, dv: 4 };
                let case = crate::Case::new(crate::Family::User, "any", "a random script", shape, script);
                prop_assert!(crate::replay::replay(&case, 0).is_ok());
            }
            Err(error) => prop_assert!((2..=lines.len() + 2).contains(&error.line), "{error}\n{text}"),
        }
    }
}
