//! The verdict on one tensor: guards, elements nobody wrote, classes, then numbers.
//!
//! A number is accepted if and only if `round(want - t bound) <= got <= round(want + t bound)`, where `round` goes to
//! the nearest value of the output format; the least such `t` is the budget used.

use thiserror::Error;

use crate::elem::OutType;

/// What is wrong with a tensor. Where several things are, the later variant is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// Nothing.
    Pass,
    /// A number is out of its interval.
    Wrong,
    /// An element is finite, +inf, -inf or NaN where another of these is expected.
    Nonfinite,
    /// An element still holds the payload it was filled with.
    Unwritten,
    /// A guard word beside the tensor was changed.
    OutOfBounds,
}

/// The element that is worst off.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Its index along each axis of the tensor's shape.
    pub index: Vec<usize>,
    /// The value found.
    pub got: f64,
    /// The exact value.
    pub want: f64,
    /// The bound on the error.
    pub bound: f64,
}

/// The verdict on one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorVerdict {
    /// The gravest finding.
    pub finding: Finding,
    /// The largest [`budget_used`] of any element; infinite if an element is unwritten or of the wrong class.
    pub budget_used: f64,
    /// The element with the gravest finding, and among those the largest budget; `None` if no element uses any.
    pub worst: Option<Worst>,
    /// How many elements fail.
    pub over: usize,
    /// How many elements there are.
    pub total: usize,
}

/// One tensor as a kernel left it, and what it should be.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// The name in messages.
    pub name: &'a str,
    /// The shape, outermost axis first.
    pub shape: &'a [usize],
    /// The bits found, one element each.
    pub got_bits: &'a [u32],
    /// The format of those bits.
    pub out: OutType,
    /// The exact values.
    pub want: &'a [f64],
    /// The bounds on the error; finite, also where `want` is not.
    pub bound: &'a [f64],
    /// The words beside the tensor.
    pub guards: &'a [u32],
    /// What every guard word should still be.
    pub guard_pattern: u32,
}

/// A comparison that would not mean anything.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CompareError {
    /// Nothing to compare.
    #[error("{tensor}: shape {shape:?} has no element to compare")]
    Empty {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A list does not have one entry per element.
    #[error("{tensor}: {list} has {found} entries, the shape has {expected} elements")]
    Length {
        /// The tensor's name.
        tensor: String,
        /// `got_bits`, `want` or `bound`.
        list: &'static str,
        /// The number of elements.
        expected: usize,
        /// The length of the list.
        found: usize,
    },
    /// Bits beyond the width of the format.
    #[error("{tensor}{index:?}: {bits:#x} has bits beyond {out}", out = out.name())]
    Bits {
        /// The tensor's name.
        tensor: String,
        /// The element.
        index: Vec<usize>,
        /// The bits found.
        bits: u32,
        /// The format.
        out: OutType,
    },
    /// A bound that rejects or accepts everything.
    #[error("{tensor}{index:?}: the bound is {bound}, must be finite and not negative")]
    Bound {
        /// The tensor's name.
        tensor: String,
        /// The element.
        index: Vec<usize>,
        /// The bound.
        bound: f64,
    },
    /// A multiple that rejects or accepts everything.
    #[error("the policy allows {policy} times the bound, must be finite and not negative")]
    Policy {
        /// The multiple.
        policy: f64,
    },
}

/// Judges one tensor; `policy` is the multiple of the bound that is allowed, usually 1.
///
/// # Errors
/// [`CompareError`] for an empty tensor, lists of other lengths than the shape, bits beyond the format, and bounds or
/// a policy that are negative, infinite or NaN.
pub fn compare(tensor: &Tensor<'_>, policy: f64) -> Result<TensorVerdict, CompareError> {
    check(tensor, policy)?;
    let intact = tensor.guards.iter().all(|&word| word == tensor.guard_pattern);
    let mut verdict = TensorVerdict {
        finding: Finding::Pass,
        budget_used: 0.0,
        worst: None,
        over: 0,
        total: tensor.got_bits.len(),
    };
    let mut worst = (Finding::Pass, 0.0);
    for (at, &bits) in tensor.got_bits.iter().enumerate() {
        let (want, bound) = (tensor.want[at], tensor.bound[at]);
        let (finding, used) = judge(tensor.out, bits, want, bound, policy);
        verdict.over += usize::from(finding != Finding::Pass);
        verdict.budget_used = verdict.budget_used.max(used);
        if finding > worst.0 || finding == worst.0 && used > worst.1 {
            worst = (finding, used);
            let index = unravel(tensor.shape, at);
            verdict.worst = Some(Worst { index, got: tensor.out.decode(bits), want, bound });
        }
    }
    verdict.finding = if intact { worst.0 } else { Finding::OutOfBounds };
    Ok(verdict)
}

fn check(tensor: &Tensor<'_>, policy: f64) -> Result<(), CompareError> {
    let name = || tensor.name.to_owned();
    if !(policy >= 0.0 && policy.is_finite()) {
        return Err(CompareError::Policy { policy });
    }
    let expected = tensor.shape.iter().product();
    if expected == 0 {
        return Err(CompareError::Empty { tensor: name(), shape: tensor.shape.to_vec() });
    }
    let lists =
        [("got_bits", tensor.got_bits.len()), ("want", tensor.want.len()), ("bound", tensor.bound.len())];
    if let Some((list, found)) = lists.into_iter().find(|list| list.1 != expected) {
        return Err(CompareError::Length { tensor: name(), list, expected, found });
    }
    let width = 8 * tensor.out.elem().bytes() as u32;
    if let Some(at) = tensor.got_bits.iter().position(|bits| 32 - bits.leading_zeros() > width) {
        let (index, bits) = (unravel(tensor.shape, at), tensor.got_bits[at]);
        return Err(CompareError::Bits { tensor: name(), index, bits, out: tensor.out });
    }
    if let Some(at) = tensor.bound.iter().position(|bound| !(*bound >= 0.0 && bound.is_finite())) {
        let (index, bound) = (unravel(tensor.shape, at), tensor.bound[at]);
        return Err(CompareError::Bound { tensor: name(), index, bound });
    }
    Ok(())
}

/// The finding and the budget used of one element.
fn judge(out: OutType, bits: u32, want: f64, bound: f64, policy: f64) -> (Finding, f64) {
    if bits == out.poison() {
        return (Finding::Unwritten, f64::INFINITY);
    }
    let got = out.decode(bits);
    if Class::of(got) != Class::of(want) {
        return (Finding::Nonfinite, f64::INFINITY);
    }
    let used = budget_used(got, want, bound, out);
    (if used <= policy { Finding::Pass } else { Finding::Wrong }, used)
}

/// What kind of number a value is.
#[derive(PartialEq, Eq)]
enum Class {
    Finite,
    PosInf,
    NegInf,
    Nan,
}

impl Class {
    fn of(x: f64) -> Class {
        if x.is_nan() {
            Class::Nan
        } else if x == f64::INFINITY {
            Class::PosInf
        } else if x == f64::NEG_INFINITY {
            Class::NegInf
        } else {
            Class::Finite
        }
    }
}

/// The least `t >= 0` with `round(want - t bound) <= got <= round(want + t bound)`, infinite if there is none.
///
/// `got` is a value of the format `out` (any other is rounded to it first). Values that are not finite use no budget
/// if they are of the same class, else an infinite one.
pub fn budget_used(got: f64, want: f64, bound: f64, out: OutType) -> f64 {
    let class = Class::of(got);
    if class != Class::Finite || Class::of(want) != Class::Finite {
        return if class == Class::of(want) { 0.0 } else { f64::INFINITY };
    }
    let (low, high, tie) = rounds_to(got, out);
    let inside = if tie { low <= want && want <= high } else { low < want && want < high };
    if inside {
        return 0.0;
    }
    if bound > 0.0 {
        let used = (low - want).max(want - high) / bound;
        // Where a tie rounds away from `got`, the edge itself is not enough.
        if tie { used } else { used.next_up() }
    } else {
        f64::INFINITY
    }
}

/// The interval of numbers that round to `got`, and whether its ends do.
fn rounds_to(got: f64, out: OutType) -> (f64, f64, bool) {
    let code = out.encode(got.abs());
    let value = out.decode(code);
    let below = if code == 0 { -out.decode(1) } else { out.decode(code - 1) };
    let above = out.decode(code + 1);
    // Past the largest finite value the next one is where it would be with one more exponent.
    let above = if above.is_finite() { above } else { value + (value - below) };
    let (low, high) = (f64::midpoint(below, value), f64::midpoint(value, above));
    let tie = code.is_multiple_of(2);
    if got < 0.0 { (-high, -low, tie) } else { (low, high, tie) }
}

/// The index along each axis of the element at a flat position.
fn unravel(shape: &[usize], mut at: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (slot, &size) in index.iter_mut().zip(shape).rev() {
        *slot = at % size;
        at /= size;
    }
    index
}
