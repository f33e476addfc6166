//! Cases solved by hand, asked of both references and of the answer that comes with the bounds.

use approx::relative_eq;
use attnproof_oracle::{
    Alibi, AlibiOrigin, Answer, BiasOrder, Causal, EmptyRow, HeadMap, LseBase, LseEmpty, Model, Profile, Row,
    Scale, Shape, Spec, Window, attention, bounds, second,
};
use ndarray::{Array2, Array3, array};

const ONE_HEAD: Shape = Shape { q_heads: 1, kv_heads: 1, d: 1, dv: 1 };

/// One head of dimension 1 with scale 1, so that scores are `q k`.
fn scalar(profile: Profile) -> Spec {
    Spec::new(ONE_HEAD, Profile { scale: Scale::Explicit(1.0), ..profile }).expect("fits")
}

fn column(values: &[f64]) -> Array3<f64> {
    Array3::from_shape_vec((values.len(), 1, 1), values.to_vec()).expect("one per token")
}

/// All answers to the same question.
fn ask(spec: &Spec, row: &Row<'_>) -> [Answer; 3] {
    [
        attention(spec, row).expect("fits"),
        second::attention(spec, row).expect("fits"),
        bounds(spec, row, &Model::strict()).expect("fits").0,
    ]
}

/// Asks about scalars `q`, `k`, `v`; outputs and LSE per query must be these.
fn solve(spec: &Spec, (q, k, v): (&[f64], &[f64], &[f64]), outputs: &[f64], lse: &[f64]) {
    let (q, k, v) = (column(q), column(k), column(v));
    let row = Row { q: q.view(), k: k.view(), v: v.view(), mask: None };
    for answer in ask(spec, &row) {
        for (got, want) in answer.o.iter().zip(outputs).chain(answer.lse.iter().zip(lse)) {
            let near = relative_eq!(got, want, epsilon = 1e-14, max_relative = 1e-14);
            let close = near || got.is_nan() && want.is_nan();
            assert!(close, "{got} is not {want}: {answer:?}");
        }
        assert_eq!((answer.o.len(), answer.lse.len()), (outputs.len(), lse.len()));
    }
}

#[test]
fn equal_scores_give_the_mean() {
    let spec = scalar(Profile::default());
    solve(&spec, (&[0.0], &[5.0, -3.0, 8.0], &[1.0, 2.0, 6.0]), &[3.0], &[3.0_f64.ln()]);
}

#[test]
fn one_dominant_key_gives_its_value() {
    let spec = scalar(Profile::default());
    solve(&spec, (&[1.0], &[0.0, 900.0, 1.0], &[7.0, -4.0, 9.0]), &[-4.0], &[900.0]);
}

#[test]
fn one_key_gives_its_value_and_its_score() {
    let spec = Spec::new(Shape { d: 4, ..ONE_HEAD }, Profile::default()).expect("fits");
    let (q, k) = (Array3::from_elem((1, 1, 4), 3.0), Array3::from_elem((1, 1, 4), 5.0));
    let v = array![[[2.5]]];
    for answer in ask(&spec, &Row { q: q.view(), k: k.view(), v: v.view(), mask: None }) {
        assert_eq!((answer.o[[0, 0, 0]], answer.lse[[0, 0]]), (2.5, 30.0));
    }
}

#[test]
fn scores_k_ln_2_give_weights_that_are_powers_of_two() {
    // Weights 1, 2, 4, 1 of 8.
    let ln2 = std::f64::consts::LN_2;
    let question: (&[f64], &[f64], &[f64]) = (&[ln2], &[0.0, 1.0, 2.0, 0.0], &[8.0, 80.0, 800.0, 8000.0]);
    solve(&scalar(Profile::default()), question, &[1421.0], &[8.0_f64.ln()]);
    solve(&scalar(Profile { lse_base: LseBase::Two, ..Profile::default() }), question, &[1421.0], &[3.0]);
}

#[test]
fn more_queries_than_keys() {
    // Three queries at equal scores over two keys.
    let question: (&[f64], &[f64], &[f64]) = (&[0.0; 3], &[0.0; 2], &[2.0, 6.0]);
    let ln2 = std::f64::consts::LN_2;
    let negative = f64::NEG_INFINITY;
    solve(&scalar(Profile::default()), question, &[0.0, 2.0, 4.0], &[negative, 0.0, ln2]);
    let top_left = Profile { causal: Causal::TopLeft, ..Profile::default() };
    solve(&scalar(top_left), question, &[2.0, 4.0, 4.0], &[0.0, ln2, ln2]);
    let all = Profile { causal: Causal::None, ..Profile::default() };
    solve(&scalar(all), question, &[4.0; 3], &[ln2; 3]);
    let nan = Profile { empty_row: EmptyRow::Nan, lse_empty: LseEmpty::PosInf, ..Profile::default() };
    solve(&scalar(nan), question, &[f64::NAN, 2.0, 4.0], &[f64::INFINITY, 0.0, ln2]);
}

#[test]
fn nothing_to_ask_and_nothing_to_see() {
    let spec = scalar(Profile::default());
    solve(&spec, (&[], &[1.0], &[1.0]), &[], &[]);
    solve(&spec, (&[1.0], &[], &[]), &[0.0], &[f64::NEG_INFINITY]);
    solve(&spec, (&[], &[], &[]), &[], &[]);
}

#[test]
fn a_sink_alone_gives_zero_and_itself() {
    // Also where empty rows are NaN: a row with a sink is not empty.
    for empty_row in [EmptyRow::Zero, EmptyRow::Nan] {
        let spec = scalar(Profile { sinks: Some(vec![1.5]), empty_row, ..Profile::default() });
        solve(&spec, (&[1.0], &[], &[]), &[0.0], &[1.5]);
    }
}

#[test]
fn a_sink_joins_the_denominator_unscaled_and_uncapped() {
    // Scores 0 and 0, sink ln 2: weights 1/4, 1/4 and 1/2 for nothing.
    let ln2 = std::f64::consts::LN_2 as f32;
    let sink = Profile { sinks: Some(vec![ln2]), softcap: Some(0.125), ..Profile::default() };
    let spec = Spec::new(ONE_HEAD, Profile { scale: Scale::Explicit(0.01), ..sink }).expect("fits");
    let share = 2.0 + f64::from(ln2).exp();
    solve(&spec, (&[0.0], &[1.0, 2.0], &[4.0, 8.0]), &[12.0 / share], &[share.ln()]);
}

#[test]
fn a_softcap_saturates_at_the_cap() {
    // Scores +-1e4 capped to +-2; without the cap the second key would vanish.
    let spec = scalar(Profile { softcap: Some(2.0), ..Profile::default() });
    let (up, down) = (2.0_f64.exp(), (-2.0_f64).exp());
    let want = (up * 10.0 + down * 20.0) / (up + down);
    solve(&spec, (&[1.0], &[1e4, -1e4], &[10.0, 20.0]), &[want], &[(up + down).ln()]);
    // In the linear part: c tanh(x / c).
    let (s0, s1) = (2.0 * 0.25_f64.tanh(), 2.0 * 0.5_f64.tanh());
    let want = (s0.exp() * 10.0 + s1.exp() * 20.0) / (s0.exp() + s1.exp());
    solve(&spec, (&[1.0], &[0.5, 1.0], &[10.0, 20.0]), &[want], &[(s0.exp() + s1.exp()).ln()]);
}

#[test]
fn alibi_on_two_keys() {
    // Slope 2: the earlier key is e^-2 of the later one.
    let alibi = Profile { alibi: Alibi::Slopes(vec![2.0]), ..Profile::default() };
    let question: (&[f64], &[f64], &[f64]) = (&[0.0], &[0.0, 0.0], &[10.0, 20.0]);
    let e = (-2.0_f64).exp();
    let want = (10.0 * e + 20.0) / (1.0 + e);
    solve(&scalar(alibi.clone()), question, &[want], &[(1.0 + e).ln()]);
    let absolute = Profile { alibi_origin: AlibiOrigin::Absolute, ..alibi.clone() };
    solve(&scalar(absolute), question, &[want], &[2.0 + (1.0 + e).ln()]);
    // Both directions cost without a causal limit: query 0 of 2 sees key 1 at -2.
    let both = Profile { causal: Causal::None, ..alibi };
    let other = (10.0 + 20.0 * e) / (1.0 + e);
    solve(&scalar(both), (&[0.0; 2], &[0.0; 2], &[10.0, 20.0]), &[other, want], &[(1.0 + e).ln(); 2]);
}

#[test]
fn the_order_of_bias_and_cap() {
    // x = 0 for both keys; biases -4 and 0 with a cap of 1.
    let profile = Profile { alibi: Alibi::Slopes(vec![4.0]), softcap: Some(1.0), ..Profile::default() };
    let question: (&[f64], &[f64], &[f64]) = (&[0.0], &[0.0, 0.0], &[0.0, 1.0]);
    for (bias_order, bias) in
        [(BiasOrder::CapThenAlibi, -4.0_f64), (BiasOrder::AlibiThenCap, -(4.0_f64.tanh()))]
    {
        let sum = 1.0 + bias.exp();
        solve(&scalar(Profile { bias_order, ..profile.clone() }), question, &[1.0 / sum], &[sum.ln()]);
    }
}

#[test]
fn windows_count_keys_beside_the_query() {
    // Values 1, 2, 4, 8, 16 at equal scores; the last query.
    let question: (&[f64], &[f64], &[f64]) = (&[0.0], &[0.0; 5], &[1.0, 2.0, 4.0, 8.0, 16.0]);
    let windows = [
        (Window::keys_including_self(2), 12.0, 2.0_f64),
        (Window::keys_beside_self(2), 28.0 / 3.0, 3.0),
        (Window { left: Some(0), right: None }, 16.0, 1.0),
    ];
    for (window, want, keys) in windows {
        solve(&scalar(Profile { window, ..Profile::default() }), question, &[want], &[keys.ln()]);
    }
    // Without a causal limit the right side counts too: query 0 of 5.
    let window = Window { left: Some(0), right: Some(1) };
    let spec = scalar(Profile { causal: Causal::None, window, ..Profile::default() });
    let values: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
    let ln2 = std::f64::consts::LN_2;
    solve(&spec, (&[0.0; 5], &[0.0; 5], &values), &[1.5, 3.0, 6.0, 12.0, 16.0], &[ln2, ln2, ln2, ln2, 0.0]);
}

#[test]
fn heads_read_the_kv_head_that_the_map_says() {
    // Six query heads over three KV heads whose values are their own number: G is not Hk.
    let shape = Shape { q_heads: 6, kv_heads: 3, d: 2, dv: 1 };
    let (q, k) = (Array3::ones((1, 6, 2)), Array3::ones((4, 3, 2)));
    let v = Array3::from_shape_fn((4, 3, 1), |(_, head, _)| head as f64);
    let maps =
        [(HeadMap::Floor, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]), (HeadMap::Modulo, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0])];
    for (head_map, want) in maps {
        let spec = Spec::new(shape, Profile { head_map, ..Profile::default() }).expect("fits");
        for answer in ask(&spec, &Row { q: q.view(), k: k.view(), v: v.view(), mask: None }) {
            assert_eq!(answer.o.iter().copied().collect::<Vec<f64>>(), want);
        }
    }
}

#[test]
fn a_mask_and_the_causal_limit_both_hold_and_hidden_nan_leaves_no_trace() {
    // A tree of two branches after a shared root: tokens 1 and 2 are siblings.
    let mask = array![[true, false, false], [true, true, false], [true, false, true]];
    let (q, k) = (column(&[0.0; 3]), column(&[0.0; 3]));
    let v = column(&[2.0, 4.0, 8.0]);
    let row = Row { q: q.view(), k: k.view(), v: v.view(), mask: Some(mask.view()) };
    for answer in ask(&scalar(Profile::default()), &row) {
        assert_eq!(answer.o.iter().copied().collect::<Vec<f64>>(), [2.0, 3.0, 5.0]);
    }
    // Mask and causal limit are empty together; NaN stands where nobody may look.
    let never = Array2::from_shape_fn((3, 3), |(i, j)| j > i);
    let nan = column(&[f64::NAN; 3]);
    let row = Row { q: q.view(), k: nan.view(), v: nan.view(), mask: Some(never.view()) };
    for answer in ask(&scalar(Profile::default()), &row) {
        assert!(answer.o.iter().all(|&o| o == 0.0));
        assert!(answer.lse.iter().all(|&lse| lse == f64::NEG_INFINITY));
    }
    // A visible NaN is not hidden.
    let row = Row { q: q.view(), k: k.view(), v: nan.view(), mask: None };
    for answer in ask(&scalar(Profile::default()), &row) {
        assert!(answer.o.iter().all(|o| o.is_nan()));
    }
}
