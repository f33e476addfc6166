//! Profiles: what is refused, and the conventions that are plain numbers.

use attnproof_oracle::{
    Alibi, OracleError, PRounding, Profile, Row, Scale, Shape, Spec, SpecError, Window, alibi_slopes,
    attention, bounds, second,
};
use ndarray::{Array2, Array3};

const SHAPE: Shape = Shape { q_heads: 4, kv_heads: 2, d: 8, dv: 6 };

#[test]
fn slopes_are_those_of_the_literature() {
    // Powers of two from the ALiBi paper; the others as BLOOM's code gives them: the list of the next smaller power
    // of two, then every other entry of the next larger one's.
    let r2 = std::f32::consts::FRAC_1_SQRT_2;
    let eight = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015_625, 0.007_812_5, 0.003_906_25];
    let tables: [(usize, Vec<f32>); 6] = [
        (1, vec![0.003_906_25]),
        (2, vec![0.0625, 0.003_906_25]),
        (3, vec![0.0625, 0.003_906_25, 0.25]),
        (6, vec![0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125]),
        (8, eight.to_vec()),
        (12, [&eight[..], &[r2, r2 / 2.0, r2 / 4.0, r2 / 8.0]].concat()),
    ];
    for (heads, table) in tables {
        assert_eq!(alibi_slopes(heads), table, "{heads} heads");
    }
    assert!(alibi_slopes(0).is_empty());
}

#[test]
fn window_converters_say_what_libraries_mean() {
    let window = |left, right| Window { left, right };
    assert_eq!(Window::keys_including_self(4), window(Some(3), Some(0)));
    assert_eq!(Window::keys_including_self(1), window(Some(0), Some(0)));
    assert_eq!(Window::keys_including_self(0), Window::default());
    assert_eq!(Window::keys_beside_self(4), window(Some(4), Some(0)));
    assert_eq!(Window::sides_beside_self(-1, 3), window(None, Some(3)));
    assert_eq!(Window::sides_beside_self(3, -1), window(Some(3), None));
    assert_eq!(Window::cudnn_bounds(Some(4), None), window(Some(3), None));
}

#[test]
fn defaults_fit_and_the_scale_is_an_f32() {
    let spec = Spec::new(SHAPE, Profile::default()).expect("defaults fit");
    assert_eq!(spec.scale(), f64::from(0.353_553_39_f32));
    assert_eq!(spec.slopes(), None);
    let explicit = Profile { scale: Scale::Explicit(-0.3), alibi: Alibi::Formula, ..Profile::default() };
    let spec = Spec::new(SHAPE, explicit).expect("fits");
    assert_eq!(spec.scale(), f64::from(-0.3_f32));
    assert_eq!(spec.slopes(), Some(&alibi_slopes(4)[..]));
}

#[test]
fn errors_name_the_field() {
    let refused = |shape, profile| Spec::new(shape, profile).expect_err("out of range").to_string();
    let with = |change: &dyn Fn(&mut Profile)| {
        let mut profile = Profile::default();
        change(&mut profile);
        refused(SHAPE, profile)
    };
    for field in ["q_heads", "kv_heads", "d", "dv"] {
        let mut shape = SHAPE;
        match field {
            "q_heads" => shape.q_heads = 0,
            "kv_heads" => shape.kv_heads = 0,
            "d" => shape.d = 0,
            _ => shape.dv = 0,
        }
        assert_eq!(Spec::new(shape, Profile::default()), Err(SpecError::Zero { field }));
    }
    let uneven = Shape { q_heads: 5, ..SHAPE };
    assert!(refused(uneven, Profile::default()).contains("not a multiple of shape.kv_heads"));
    for value in [f32::NAN, f32::INFINITY] {
        assert!(with(&|profile| profile.scale = Scale::Explicit(value)).starts_with("profile.scale"));
    }
    for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(with(&|profile| profile.softcap = Some(value)).starts_with("profile.softcap"));
    }
    for scale in [0.0, 449.0, f32::NAN] {
        let message = with(&|profile| profile.p_rounding = PRounding::E4m3 { scale });
        assert!(message.starts_with("profile.p_rounding.scale"), "{message}");
    }
    assert!(with(&|profile| profile.sinks = Some(vec![0.0; 3])).contains("sinks has 3 entries"));
    assert!(
        with(&|profile| profile.sinks = Some(vec![f32::INFINITY; 4])).starts_with("profile.sinks is inf")
    );
    assert!(with(&|profile| profile.alibi = Alibi::Slopes(vec![])).starts_with("profile.alibi.slopes"));
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_all() {
    let spec = Spec::new(SHAPE, Profile::default()).expect("fits");
    let (q, k, v) = (Array3::zeros((1, 4, 8)), Array3::zeros((3, 2, 8)), Array3::zeros((3, 2, 6)));
    let (bad_q, bad_k, bad_v) =
        (Array3::zeros((1, 2, 8)), Array3::zeros((3, 2, 6)), Array3::zeros((4, 2, 6)));
    let bad_mask = Array2::from_elem((3, 1), true);
    let good = Row { q: q.view(), k: k.view(), v: v.view(), mask: None };
    let rows = [
        ("q", Row { q: bad_q.view(), ..good }),
        ("k", Row { k: bad_k.view(), ..good }),
        ("v", Row { v: bad_v.view(), ..good }),
        ("mask", Row { mask: Some(bad_mask.view()), ..good }),
    ];
    assert!(attention(&spec, &good).is_ok());
    for (name, row) in rows {
        let first = attention(&spec, &row).expect_err("does not fit");
        let OracleError::Shape { tensor, .. } = &first;
        assert_eq!(*tensor, name);
        assert_eq!(second::attention(&spec, &row).expect_err("does not fit"), first);
        assert_eq!(bounds(&spec, &row, &attnproof_oracle::Model::strict()).expect_err("does not fit"), first);
    }
}
