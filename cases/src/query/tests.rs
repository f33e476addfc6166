//! The questions are really posed: targets cover the boundaries and dominate.

use std::collections::BTreeSet;

use super::*;
use crate::case::Family;
use crate::replay::{CheckRow, replay};
use crate::{catalogue, parse_script};

/// Scores in nats after softcap and bias of one query against every key, visible or not, by a plain loop.
fn scores(case: &Case, row: &CheckRow, token: usize, head: usize) -> Vec<f64> {
    let slope = if case.alibi { f64::from(alibi_slopes(case.shape.q_heads)[head]) } else { 0.0 };
    let cap = |x: f64| case.softcap.map_or(x, |c| f64::from(c) * libm_tanh(x / f64::from(c)));
    let kv_head = head / case.shape.group();
    let at = position(case, row.len, row.q_len, token);
    (0..row.len)
        .map(|key| {
            let product: f64 = (0..case.shape.d)
                .map(|d| f64::from(row.q[[token, head, d]]) * row.k[[key, kv_head, d]])
                .sum();
            let (x, bias) = (product * f64::from(case.scale), -slope * at.abs_diff(key) as f64);
            match case.bias_order {
                BiasOrder::CapThenAlibi => cap(x) + bias,
                BiasOrder::AlibiThenCap => cap(x + bias),
            }
        })
        .collect()
}

/// Enough of tanh for a test: its saturation and slope.
fn libm_tanh(x: f64) -> f64 {
    let e = (2.0 * x).exp();
    if e.is_infinite() { 1.0 } else { (e - 1.0) / (e + 1.0) }
}

#[test]
fn boundaries_of_a_window() {
    assert_eq!(boundaries(&(21..70), 70, 16), [21, 69, 20, 31, 32, 47, 48, 63, 64]);
    assert_eq!(boundaries(&(16..33), 40, 16), [16, 32, 15, 33, 31], "the block edges 16 and 32 are ends too");
    assert_eq!(boundaries(&(0..1), 1, 16), [0]);
    assert_eq!(boundaries(&(0..0), 0, 16), [0; 0]);
}

#[test]
fn dealing_reaches_everyone_and_everything() {
    for (n, heads, turn) in [(6, 4, 0), (6, 4, 3), (1, 8, 2), (16, 4, 5), (9, 1, 0)] {
        let keys: Vec<usize> = (100..100 + n).collect();
        let dealt = deal(&keys, heads, 16, turn);
        assert!(dealt.iter().all(|aims| !aims.is_empty()));
        assert_eq!(dealt.into_iter().flatten().collect::<BTreeSet<_>>(), keys.into_iter().collect());
    }
    let many: Vec<usize> = (0..100).collect();
    let reached: BTreeSet<usize> = (0..100).flat_map(|turn| deal(&many, 2, 4, turn)).flatten().collect();
    assert_eq!(reached.len(), 100, "with more keys than places the rest take turns");
}

#[test]
fn every_boundary_of_every_row_is_aimed_at() {
    let mut short_of_places = BTreeSet::new();
    for case in catalogue::thirty().into_iter().chain(catalogue::extra()) {
        if case.softcap.is_some() || !case.fill.is_aimed() {
            continue; // one head in four is steered away from every key; hostile queries aim at none
        }
        for row in replay(&case, 0).expect("valid").checks.iter().flat_map(|check| &check.rows) {
            if row.len == 0 {
                assert!(row.targets.is_empty() && row.q.iter().all(|q| *q != 0.0));
                continue;
            }
            for token in 0..row.q_len {
                let visible = visible_range(&case, row.len, row.q_len, token);
                let wanted = boundaries(&visible, row.len, case.block_size as usize);
                let aimed: BTreeSet<usize> =
                    row.targets.iter().filter(|t| t.token == token).map(|t| t.key).collect();
                let places = case.shape.q_heads * (case.shape.d / 8).clamp(1, MOST_TARGETS);
                let certain = if wanted.len() > places {
                    short_of_places.insert(case.name.clone());
                    // A target may be given up where others come too near.
                    assert!(aimed.len() + 1 >= places, "{}", case.name);
                    &wanted[..4.min(places)]
                } else {
                    &wanted[..]
                };
                let lost: Vec<_> = certain.iter().filter(|key| !aimed.contains(key)).collect();
                // Outliers make keys alike; there one boundary may be lost.
                let allowed = usize::from(case.fill == crate::FillKind::Outliers);
                assert!(lost.len() <= allowed, "{} row {} token {token}: keys {lost:?}", case.name, row.name);
            }
        }
    }
    let expected =
        ["hit-revives-freed-blocks", "long-four-splits", "long-prime-high-slots"].map(str::to_owned);
    assert_eq!(short_of_places, BTreeSet::from(expected), "only long rows have more boundaries than places");
}

#[test]
fn targets_dominate() {
    let (mut asked, mut won, mut loud, mut outside, mut outside_loud) = (0, 0, 0, 0, 0);
    for case in catalogue::thirty().into_iter().filter(|case| case.fill == crate::FillKind::Plain) {
        for row in replay(&case, 1).expect("valid").checks.iter().flat_map(|check| &check.rows) {
            for head in 0..case.shape.q_heads {
                let aims: BTreeSet<usize> =
                    row.targets.iter().filter(|t| t.head == head).map(|t| t.key).collect();
                let visible = visible_range(&case, row.len, 1, 0);
                let scores = scores(&case, row, 0, head);
                let best_other = |keys: Range<usize>| {
                    keys.filter(|key| !aims.contains(key)).map(|key| scores[key]).fold(f64::MIN, f64::max)
                };
                for key in &aims {
                    let lead = scores[*key] - best_other(visible.clone());
                    if visible.contains(key) {
                        asked += 1;
                        won += usize::from(lead > 0.0);
                        loud += usize::from(lead > 3.0);
                    } else {
                        outside += 1;
                        outside_loud += usize::from(lead > 3.0);
                    }
                }
            }
        }
    }
    assert!(asked > 400 && outside >= 10, "{asked} visible targets, {outside} outside");
    assert!(won * 100 >= asked * 95, "{won} of {asked} targets lead");
    assert!(loud * 100 >= asked * 85, "{loud} of {asked} targets lead by 3 nats");
    assert_eq!(outside_loud, outside, "whoever reads a key just outside gives it all the weight");
}

#[test]
fn softcap_cases_reach_both_sides_of_the_cap() {
    let case = catalogue::extra().into_iter().find(|case| case.name == "softcap-saturated").expect("listed");
    let mut all_negative = 0;
    let mut saturated = 0;
    for row in replay(&case, 0).expect("valid").checks.iter().flat_map(|check| &check.rows) {
        for (token, head) in (0..row.q_len).flat_map(|token| (0..8).map(move |head| (token, head))) {
            let visible = visible_range(&case, row.len, row.q_len, token);
            let scores = &scores(&case, row, token, head)[visible];
            all_negative += usize::from(scores.iter().all(|score| *score < -0.9 * 8.0));
            saturated += usize::from(scores.iter().any(|score| *score > 0.9 * 8.0));
        }
    }
    assert!(all_negative >= 2, "{all_negative}");
    assert!(saturated >= 12, "{saturated}");
}

#[test]
fn scores_go_where_a_tanh_of_exponentials_overflows() {
    let case =
        catalogue::extra().into_iter().find(|case| case.name == "softcap-tanh-overflow").expect("listed");
    let uncapped = Case { softcap: None, ..case.clone() };
    let check = replay(&case, 0).expect("valid").checks.swap_remove(0);
    for row in &check.rows {
        let heads = (0..row.q_len).flat_map(|token| (0..8).map(move |head| (token, head)));
        let all: Vec<f64> = heads.flat_map(|(token, head)| scores(&uncapped, row, token, head)).collect();
        assert!(all.iter().any(|x| *x > 100.0) && all.iter().any(|x| *x < -89.0), "{}", row.name);
    }
}

#[test]
fn sinks_lie_near_the_row_maxima() {
    let case =
        catalogue::extra().into_iter().find(|case| case.name == "sinks-window-splits").expect("listed");
    let spec = case.spec(0).expect("valid");
    let sinks = spec.profile().sinks.clone().expect("the case has sinks");
    let checks = replay(&case, 0).expect("valid").checks;
    let row = &checks[0].rows[0];
    let visible = visible_range(&case, row.len, 1, 0);
    let (mut above, mut below) = (0, 0);
    for (head, sink) in sinks.iter().enumerate() {
        let largest = scores(&case, row, 0, head)[visible.clone()].iter().copied().fold(f64::MIN, f64::max);
        above += usize::from(f64::from(*sink) > largest);
        below += usize::from(f64::from(*sink) < largest);
        assert!((f64::from(*sink) - largest).abs() < 12.0, "head {head}: sink {sink}, maximum {largest}");
    }
    assert!(above > 0 && below > 0, "{above} above, {below} below");
    assert_eq!(sinks.iter().map(|sink| sink.to_bits()).collect::<BTreeSet<_>>().len(), sinks.len());
}

#[test]
fn queries_do_not_depend_on_rows_before_but_for_their_turn() {
    let shape = attnproof_oracle::Shape { q_heads: 4, kv_heads: 2, d: 32, dv: 32 };
    let script = parse_script("prefill A 20\ncheck A\ncheck A").expect("valid");
    let case = Case::new(Family::User, "turns", "t", shape, script);
    let checks = replay(&case, 0).expect("valid").checks;
    assert_ne!(checks[0].rows[0].targets, checks[1].rows[0].targets, "the second check turns the targets");
    assert_eq!(checks[0].rows[0].k, checks[1].rows[0].k);
}
