//! Content depends on everything it should, on nothing else, and uses the range of its format.

use std::collections::BTreeSet;

use attnproof_oracle::{Model, Row, Saturate, bounds};

use super::*;
use crate::hash::stream_tokens;
use crate::{catalogue, replay::replay};

fn case(name: &str) -> Case {
    let all = catalogue::thirty().into_iter().chain(catalogue::extra());
    all.into_iter().find(|case| case.name == name).expect("a listed name")
}

/// Every code of K differs in most elements (a few may collide in 8-bit formats).
fn differ_everywhere(a: &TokenRow, b: &TokenRow) -> bool {
    let same = a.k.iter().zip(&b.k).filter(|(x, y)| x == y).count();
    same * 4 < a.k.len()
}

#[test]
fn wrong_sharing_is_visible_in_every_token_after_it() {
    for name in ["same-block-different-parent", "fp8-head-scale-gqa", "int8-token-scale-fork"] {
        let case = case(name);
        let content = Content::new(&case, 3);
        let block = stream_tokens("t", 16);
        let under = |parent: &str, salt| {
            let tokens = [stream_tokens(parent, 16), block.clone()].concat();
            content.rows(&tokens, salt, 16..32)
        };
        let original = under("x", 1);
        for other in [under("w", 1), under("x", 2)] {
            assert!(original.iter().zip(&other).all(|(a, b)| differ_everywhere(a, b)), "{name}");
        }
        assert_eq!(original, under("x", 1));
        let alone = content.rows(&block, 1, 0..16);
        assert!(
            original.iter().zip(&alone).all(|(a, b)| differ_everywhere(a, b)),
            "{name}: position and parent"
        );
    }
}

#[test]
fn content_follows_seed_and_name_and_a_range_is_a_part_of_the_whole() {
    let case = case("one-token-in-new-block");
    let renamed = Case { name: "other".to_owned(), ..case.clone() };
    let tokens = stream_tokens("A", 40);
    let rows = |case: &Case, seed| Content::new(case, seed).rows(&tokens, 0, 0..40);
    let whole = rows(&case, 1);
    assert!(differ_everywhere(&whole[0], &rows(&case, 2)[0]));
    assert!(differ_everywhere(&whole[0], &rows(&renamed, 1)[0]));
    let content = Content::new(&case, 1);
    assert_eq!(content.rows(&tokens, 0, 17..33), whole[17..33]);
    assert_eq!(content.rows(&tokens[..33], 0, 17..99), whole[17..33], "later tokens change nothing");
    assert_eq!(content.rows(&tokens, 0, 50..60), []);
}

#[test]
fn v_spells_position_and_head() {
    let case = case("mqa-16x1");
    let case = Case { shape: attnproof_oracle::Shape { kv_heads: 4, ..case.shape }, ..case };
    let tokens = stream_tokens("A", 200);
    let rows = Content::new(&case, 0).rows(&tokens, 0, 0..200);
    let mut seen = BTreeSet::new();
    for (position, row) in rows.iter().enumerate() {
        for head in 0..4 {
            let value = |dim: usize| f64::from(f32::from_bits(row.v[head * 64 + dim]));
            let low = value(1) * 32.0 + 31.5;
            let high = value(5) * 32.0 + 31.5;
            assert_eq!(low + 64.0 * high, position as f64);
            assert_eq!((value(3), value(7)), ((1 + head) as f64 / 16.0, (1 + head) as f64 / 16.0));
            seen.insert(value(0).to_bits());
        }
    }
    assert_eq!(seen.len(), 800, "the noise dims differ for every token and head");
}

#[test]
fn scales_are_never_one_and_never_equal_for_k_and_v() {
    for case in catalogue::thirty().into_iter().chain(catalogue::extra()) {
        let content = Content::new(&case, 0);
        let lens = |granularity| match granularity {
            Granularity::None => 0,
            Granularity::Tensor => 1,
            _ => case.shape.kv_heads,
        };
        let rows = content.rows(&stream_tokens("A", 40), 0, 0..40);
        for row in rows.iter().chain([&content.foreign(0), &content.foreign(1)]) {
            assert_eq!((row.k_scale.len(), row.v_scale.len()), (lens(case.k_scale), lens(case.v_scale)));
            let all: Vec<f32> = row.k_scale.iter().chain(&row.v_scale).copied().collect();
            assert!(
                all.iter().all(|scale| *scale != 1.0 && scale.is_finite() && *scale > 0.0),
                "{}",
                case.name
            );
        }
        let different = |k: &[f32], v: &[f32]| k.iter().zip(v).all(|(k, v)| k != v);
        assert!(rows.iter().all(|row| different(&row.k_scale, &row.v_scale)), "{}", case.name);
        if case.k_scale == Granularity::Head {
            assert_eq!(content.static_scales().0, rows[0].k_scale);
            assert_ne!(rows[0].k_scale[0], rows[0].k_scale[1]);
        }
    }
}

#[test]
fn a_block_scale_is_that_of_its_first_token() {
    let case = case("fp8-block-scale-copy-on-write");
    let content = Content::new(&case, 0);
    let rows = content.rows(&stream_tokens("A", 40), 0, 0..40);
    for (position, row) in rows.iter().enumerate() {
        assert_eq!(row.k_scale, rows[position / 16 * 16].k_scale);
    }
    assert_ne!(rows[0].k_scale, rows[16].k_scale);
    let first = &rows[16];
    let absmax = content.values(&content.chain(&stream_tokens("A", 17), 0), 16, 1, Tensor::K);
    let absmax = absmax.into_iter().map(f64::abs).fold(0.0, f64::max);
    assert_eq!(first.k_scale[1], block_scale(absmax, case.kv));
}

#[test]
fn eight_bit_cases_use_their_range() {
    let codes = |name: &str| {
        let case = case(name);
        let rows = Content::new(&case, 0).rows(&stream_tokens("A", 38), 0, 0..38);
        let all: BTreeSet<u32> = rows.iter().flat_map(|row| row.k.iter().chain(&row.v).copied()).collect();
        assert!(all.iter().all(|code| !case.kv.is_nan(*code) && case.kv.decode(*code).is_finite()), "{name}");
        (rows, all)
    };
    let (rows, all) = codes("fp8-tensor-saturate-subnormal");
    assert!(all.contains(&0x7E) && all.contains(&0xFE), "448 and -448 occur");
    let subnormal = |codes: &[u32]| codes.iter().any(|code| (1..8).contains(&(code & 0x7F)));
    assert!(rows.iter().any(|row| subnormal(&[row.k[2]])) && rows.iter().any(|row| subnormal(&[row.v[2]])));
    assert_eq!((rows[0].k_scale[0], rows[0].v_scale[0]), (0.03, 0.2));
    let (_, all) = codes("int8-tensor-scale");
    assert!(all.iter().any(|code| Elem::Int8.decode(*code) > 110.0));
    assert!(all.iter().any(|code| Elem::Int8.decode(*code) < -110.0));
    let (_, all) = codes("int8-saturate");
    assert!(all.contains(&0x7F) && all.contains(&0x80), "127 and -128 occur");
    for (name, smallest_normal) in [("e5m2-saturate-tensor", 0x04), ("f16-subnormal", 0x0400)] {
        let (rows, _) = codes(name);
        let subnormal = |code: u32| (1..smallest_normal).contains(&(code & (32 * smallest_normal - 1)));
        assert!(rows.iter().any(|row| subnormal(row.v[2])), "{name}");
    }
    let (_, all) = codes("fp8-token-scale-recycled-block");
    assert!(
        all.contains(&0x7E) || all.contains(&0xFE),
        "each token's largest value is the largest finite one"
    );
    for name in ["e4m3fnuz-tensor-scale", "e5m2-saturate-tensor", "e5m2fnuz-block-scale"] {
        assert!(codes(name).1.len() > 60, "{name}");
    }
}

#[test]
fn foreign_content_is_loud_and_finite_in_every_format() {
    for elem in Elem::ALL {
        let case = Case { kv: elem, saturate: Saturate::Nonfinite, ..case("one-token-in-new-block") };
        let content = Content::new(&case, 0);
        for tag in 0..4 {
            let row = content.foreign(tag);
            let smallest =
                |codes: &[u32]| codes.iter().map(|c| elem.decode(*c).abs()).fold(f64::MAX, f64::min);
            let loud = elem.max_finite().min(1024.0) / 2.0;
            assert!(smallest(&row.v) >= loud && row.v.iter().all(|c| elem.decode(*c).is_finite()));
            assert_eq!(smallest(&row.k) >= loud, tag % 2 == 1, "{} {tag}", elem.name());
            assert_eq!(row, content.foreign(tag));
        }
    }
}

/// A case of this kind and format with what the kind needs.
fn posed(kind: FillKind, elem: Elem, scale: Granularity) -> Case {
    let softcap = (kind == FillKind::Saturation).then_some(50.0);
    let base = case("fp8-head-scale-gqa");
    Case { fill: kind, kv: elem, k_scale: scale, v_scale: scale, softcap, ..base }
}

/// Whether a case may store this format under scales of this granularity.
fn takes(elem: Elem, scale: Granularity) -> bool {
    !matches!(
        (elem, scale),
        (Elem::Int8, Granularity::None) | (Elem::F32 | Elem::Bf16, Granularity::Block | Granularity::Token)
    )
}

#[test]
fn every_kind_in_every_format_is_finite_and_has_a_guarantee() {
    let scales = [Granularity::None, Granularity::Head, Granularity::Block, Granularity::Token];
    for (kind, elem) in FillKind::ALL.into_iter().flat_map(|kind| Elem::ALL.map(|elem| (kind, elem))) {
        for scale in scales.into_iter().filter(|scale| takes(elem, *scale)) {
            let case = posed(kind, elem, scale);
            let name = format!("{} {} {}", kind.name(), elem.name(), scale.name());
            case.validate().expect("posed");
            let checks = replay(&case, 0).expect("valid").checks;
            let row = &checks[0].rows[0];
            assert!(row.k.iter().chain(&row.v).all(|x| x.is_finite()) && row.q.iter().all(|x| x.is_finite()));
            assert!(row.v.iter().any(|v| *v != 0.0), "{name}");
            let q = row.q.mapv(f64::from);
            let asked = Row { q: q.view(), k: row.k.view(), v: row.v.view(), mask: None };
            for model in [Model::strict(), Model::wgsl_letter()] {
                let (answer, bounds) = bounds(&case.spec(0).expect("valid"), &asked, &model).expect("shapes");
                assert!(bounds.ok.iter().all(|ok| *ok), "{name} {}", model.name);
                assert!(answer.o.iter().chain(&answer.lse).all(|x| x.is_finite()), "{name}");
            }
        }
    }
}

#[test]
fn probe_codes_are_exact_in_every_format() {
    let exact = |case: &Case| {
        let checks = replay(case, 0).expect("valid").checks;
        (checks[0].rows[0].k.clone(), checks[0].rows[0].v.clone())
    };
    for kind in FillKind::ALL.into_iter().filter(|kind| kind.is_probe() && *kind != FillKind::Octave) {
        let wanted = exact(&posed(kind, Elem::F32, Granularity::None));
        for elem in
            Elem::ALL.into_iter().filter(|elem| !matches!(kind, FillKind::Thermometer) || elem.bytes() > 1)
        {
            let scales = [Granularity::Tensor, Granularity::Head, Granularity::Block, Granularity::Token];
            for scale in scales.into_iter().filter(|scale| takes(elem, *scale)) {
                assert!(
                    wanted == exact(&posed(kind, elem, scale)),
                    "{} {} {}",
                    kind.name(),
                    elem.name(),
                    scale.name()
                );
            }
        }
    }
}

#[test]
fn ballot_sums_stay_small_and_every_key_has_its_code() {
    let case = Case { fill: FillKind::Ballot, name: "sums".to_owned(), ..case("mqa-16x1") };
    let rows = Content::new(&case, 0).rows(&stream_tokens("A", 4000), 0, 0..4000);
    let mut sums = [0.0; 64];
    let mut seen = BTreeSet::new();
    for row in &rows {
        for (sum, code) in sums.iter_mut().zip(&row.v) {
            *sum += case.kv.decode(*code) / AMPLITUDE;
            assert!(sum.abs() <= f64::from(REACH));
        }
        seen.insert(row.v.clone());
    }
    assert_eq!(seen.len(), 4000);
    let content = Content::new(&case, 0);
    assert_eq!(
        content.rows(&stream_tokens("A", 4000), 0, 77..80),
        rows[77..80],
        "a range is a part of the whole"
    );
}

#[test]
fn kinds_that_ask_nothing_of_a_case_are_refused() {
    let plain = case("one-token-in-new-block");
    let refused = |case: Case| case.validate().expect_err("must be refused").to_string();
    let saturation = refused(Case { fill: FillKind::Saturation, ..plain.clone() });
    assert!(saturation.ends_with("fill: saturation needs a softcap"), "{saturation}");
    let octave = refused(Case { fill: FillKind::Octave, alibi: true, ..plain.clone() });
    assert!(octave.contains("without alibi"), "{octave}");
    let ballot = refused(Case { fill: FillKind::Ballot, alibi: true, scale: 0.3, ..plain });
    assert!(ballot.contains("powers of two"), "{ballot}");
}
