//! Rows made up for the tests: a small fixed set, the thirty cases on five layouts, and hostile strings.

use attnproof_report::{Adapter, Counts, Diagnosis, Guess, Num, Over, Reads, Row, Status, Touched, Worst};

pub(crate) const LAYOUTS: [&str; 5] = [
    "classic-paged",
    "packed-block-table",
    "hot-tail-contiguous",
    "virtual-contiguous",
    "hybrid-prefix-shared",
];

pub(crate) const CASES: [&str; 30] = [
    "one-token-four-splits",
    "exactly-full-final-block",
    "one-token-in-new-block",
    "ragged-batch-empty-row",
    "long-prime-high-slots",
    "mqa-16x1",
    "gqa-6x2-group-of-3",
    "head-dim-80",
    "head-dim-256-block-32",
    "alibi-scattered-descending",
    "alibi-gqa-12x3",
    "window-starts-mid-block",
    "window-longer-than-sequence",
    "window-release-reuse-alibi",
    "same-block-different-parent",
    "same-prompt-other-salt",
    "evicted-prefix-must-miss",
    "hit-revives-freed-blocks",
    "whole-prompt-cached",
    "nested-prefix-scattered-rows",
    "prefix-ends-mid-block",
    "fork-parent-writes-first",
    "fork-at-block-boundary",
    "three-owners-free-middle",
    "fp8-tensor-saturate-subnormal",
    "fp8-head-scale-gqa",
    "fp8-block-scale-copy-on-write",
    "fp8-token-scale-recycled-block",
    "alibi-shared-prefix-unequal-suffix",
    "window-shared-prefix-unequal",
];

pub(crate) fn llvmpipe() -> Adapter {
    Adapter {
        name: "llvmpipe (LLVM 15.0.6, 256 bits)".to_owned(),
        backend: "vulkan".to_owned(),
        driver: "Mesa 22.3.6".to_owned(),
    }
}

pub(crate) fn host() -> Adapter {
    Adapter { name: "cpu".to_owned(), backend: "cpu".to_owned(), driver: String::new() }
}

/// A passing row of the built-in shader, without reads or counts.
pub(crate) fn row(name: &str, layout: &str) -> Row {
    Row {
        id: format!("decode:{name};layout={layout};kv=f32"),
        name: name.to_owned(),
        layout: layout.to_owned(),
        kernel: "wgsl".to_owned(),
        adapter: llvmpipe(),
        status: Status::Pass,
        detail: None,
        budget_used: Some(0.25),
        over: None,
        worst: Some(Worst {
            tensor: "o".to_owned(),
            check: 0,
            row: "A".to_owned(),
            index: vec![0, 3, 17],
            got: Num(0.984_375),
            want: Num(0.984_371),
            bound: Num(0.000_016),
        }),
        diagnosis: None,
        acceptance: None,
        reads: None,
        counts: None,
        model: "wgsl-letter".to_owned(),
        seed: "0x5eed".to_owned(),
        suite: "1".to_owned(),
        inputs_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        version: "0.1.0".to_owned(),
        limits: Some([("max_storage_buffers_per_shader_stage".to_owned(), 8)].into()),
        why: None,
        time_ms: 4.25,
    }
}

pub(crate) fn twin(mut row: Row) -> Row {
    row.kernel = "cpu-twin".into();
    row.adapter = host();
    row.model = "strict".into();
    row
}

pub(crate) fn with_status(mut row: Row, status: Status, detail: &str) -> Row {
    row.status = status;
    row.detail = Some(detail.to_owned());
    row
}

/// An output outside its bound, as a dropped block leaves it.
pub(crate) fn wrong(row: Row) -> Row {
    let mut row = with_status(row, Status::Wrong, "check 0: o is wrong");
    let guess =
        |id: &str, says: &str, used| Guess { id: id.to_owned(), says: says.to_owned(), used: Num(used) };
    row.diagnosis = Some(Diagnosis {
        unwritten: false,
        explained: true,
        best: Some(guess("drop-last-block", "last partial block dropped", 0.4)),
        next: Some(guess("drop-last-token", "last token dropped", 57.0)),
        seen: Vec::new(),
    });
    row.budget_used = Some(61.28);
    row.over = Some(Over { tensor: "o".to_owned(), over: 1024, total: 24_576 });
    row.worst = Some(Worst {
        tensor: "o".to_owned(),
        check: 0,
        row: "B".to_owned(),
        index: vec![0, 4, 17],
        got: Num::from(0.0312_f32),
        want: Num(0.9883),
        bound: Num(0.015_617),
    });
    row.why = Some("block with one token dropped".to_owned());
    row
}

/// A NaN where a number belongs: no multiple of the bound admits it.
pub(crate) fn nonfinite(row: Row) -> Row {
    let mut row = with_status(row, Status::Nonfinite, "o is NaN where the oracle is finite");
    row.budget_used = None;
    row.over = Some(Over { tensor: "lse".to_owned(), over: 1, total: 8 });
    row.worst = Some(Worst {
        tensor: "lse".to_owned(),
        check: 1,
        row: "A".to_owned(),
        index: vec![0, 2],
        got: Num(f64::NAN),
        want: Num(f64::NEG_INFINITY),
        bound: Num(0.0),
    });
    row
}

pub(crate) fn reads(loads: u64, needed: u64) -> Reads {
    let touched = Touched { loads, words: loads / 2, sectors: loads / 12, lines: loads / 40 };
    let table = Touched { loads: loads / 50, words: 12, sectors: 2, lines: 1 };
    Reads {
        k: touched,
        v: touched,
        tables: table,
        scales: Touched::default(),
        needed_bytes: needed,
        unique_bytes: needed / 2,
        predicted_equal: true,
        predicted: None,
    }
}

pub(crate) fn counts() -> Counts {
    Counts {
        prompt_tokens: 64,
        hit_tokens: 48,
        hit_blocks: 3,
        mid_block_tokens: 5,
        copies: 1,
        evictions: 2,
        reused_blocks: 4,
        released_blocks: 0,
        checks: 2,
    }
}

/// Six rows: the set the snapshots are taken of.
pub(crate) fn small() -> Vec<Row> {
    let mut rows = Vec::new();
    for (i, layout) in ["classic-paged", "hot-tail-contiguous"].into_iter().enumerate() {
        let mut measured = row("head-dim-80", layout);
        measured.reads = Some(reads(24_000 + 6000 * i as u64, 96_000));
        measured.counts = Some(counts());
        rows.push(measured);
        rows.push(row("mqa-16x1", layout));
    }
    rows[1] = wrong(row("mqa-16x1", "classic-paged"));
    rows.push(twin(row("head-dim-80", "classic-paged")));
    let mut unsupported =
        twin(with_status(row("mqa-16x1", "classic-paged"), Status::Unsupported, "needs nan_k"));
    unsupported.budget_used = None;
    unsupported.worst = None;
    rows.push(unsupported);
    rows
}

/// Three hundred rows: thirty cases, five layouts, the shader and the twin; a few of them not a pass.
pub(crate) fn full() -> Vec<Row> {
    let mut rows = Vec::new();
    for shader in [true, false] {
        for (c, name) in CASES.into_iter().enumerate() {
            for (l, layout) in LAYOUTS.into_iter().enumerate() {
                let mut one = row(name, layout);
                // Shares spread over four decades, the same in every run.
                let step = (c * 37 + l * 11) % 40;
                one.budget_used = Some(
                    [1.0, 1.3, 1.8, 2.4, 3.3, 4.6, 6.1, 8.2, 9.1, 9.7][step % 10]
                        * [1e-4, 1e-3, 1e-2, 9e-2][step / 10],
                );
                one.why = Some("only the first 16 tiles are read; a slot is cut to 16 bits".to_owned());
                one.counts = Some(counts());
                let needed = 40_000 + 900 * c as u64;
                one.reads = Some(reads(needed / 8 * (10 + [0, 1, 3, 2, 5][l]) / 10 * 3 / 2, needed));
                rows.push(if shader { one } else { twin(one) });
            }
        }
    }
    rows[11] = wrong(rows[11].clone());
    rows[12] = wrong(rows[12].clone());
    rows[48] = nonfinite(rows[48].clone());
    rows[103] = with_status(
        rows[103].clone(),
        Status::Invariant,
        "block 7: reference count 0, still in the table of B",
    );
    rows[121] = with_status(rows[121].clone(), Status::Unsupported, "profile has no e4m3fn");
    rows[122] = with_status(rows[122].clone(), Status::Waived, "issue 12, until 2027-01-31");
    rows[149] = with_status(rows[149].clone(), Status::NotRun, "deadline of 60 s reached");
    for at in [121, 149] {
        rows[at].budget_used = None;
        rows[at].worst = None;
        rows[at].reads = None;
    }
    rows
}

/// Every foreign string as unpleasant as a user's manifest or a driver can make it.
pub(crate) fn hostile() -> Row {
    let nasty = "<script>alert(1)</script>\u{0}\u{1b}[31m\u{202e}|`x`*_\"'&amp;]]>\n@everyone\u{7f}\u{fffe}";
    let mut row = wrong(row("x", "y"));
    row.id = format!("{nasty}{}", "long".repeat(20_000));
    row.name = nasty.into();
    row.layout = nasty.into();
    row.kernel = format!("sh -c {nasty}");
    row.adapter = Adapter { name: nasty.to_owned(), backend: nasty.to_owned(), driver: nasty.to_owned() };
    row.detail = Some(nasty.repeat(1000));
    row.why = Some(nasty.to_owned());
    row.model = nasty.into();
    row.seed = nasty.into();
    row.suite = nasty.into();
    row.version = nasty.into();
    row.inputs_sha256 = nasty.into();
    row.limits = Some([(nasty.to_owned(), u64::MAX)].into());
    if let Some(worst) = &mut row.worst {
        worst.tensor = nasty.into();
        worst.row = nasty.into();
    }
    row
}
