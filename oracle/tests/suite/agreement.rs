//! The two references, and the answer that comes with the bounds, agree to f64 accuracy on random sequences.

use attnproof_oracle::{Answer, Model, Spec, attention, bounds, second};
use proptest::prelude::*;

use crate::inputs::{Sequence, fixed, sequences};

/// Agreement relative to the size of the values: `sum p |v|` for outputs, the LSE itself for the LSE.
const ACCURACY: f64 = 1e-12;

fn close(got: f64, want: f64, size: f64) -> bool {
    got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= ACCURACY * size
}

/// `sum p |v|` of every output: the answer for the absolute values.
fn sizes(sequence: &Sequence) -> Answer {
    let positive = Sequence { v: sequence.v.mapv(f64::abs), ..sequence.clone() };
    attention(&positive.spec, &positive.row()).expect("same shapes")
}

fn check(spec: &Spec, got: &Answer, want: &Answer, sizes: &Answer) -> Result<(), TestCaseError> {
    for ((index, got), want) in got.o.indexed_iter().zip(&want.o) {
        let size = sizes.o[index];
        prop_assert!(close(*got, *want, size), "o{index:?}: {got} is not {want}; {spec:?}");
    }
    for ((index, got), want) in got.lse.indexed_iter().zip(&want.lse) {
        prop_assert!(close(*got, *want, 1.0 + want.abs()), "lse{index:?}: {got} is not {want}; {spec:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(fixed(4000))]

    #[test]
    fn the_references_agree(mut sequence in sequences()) {
        let sizes = sizes(&sequence);
        let clean = attention(&sequence.spec, &sequence.row()).expect("fits");
        sequence.poison();
        let (spec, row) = (&sequence.spec, sequence.row());
        let first = attention(spec, &row).expect("fits");
        prop_assert!(clean.o.iter().zip(&first.o).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
        check(spec, &second::attention(spec, &row).expect("fits"), &first, &sizes)?;
        for model in Model::all() {
            let (answer, bounds) = bounds(spec, &row, &model).expect("fits");
            check(spec, &answer, &first, &sizes)?;
            prop_assert!(bounds.ok.iter().all(|&ok| ok));
            prop_assert!(bounds.o.iter().chain(&bounds.lse).all(|bound| *bound >= 0.0 && bound.is_finite()));
        }
    }
}
