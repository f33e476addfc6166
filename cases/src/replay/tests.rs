//! Deep copies, digests, and a reference answer for every case.

use std::collections::BTreeSet;

use attnproof_oracle::{Model, Row as OracleRow, Shape, attention, bounds};
use ndarray::Array2;

use super::*;
use crate::case::Family;
use crate::query::visible_range;
use crate::tiers::FAST_KEYS;
use crate::{Tier, catalogue, parse_script};

fn case(script: &str) -> Case {
    let shape = Shape { q_heads: 4, kv_heads: 2, d: 32, dv: 16 };
    Case::new(Family::User, "mine", "for a test", shape, parse_script(script).expect("a valid script"))
}

#[test]
fn a_fork_is_a_deep_copy() {
    let case = case("prefill A 20\nfork A B\nappend B 3\nappend A 2\ncheck A B\nfree A\ncheck B");
    let checks = replay(&case, 0).expect("valid").checks;
    let (a, b) = (&checks[0].rows[0], &checks[0].rows[1]);
    assert_eq!((a.len, b.len), (22, 23));
    let (until, after) = (20, 20..22);
    assert_eq!(a.k.slice(ndarray::s![..until, .., ..]), b.k.slice(ndarray::s![..until, .., ..]));
    assert_eq!(a.identity[..20], b.identity[..20]);
    for position in after {
        assert_ne!(a.k.index_axis(ndarray::Axis(0), position), b.k.index_axis(ndarray::Axis(0), position));
        assert_ne!(a.identity[position], b.identity[position]);
    }
    assert_eq!(b.k, checks[1].rows[0].k, "freeing the parent changes nothing");
}

#[test]
fn a_resumed_row_has_what_it_had() {
    let case = case("prefill A 20\nappend A 5\ncheck A\npreempt A\npressure 9\nresume A\ncheck A");
    let checks = replay(&case, 0).expect("valid").checks;
    assert_eq!(checks[0].rows[0].k, checks[1].rows[0].k);
    assert_eq!(checks[0].rows[0].v, checks[1].rows[0].v);
    assert_eq!(checks.iter().map(|check| check.op).collect::<Vec<_>>(), [2, 6]);
}

#[test]
fn query_tokens_are_the_last_ones_and_an_empty_row_has_one() {
    let case = case("prefill A 20\nprefill Z 0\nprefill S 2\ncheck A Z S q=3");
    let rows = &replay(&case, 0).expect("valid").checks[0].rows;
    assert_eq!(rows.iter().map(|row| (row.len, row.q_len)).collect::<Vec<_>>(), [(20, 3), (0, 1), (2, 2)]);
    assert_eq!(rows[0].q.dim(), (3, 4, 32));
    assert_eq!((rows[1].k.dim(), rows[1].v.dim()), ((0, 2, 32), (0, 2, 16)));
}

#[test]
fn the_digest_covers_the_inputs() {
    let base = case("prefill A 20\ncheck A");
    let digest = |case: &Case, seed| replay(case, seed).expect("valid").inputs_sha256;
    let first = digest(&base, 0);
    assert_eq!(first.len(), 64);
    assert_eq!(first, digest(&base, 0));
    let with_sinks = Case { sinks: true, ..base.clone() };
    let salted = case("prefill A 20 salt=1\ncheck A");
    let renamed = Case { name: "yours".to_owned(), ..base.clone() };
    let others = [digest(&base, 1), digest(&with_sinks, 0), digest(&salted, 0), digest(&renamed, 0)];
    for (i, other) in others.iter().enumerate() {
        assert_ne!(first, *other, "change {i}");
    }
}

#[test]
fn hand_made_scripts_are_checked() {
    let mut case = case("prefill A 20\ncheck A");
    case.script.ops.insert(1, Op::Free { rows: vec!["A".to_owned()] });
    let error = replay(&case, 0).expect_err("A is not live any more");
    assert_eq!(error.to_string(), "case mine: operation 2 (line 0): row `A` is not live");
    case.script.ops.insert(1, Op::Fork { parent: "A".to_owned(), child: "A".to_owned() });
    assert!(replay(&case, 0).expect_err("twice").to_string().contains("is live already"));
}

/// Calls `visit` with every row of every case of a tier.
fn each_row(tier: Tier, mut visit: impl FnMut(&Case, &CheckRow)) {
    for case in tier.cases() {
        for check in Walk::new(&case, 0).expect("valid") {
            check.expect("valid").rows.iter().for_each(|row| visit(&case, row));
        }
    }
}

#[test]
fn every_case_has_a_finite_answer_and_a_guarantee() {
    let mut rows = 0;
    each_row(Tier::Fast, |case, row| {
        let spec = case.spec(0).expect("valid");
        let q = row.q.mapv(f64::from);
        let asked = OracleRow { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
        let name = format!("{} {}", case.name, row.name);
        for model in [Model::strict(), Model::wgsl_letter()] {
            let (answer, bounds) = bounds(&spec, &asked, &model).expect("shapes fit");
            assert!(answer.o.iter().all(|o| o.is_finite()), "{name}");
            assert!(answer.lse.iter().all(|lse| lse.is_finite() == (row.len > 0 || case.sinks)), "{name}");
            assert!(bounds.ok.iter().all(|ok| *ok), "{name}: no finite guarantee under {}", model.name);
        }
        rows += 1;
    });
    assert!(rows > 110, "{rows}");
}

/// The long cases, of which one query token and head is as good as all: their heads differ in codes only.
#[test]
fn every_long_case_has_a_finite_answer_and_a_guarantee() {
    let mut rows = 0;
    each_row(Tier::Full, |case, row| {
        if row.len <= FAST_KEYS {
            return;
        }
        let name = format!("{} {}", case.name, row.name);
        assert!(row.q.iter().all(|x| x.is_finite()) && row.k.iter().all(|x| x.is_finite()), "{name}");
        let spec = Case { shape: one_head(case), sinks: false, ..case.clone() }.spec(0).expect("valid");
        let q = row.q.slice(ndarray::s![.., ..1, ..]).mapv(f64::from);
        let [k, v] = [&row.k, &row.v].map(|x| x.slice(ndarray::s![.., ..1, ..]));
        let asked = OracleRow { q: q.view(), k, v, mask: None };
        for model in [Model::strict(), Model::wgsl_letter()] {
            let (answer, bounds) = bounds(&spec, &asked, &model).expect("shapes fit");
            assert!(answer.o.iter().chain(&answer.lse).all(|o| o.is_finite()), "{name}");
            assert!(bounds.ok.iter().all(|ok| *ok), "{name}: no finite guarantee under {}", model.name);
        }
        rows += 1;
    });
    assert!(rows > 15, "{rows}");
}

/// The first query head alone.
fn one_head(case: &Case) -> Shape {
    Shape { q_heads: 1, kv_heads: 1, ..case.shape }
}

/// A kernel that misses one targeted key is outside the widest bound, in the output or the LSE of a head.
#[test]
fn a_missing_target_is_always_found() {
    let mut found = 0;
    each_row(Tier::Fast, |case, row| {
        let spec = case.spec(0).expect("valid");
        let q = row.q.mapv(f64::from);
        let whole = OracleRow { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
        let (want, bound) = bounds(&spec, &whole, &Model::wgsl_letter()).expect("shapes fit");
        let keys: BTreeSet<usize> = row.targets.iter().map(|target| target.key).collect();
        for key in keys {
            let tokens = 0..row.q_len;
            if !tokens.clone().any(|token| visible_range(case, row.len, row.q_len, token).contains(&key)) {
                continue;
            }
            let mask = Array2::from_shape_fn((row.q_len, row.len), |(_, other)| other != key);
            let got = attention(&spec, &OracleRow { mask: Some(mask.view()), ..whole }).expect("shapes fit");
            let over = |got: f64, want: f64, bound: f64| (got - want).abs() > bound;
            let in_o =
                got.o.iter().zip(&want.o).zip(&bound.o).any(|((got, want), bound)| over(*got, *want, *bound));
            let in_lse = got
                .lse
                .iter()
                .zip(&want.lse)
                .zip(&bound.lse)
                .any(|((got, want), bound)| over(*got, *want, *bound));
            found += 1;
            assert!(in_o || in_lse, "{} {}: key {key}", case.name, row.name);
        }
    });
    assert!(found > 700, "{found}");
}

/// Inputs are the same on every machine. A change here is a change of the suite: raise `SUITE` with it.
#[test]
fn inputs_are_pinned() {
    let digest = |cases: Vec<Case>| {
        let mut all = Sha256::new();
        for case in cases.iter().filter(|case| case.script.longest_row() <= FAST_KEYS) {
            all.update(replay(case, 0).expect("valid").inputs_sha256);
        }
        all.finalize().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    };
    assert_eq!(
        digest(catalogue::thirty()),
        "aa19e6ee3a5a0ff50c29a3aad0cbca1b81fdd375d2f2e30e1293aa7840fc64b1"
    );
    assert_eq!(
        digest(catalogue::extra()),
        "7d70cf432fb4383e2ebade7b9aeb6cbc90f2659d28935d8f8b1c91f4829cb1cd"
    );
    assert_eq!(
        digest(catalogue::probes()),
        "fd210a14e9b0eb9c519b23a7d4d0611f1c6b251dcd0c698659a72908438433ab"
    );
    assert_eq!(
        digest(catalogue::random()),
        "f8549d9c51a9df54194634e69efbaa8e8d5240b6e82821bbc9c0eefa26e2db73"
    );
}
