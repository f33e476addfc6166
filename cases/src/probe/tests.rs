//! Every fault that a decoder claims to see is seen and named; right kernels are silent.

mod kernel;

use attnproof_oracle::{Elem, Granularity, OutType, Shape};

use super::*;
use crate::case::Family;
use crate::fill::Content;
use crate::{Walk, parse_script};
use kernel::{Kernel, Order, Read, Rounding, right};

/// A case of one row with two KV heads, or one where the row is long.
fn case(fill: FillKind, len: usize) -> Case {
    let kv_heads = if len > 10_000 { 1 } else { 2 };
    let shape = Shape { q_heads: kv_heads, kv_heads, d: 64, dv: 64 };
    let script = parse_script(&format!("prefill A {len}\ncheck A")).expect("a valid script");
    let case = Case::new(Family::User, &format!("{}-{len}", fill.name()), "for a test", shape, script);
    Case { fill, blocks: 8192, ..case }
}

fn row(case: &Case) -> CheckRow {
    let check = Walk::new(case, 1).expect("a valid case").next().expect("one check").expect("a valid script");
    check.rows.into_iter().next().expect("one row")
}

/// What the first head of the kernel's outputs shows.
fn says(case: &Case, row: &CheckRow, kernel: &Kernel<'_>) -> Option<String> {
    let (o, lse) = kernel.run(case, row, 1);
    let findings = decode(case, row, 1, &o, &lse);
    // A decoder must not need the LSE.
    let without: Vec<f64> = lse.iter().map(|_| f64::NAN).collect();
    let blind = decode(case, row, 1, &o, &without);
    if case.fill == FillKind::Ballot {
        assert_eq!(findings, blind, "the LSE is a hint only");
    }
    findings.into_iter().find(|finding| finding.head == 0).map(|finding| finding.says)
}

fn each(reads: &mut [Read], change: impl FnMut(&mut Read)) {
    reads.iter_mut().for_each(change);
}

fn without(reads: &mut Vec<Read>, index: usize) {
    reads.remove(index);
}

fn with_fault(case: &Case, row: &CheckRow, fault: &dyn Fn(&mut Vec<Read>, &Range<usize>)) -> Option<String> {
    says(case, row, &Kernel { fault, ..right() })
}

/// Arithmetic of right kernels: orders, exp at the limit of WGSL, directed rounding, 16-bit weights and outputs.
fn legal() -> Vec<Kernel<'static>> {
    let formats = [OutType::F32, OutType::Bf16, OutType::F16];
    let orders = [Order::Forward, Order::Backward, Order::Splits(256), Order::Lanes(64)];
    let mut kernels = Vec::new();
    for (i, order) in orders.into_iter().enumerate() {
        for exp in [-1.0, 0.0, 1.0] {
            let (p, out) = (formats[(i + kernels.len()) % 3], formats[kernels.len() % 3]);
            kernels.push(Kernel { order, exp, p, out, ..right() });
        }
    }
    for (rounding, exp) in [(Rounding::Up, 1.0), (Rounding::Zero, -1.0), (Rounding::Up, 0.0)] {
        kernels.push(Kernel { rounding, exp, order: Order::Forward, ..right() });
        kernels.push(Kernel { rounding, exp, out: OutType::Bf16, ..right() });
    }
    kernels
}

const DECODED: [FillKind; 6] = [
    FillKind::Ballot,
    FillKind::Needle,
    FillKind::Octave,
    FillKind::Thermometer,
    FillKind::HeadConstant,
    FillKind::Saturation,
];

#[test]
fn right_kernels_are_silent() {
    for fill in DECODED {
        for len in [1, 16, 100, 1000] {
            let case = Case { softcap: (fill == FillKind::Saturation).then_some(50.0), ..case(fill, len) };
            let row = row(&case);
            for kernel in legal() {
                let said = says(&case, &row, &kernel);
                let Kernel { rounding, order, exp, p, out, .. } = kernel;
                assert_eq!(said, None, "{}: {rounding:?} {order:?} exp {exp} {p:?} {out:?}", case.name);
            }
        }
    }
}

#[test]
fn right_kernels_are_silent_under_every_option() {
    for fill in DECODED {
        let base = case(fill, 300);
        let shape = Shape { q_heads: 8, kv_heads: 2, d: 64, dv: 32 };
        let script = parse_script("prefill A 300\ncheck A q=3").expect("valid");
        let base = Case { shape, script, ..base };
        let cap = if fill == FillKind::Needle { 50.0 } else { 2.0 };
        let variants = [
            Case { window: Some(77), ..base.clone() },
            Case { alibi: true, ..base.clone() },
            Case { softcap: Some(cap), ..base.clone() },
            Case { sinks: true, ..base.clone() },
            Case { sinks: true, softcap: Some(cap), window: Some(9), ..base.clone() },
            Case { kv: Elem::F16, ..base.clone() },
            Case {
                kv: Elem::E4m3fn,
                k_scale: Granularity::Head,
                v_scale: Granularity::Block,
                ..base.clone()
            },
            Case {
                kv: Elem::E5m2fnuz,
                k_scale: Granularity::Token,
                v_scale: Granularity::Head,
                ..base.clone()
            },
            Case {
                kv: Elem::Int8,
                k_scale: Granularity::Block,
                v_scale: Granularity::Tensor,
                ..base.clone()
            },
        ];
        let mut judged = 0;
        for case in variants.iter().filter(|case| case.validate().is_ok()) {
            let row = row(case);
            for kernel in [right(), Kernel { p: OutType::Bf16, out: OutType::Bf16, exp: 1.0, ..right() }] {
                let (o, lse) = kernel.run(case, &row, 1);
                assert_eq!(decode(case, &row, 1, &o, &lse), [], "{}", case.id());
                judged += 1;
            }
        }
        assert!(judged >= 2, "{fill:?}");
    }
}

#[test]
fn ballot_names_keys() {
    for len in [100, 4096, 65_536] {
        let case = case(FillKind::Ballot, len);
        let row = row(&case);
        let middle = len * 2 / 3;
        let said = |fault: &dyn Fn(&mut Vec<Read>)| with_fault(&case, &row, &|reads, _| fault(reads));
        assert_eq!(said(&|_| {}), None);
        for key in [0, middle, len - 1] {
            let missing = said(&|reads| without(reads, key));
            assert_eq!(missing, Some(format!("key {key} missing")));
            let twice = said(&|reads| reads.push(reads[key]));
            assert_eq!(twice, Some(format!("key {key} counted twice")));
        }
        let neighbour = said(&|reads| reads[middle].v.0 += 1);
        assert_eq!(neighbour, Some(format!("V of key {middle} read as that of key {}", middle + 1)));
        let tile = said(&|reads| drop(reads.drain(16..48)));
        assert_eq!(tile.as_deref(), Some("keys 16..48 missing"));
        let again = said(&|reads| reads.extend_from_within(20..60));
        assert_eq!(again.as_deref(), Some("keys 20..60 counted twice"));
        let replaced = said(&|reads| (0..16).for_each(|slot| reads[16 + slot] = reads[64 + slot]));
        assert_eq!(replaced.as_deref(), Some("block 1 replaced by block 4"));
        let last = said(&|reads| {
            let (partial, start) = (len % 16, len / 16 * 16);
            (0..partial).for_each(|slot| reads[start + slot] = reads[32 + slot]);
        });
        let wanted = format!("block {} replaced by block 2", len / 16);
        assert_eq!(last, (len % 16 != 0).then_some(wanted), "the last block, visible in part");
        let two = said(&|reads| {
            reads.remove(70);
            reads.remove(7);
        });
        assert_eq!(two.as_deref(), Some("keys 7 and 70 missing"));
        let gain = said(&|reads| each(reads, |read| read.gain = 0.5));
        assert_eq!(gain.as_deref(), Some("gain 0.5000"));
        let sparse = said(&|reads| reads.retain(|read| read.at % 7 != 3));
        let sparse = sparse.expect("a fault");
        assert!(sparse.contains("other keys") || sparse.contains("many keys missing"), "{sparse}");
        let nothing = said(&|reads| each(reads, |read| read.gain = 0.0));
        assert_eq!(nothing.as_deref(), Some("output 0: no key read"));
        let weak = said(&|reads| reads[middle].gain = 4.0);
        assert_eq!(weak, Some(format!("V of key {middle} x 4.000")));
    }
}

#[test]
fn ballot_names_keys_in_16_bit_outputs_and_weights() {
    let case = case(FillKind::Ballot, 4096);
    let row = row(&case);
    for format in [OutType::Bf16, OutType::F16] {
        let said = |fault: &dyn Fn(&mut Vec<Read>, &Range<usize>)| {
            says(&case, &row, &Kernel { fault, p: format, out: format, exp: 1.0, ..right() })
        };
        assert_eq!(said(&|reads, _| without(reads, 999)).as_deref(), Some("key 999 missing"));
        assert_eq!(said(&|reads, _| drop(reads.drain(64..128))).as_deref(), Some("keys 64..128 missing"));
    }
}

#[test]
fn ballot_names_window_edges_and_future_keys() {
    for len in [100, 4096] {
        let script = parse_script(&format!("prefill A {len}\ncheck A q=2")).expect("valid");
        let case = Case { window: Some(37), script, ..case(FillKind::Ballot, len) };
        let row = row(&case);
        // The window of the first query token.
        let start = len - 38;
        let read = |key: usize| Read { k: (key, 0), v: (key, 0), at: key, gain: 1.0 };
        let said = |fault: &dyn Fn(&mut Vec<Read>, &Range<usize>)| with_fault(&case, &row, fault);
        assert_eq!(said(&|reads, _| without(reads, 0)), Some(format!("key {start} missing")));
        let extra = said(&|reads, visible| reads.push(read(visible.start - 1)));
        assert_eq!(extra, Some(format!("key {} extra (outside the window)", start - 1)));
        let run = said(&|reads, visible| reads.extend((visible.start - 5..visible.start).map(read)));
        assert_eq!(run, Some(format!("keys {}..{start} extra (outside the window)", start - 5)));
        let future = said(&|reads, visible| {
            if visible.end < len {
                reads.push(read(visible.end));
            }
        });
        assert_eq!(future, Some(format!("key {} extra (after the query)", len - 1)));
    }
}

#[test]
fn ballot_names_heads_strangers_and_unequal_weights() {
    for len in [100, 4096] {
        let pressured = parse_script(&format!("pressure 3\nprefill A {len}\ncheck A")).expect("valid");
        let case = Case { script: pressured, ..case(FillKind::Ballot, len) };
        let mut row = row(&case);
        let other = with_fault(&case, &row, &|reads, _| {
            each(reads, |read| read.v.1 = 1 - read.v.1);
        });
        assert_eq!(other.as_deref(), Some("KV head 0 read as 1"));
        let tilted = with_fault(&case, &row, &|reads, _| {
            each(reads, |read| read.gain = 1.0 + read.at as f64 / 64.0);
        });
        assert!(tilted.is_some_and(|said| said.contains("weights unequal")));
        let uneven = with_fault(&case, &row, &|reads, _| {
            reads.iter_mut().step_by(9).for_each(|read| read.gain = 1.1);
        });
        assert_eq!(uneven.as_deref(), Some("sum not an integer: weights unequal"));

        // The last key's slot holds what others wrote; the decoder compares with what it should hold.
        let clean = row.clone();
        let foreign = Content::new(&case, 1).foreign(2);
        let stranger = |dim: usize| case.kv.decode(foreign.v[dim]);
        row.v.slice_mut(s![len - 1, 0, ..]).iter_mut().enumerate().for_each(|(dim, v)| *v = stranger(dim));
        let read_back = |row: &CheckRow| {
            let (o, lse) = right().run(&case, row, 1);
            decode(&case, &clean, 1, &o, &lse).into_iter().next().map(|finding| finding.says)
        };
        assert_eq!(read_back(&row).as_deref(), Some("read from block 2 of another tenant"));
        let check = Walk::new(&case, 2).expect("valid").next().expect("one check").expect("valid");
        row.v.slice_mut(s![len - 1, 0, ..]).assign(&check.rows[0].v.slice(s![5, 0, ..]));
        let wanted = format!("key {} replaced by one that this row does not have", len - 1);
        assert_eq!(read_back(&row), Some(wanted));
        row.v.slice_mut(s![len - 1, 0, ..]).fill(8192.0);
        assert_eq!(read_back(&row).as_deref(), Some("read from slots that were never written"));
    }
}

#[test]
fn ballot_sees_a_wrong_slope() {
    for len in [100, 4096] {
        let case = Case { alibi: true, ..case(FillKind::Ballot, len) };
        let row = row(&case);
        assert_eq!(says(&case, &row, &right()), None);
        for slope in [0.0, 0.5, 2.0, 1.01] {
            let said = says(&case, &row, &Kernel { slope, ..right() }).expect("a fault");
            assert!(said.contains("weights unequal"), "x {slope}: {said}");
        }
    }
}

#[test]
fn needle_names_keys_heads_and_gains() {
    for len in [100, 4096, 65_536] {
        let case = case(FillKind::Needle, len);
        let row = row(&case);
        let target = row.targets.iter().find(|target| target.head == 0).expect("a target").key;
        let said = |fault: &dyn Fn(&mut Vec<Read>)| with_fault(&case, &row, &|reads, _| fault(reads));
        assert_eq!(said(&|_| {}), None);
        let missing = said(&|reads| without(reads, target));
        assert_eq!(missing, Some(format!("key {target} missing")));
        let twice = said(&|reads| reads.push(reads[target]));
        assert_eq!(twice, Some(format!("key {target} counted 2 times")));
        let neighbour = said(&|reads| reads[target].v.0 += 1);
        assert_eq!(neighbour, Some(format!("V of key {target} read as that of key {}", target + 1)));
        let gain = said(&|reads| each(reads, |read| read.gain = 0.5));
        assert_eq!(gain.as_deref(), Some("gain 0.5000"));
        let spread = said(&|reads| reads[9].k.0 = target);
        assert_eq!(spread, Some(format!("the weight is not on key {target} alone")));
        if case.shape.kv_heads == 1 {
            continue;
        }
        let v = said(&|reads| each(reads, |read| read.v.1 = 1 - read.v.1));
        assert_eq!(v.as_deref(), Some("V of KV head 0 read as that of 1"));
        let k = said(&|reads| each(reads, |read| read.k.1 = 1 - read.k.1));
        assert_eq!(k.as_deref(), Some("K of KV head 0 read as that of 1"));
        let both = said(&|reads| {
            each(reads, |read| (read.k.1, read.v.1) = (1 - read.k.1, 1 - read.v.1));
        });
        assert_eq!(both.as_deref(), Some("KV head 0 read as 1"));
    }
}

#[test]
fn a_needle_that_is_none_says_nothing() {
    // a long row under ALiBi with a sink: the bias leaves the target a subnormal share of V
    let mut case = case(FillKind::Needle, 1619);
    (case.alibi, case.sinks, case.shape) = (true, true, Shape { q_heads: 2, kv_heads: 2, d: 32, dv: 4 });
    case.name = "sweep-815".to_owned();
    let row = row(&case);
    for kernel in legal() {
        assert_eq!(says(&case, &row, &kernel), None);
    }
}

#[test]
fn needle_sees_reads_outside_and_a_wrong_lse() {
    let case = Case { window: Some(50), ..case(FillKind::Needle, 400) };
    let row = row(&case);
    let target = row.targets[0].key;
    let outside = with_fault(&case, &row, &|reads, _| {
        reads.iter_mut().filter(|read| read.k.0 == target).for_each(|read| read.v.0 = 3);
    });
    assert_eq!(outside, Some(format!("V of key {target} read as that of key 3 (outside the window)")));
    let (o, mut lse) = right().run(&case, &row, 1);
    lse[0] += 0.25;
    assert_eq!(decode(&case, &row, 1, &o, &lse)[0].says, "LSE off by 0.2500");
}

#[test]
fn octave_and_thermometer_measure_the_scale() {
    for len in [100, 4096, 65_536] {
        for (fill, factors) in
            [(FillKind::Octave, vec![1.001, 0.9999, 1.2, 2.0, 8.0]), (FillKind::Thermometer, vec![1.02, 0.5])]
        {
            let case = case(fill, len);
            let row = row(&case);
            assert_eq!(says(&case, &row, &right()), None);
            for scale in factors {
                let said = says(&case, &row, &Kernel { scale, ..right() });
                let said = said.unwrap_or_default();
                let factor: f64 = said.strip_prefix("scale x ").and_then(|x| x.parse().ok()).unwrap_or(0.0);
                assert!((factor / scale - 1.0).abs() < 1e-5, "{} x {scale}: {said}", case.name);
            }
        }
    }
    let case = Case { softcap: Some(30.0), ..case(FillKind::Thermometer, 500) };
    let row = row(&case);
    let said = says(&case, &row, &Kernel { softcap: false, ..right() });
    assert_eq!(said.as_deref(), Some("softcap missing"));
}

#[test]
fn head_constant_names_the_head() {
    for len in [100, 4096] {
        let case = case(FillKind::HeadConstant, len);
        let row = row(&case);
        let v = with_fault(&case, &row, &|reads, _| {
            each(reads, |read| read.v.1 = 1 - read.v.1);
        });
        assert_eq!(v.as_deref(), Some("V of KV head 0 read as that of 1"));
        let gain = with_fault(&case, &row, &|reads, _| each(reads, |read| read.gain = 2.0));
        assert_eq!(gain.as_deref(), Some("gain 2.0000"));
        let mixed = with_fault(&case, &row, &|reads, _| {
            reads.iter_mut().step_by(2).for_each(|read| read.v.1 = 1 - read.v.1);
        });
        assert_eq!(mixed.as_deref(), Some("not the V of any one KV head"));
    }
}

#[test]
fn an_output_that_is_no_number_is_named() {
    let case = Case { softcap: Some(50.0), ..case(FillKind::Saturation, 100) };
    let row = row(&case);
    let (mut o, lse) = right().run(&case, &row, 1);
    o[5] = f64::NAN;
    let findings = decode(&case, &row, 1, &o, &lse);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].says, "output NaN: a tanh of exponentials overflows so");
}

#[test]
fn an_xray_reads_every_weight_back() {
    let scaled = Case {
        kv: Elem::E4m3fn,
        k_scale: Granularity::Token,
        v_scale: Granularity::Token,
        ..case(FillKind::Plain, 150)
    };
    for case in [case(FillKind::Plain, 150), scaled] {
        let whole = row(&case);
        let mut sum = 0.0;
        let mut keys = 0;
        for pass in 0..150_usize.div_ceil(64) {
            let walk = Walk::new(&case, 1).expect("valid").with_xray(pass);
            let row = walk.map(|check| check.expect("valid").rows.remove(0)).next().expect("one row");
            assert_eq!((&row.q, &row.k), (&whole.q, &whole.k));
            let (o, _) = right().run(&case, &row, 1);
            let read = weights(&case, &row, &o);
            assert_eq!(read.keys, pass * 64..150.min(pass * 64 + 64));
            assert_eq!(read.weights.dim(), (1, 2, read.keys.len()));
            sum += read.weights.slice(s![0, 1, ..]).sum();
            keys += read.keys.len();
        }
        assert_eq!(keys, 150);
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    }
}

#[test]
fn stored_codes_are_what_the_dense_row_decodes() {
    let case = Case {
        kv: Elem::Int8,
        k_scale: Granularity::Head,
        v_scale: Granularity::Token,
        ..case(FillKind::Plain, 40)
    };
    assert_eq!(row(&case).stored, []);
    let walk = Walk::new(&case, 1).expect("valid").with_stored(true);
    let row = walk.map(|check| check.expect("valid").rows.remove(0)).next().expect("one row");
    assert_eq!(row.stored.len(), 40);
    let token = &row.stored[7];
    assert_eq!(row.v[[7, 1, 3]], case.kv.decode(token.v[64 + 3]) * f64::from(token.v_scale[1]));
}
