//! The catalogue is complete, its ids stay as they are, and bad files are refused with place and field.

use std::collections::BTreeSet;

use super::*;

/// The ids of the thirty: results are compared by them, so a change here is a change of the suite.
const IDS: [&str; 30] = [
    "decode:one-token-four-splits;hq=4;hk=4;d=64;block=16;splits=4;kv=f32",
    "decode:exactly-full-final-block;hq=4;hk=4;d=64;block=16;kv=f32",
    "decode:one-token-in-new-block;hq=4;hk=4;d=64;block=16;kv=f32",
    "decode:ragged-batch-empty-row;hq=4;hk=2;d=64;block=16;kv=f32",
    "decode:long-prime-high-slots;hq=2;hk=1;d=32;block=16;blocks=4400;first=4200;split=256;kv=f32",
    "decode:mqa-16x1;hq=16;hk=1;d=64;block=16;kv=f32",
    "decode:gqa-6x2-group-of-3;hq=6;hk=2;d=64;block=16;kv=f32",
    "decode:head-dim-80;hq=8;hk=2;d=80;block=16;kv=f32",
    "decode:head-dim-256-block-32;hq=2;hk=2;d=256;block=32;blocks=16;kv=f32",
    "decode:alibi-scattered-descending;hq=8;hk=8;d=64;block=16;blocks=10;kv=f32;alibi=yes",
    "decode:alibi-gqa-12x3;hq=12;hk=3;d=64;block=16;kv=f32;alibi=yes",
    "decode:window-starts-mid-block;hq=4;hk=2;d=64;block=16;blocks=12;kv=f32;window=24",
    "decode:window-longer-than-sequence;hq=4;hk=4;d=64;block=16;kv=f32;window=128",
    "decode:window-release-reuse-alibi;hq=4;hk=2;d=64;block=16;blocks=14;kv=f32;window=36;release=yes;alibi=yes",
    "decode:same-block-different-parent;hq=4;hk=2;d=64;block=16;kv=f32",
    "decode:same-prompt-other-salt;hq=4;hk=2;d=64;block=16;kv=f32",
    "decode:evicted-prefix-must-miss;hq=4;hk=2;d=64;block=16;blocks=12;kv=f32",
    "decode:hit-revives-freed-blocks;hq=4;hk=2;d=64;block=16;blocks=16;kv=f32",
    "decode:whole-prompt-cached;hq=4;hk=2;d=64;block=16;kv=f32",
    "decode:nested-prefix-scattered-rows;hq=8;hk=2;d=64;block=16;blocks=80;kv=f32",
    "decode:prefix-ends-mid-block;hq=4;hk=2;d=64;block=16;kv=f32",
    "decode:fork-parent-writes-first;hq=4;hk=2;d=64;block=16;kv=f32",
    "decode:fork-at-block-boundary;hq=4;hk=2;d=64;block=16;kv=f32",
    "decode:three-owners-free-middle;hq=4;hk=2;d=64;block=16;blocks=8;kv=f32",
    "decode:fp8-tensor-saturate-subnormal;hq=4;hk=2;d=64;block=16;kv=e4m3fn;scales=tensor/tensor;fill=outliers",
    "decode:fp8-head-scale-gqa;hq=8;hk=4;d=64;block=16;kv=e4m3fn;scales=head/head",
    "decode:fp8-block-scale-copy-on-write;hq=4;hk=2;d=64;block=16;blocks=16;kv=e4m3fn;scales=block/block",
    "decode:fp8-token-scale-recycled-block;hq=4;hk=2;d=64;block=16;blocks=12;kv=e4m3fn;scales=token/token",
    "decode:alibi-shared-prefix-unequal-suffix;hq=8;hk=8;d=64;block=16;kv=f32;alibi=yes",
    "decode:window-shared-prefix-unequal;hq=4;hk=2;d=64;block=16;kv=f32;window=40",
];

#[test]
fn the_thirty_with_stable_ids() {
    let ids: Vec<String> = thirty().iter().map(Case::id).collect();
    assert_eq!(ids, IDS);
}

#[test]
fn names_are_unique_and_every_case_says_why() {
    let cases: Vec<Case> = [thirty(), extra(), probes(), random()].concat();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let whys: BTreeSet<&str> = cases.iter().map(|case| case.why.as_str()).collect();
    assert_eq!((names.len(), whys.len()), (cases.len(), cases.len()));
    assert!(cases.iter().all(|case| case.why.ends_with('.') && case.why.len() > 20));
}

#[test]
fn the_extra_family_covers_what_the_thirty_do_not() {
    use attnproof_oracle::{BiasOrder, Causal, Elem, Granularity};
    let extra = extra();
    let some = |what: &dyn Fn(&Case) -> bool| extra.iter().any(what);
    for elem in Elem::ALL {
        assert!(some(&|case| case.kv == elem), "{}", elem.name());
    }
    for granularity in Granularity::ALL {
        assert!(some(&|case| case.k_scale == granularity), "K {}", granularity.name());
        assert!(some(&|case| case.v_scale == granularity), "V {}", granularity.name());
    }
    assert!(some(&|case| case.causal == Causal::TopLeft) && some(&|case| case.causal == Causal::None));
    assert!(some(&|case| case.bias_order == BiasOrder::AlibiThenCap));
    assert!(some(&|case| case.shape.dv < case.shape.d) && some(&|case| case.shape.dv > case.shape.d));
    assert!(some(&|case| case.sinks && case.window.is_some()) && some(&|case| case.slot_pad > 0));
}

const GOOD: &str = "[[case]]
name = \"one\"
why = \"To be changed by the tests.\"
hq = 4
hk = 2
d = 64
script = \"\"\"
prefill A 5
check A
\"\"\"
";

fn refusal(text: &str) -> CatalogueError {
    from_toml(text, "mine.toml", Family::User).expect_err("must be refused")
}

#[test]
fn a_users_file() {
    let text = format!("{GOOD}dv = 32\nkv = \"e5m2\"\nscales = \"head/token\"\nwindow = 7\nscale = 1\n");
    let cases = from_toml(&text, "mine.toml", Family::User).expect("valid");
    assert_eq!(
        cases[0].id_for("classic-paged"),
        "user:one;layout=classic-paged;hq=4;hk=2;d=64;dv=32;block=16;kv=e5m2;scales=head/token;scale=1;window=7"
    );
}

#[test]
fn refusals_name_file_line_case_and_field() {
    let with = |line: &str| format!("{GOOD}{line}\n");
    let table = [
        (with("colour = 3"), 11, "colour", "unknown key"),
        (with("layout = \"x\""), 11, "layout", "unknown key"),
        (with("kv = \"e4m3\""), 11, "kv", "`e4m3` is not one of f32 f16"),
        (with("kv = 3"), 11, "kv", "expected a string, found integer"),
        (with("scales = \"head\""), 11, "scales", "`head` is not K/V"),
        (with("kv = \"int8\""), 1, "scales", "int8 needs scales"),
        (with("block = 12"), 11, "block", "power of two"),
        (with("blocks = -1"), 11, "blocks", "`-1` is not a whole number in range"),
        (with("window = 0"), 11, "window", "at least 1"),
        (with("release = true"), 11, "release", "needs a window"),
        (
            with("release = true\nwindow = 4").replace("check A\n", "check A q=2\n"),
            11,
            "release",
            "one query token",
        ),
        (with("release = true\nwindow = 4\ncausal = \"top_left\""), 11, "release", "bottom-right"),
        (with("scale = 1e-40"), 11, "scale", "no subnormal"),
        (with("softcap = -1.0"), 11, "softcap", "above 0"),
        (with("softcap = true"), 11, "softcap", "expected a number"),
        (with("alibi = 1"), 11, "alibi", "expected true or false"),
        (with("pad = 4"), 11, "pad", "multiple of 16"),
        (with("first = 64"), 11, "first", "less than blocks"),
        (with("split = 24"), 11, "split", "multiple of block"),
        (with("dv = 512"), 11, "dv", "4 to 256"),
        (with("causal = \"up\""), 11, "causal", "bottom_right top_left none"),
        (GOOD.replace("hk = 2", "hk = 3"), 5, "hk", "must divide hq"),
        (GOOD.replace("hk = 2\n", ""), 1, "hk", "missing"),
        (GOOD.replace("d = 64", "d = 30"), 6, "d", "multiple of 4"),
        (GOOD.replace("prefill A 5", "prefil A 5"), 8, "script", "at `prefil`: expected one of"),
        (
            GOOD.replace("prefill A 5", "prefill A 5 hits=no"),
            8,
            "script",
            "at `hits=no`: expected hits=N with a whole number",
        ),
        (
            GOOD.replace("check A\n", "prefill B A:40 hits=20\ncheck A\n"),
            9,
            "script",
            "hits=20 must be a multiple of block (16)",
        ),
        (GOOD.replace("check A\n", "check B\n"), 9, "script", "at `check B`: expected a live row"),
        (GOOD.replace("To be changed by the tests.", " "), 3, "why", "what the case is for"),
        (format!("{GOOD}\n{GOOD}"), 13, "name", "used already by the case at line 1"),
    ];
    for (text, line, field, reason) in table {
        let error = refusal(&text);
        assert_eq!((error.line, error.field.as_deref()), (line, Some(field)), "{error}");
        assert_eq!(error.case.as_deref(), Some("one"));
        assert!(error.reason.contains(reason), "{error}");
    }
    let shown = refusal(&with("kv = \"e4m3\"")).to_string();
    assert!(shown.starts_with("mine.toml:11: case one: kv: `e4m3` is not one of"), "{shown}");
    let inline = GOOD.replace("\"\"\"\nprefill A 5\ncheck A\n\"\"\"", "\"prefil A 5\"");
    assert_eq!(refusal(&inline).line, 7);
}

#[test]
fn files_that_are_no_case_files() {
    for (text, line, reason) in [
        ("", 1, "no cases"),
        ("# nothing\n", 1, "no cases"),
        ("case = []\n", 1, "no cases"),
        ("case = [3]\n", 1, "expected a [[case]] table"),
        ("x = 1\n", 1, "unknown key `x`"),
        ("\n[[case]\n", 2, ""),
    ] {
        let error = refusal(text);
        assert_eq!((error.line, error.case.as_deref()), (line, None), "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
    let nameless = refusal("[[case]]\nhq = 1\n");
    assert_eq!((nameless.case, nameless.field.as_deref()), (None, Some("d")));
}

#[test]
fn huge_numbers_are_refused_without_overflow() {
    let huge = format!("{GOOD}blocks = 4294967295\npad = 4294967280\n");
    assert_eq!(refusal(&huge).field.as_deref(), Some("blocks"));
    let huge =
        GOOD.replace("d = 64", "d = 9223372036854775804").replace("hk = 2", "hk = 9223372036854775804");
    assert_eq!(refusal(&huge).field.as_deref(), Some("hk"));
}
