//! Formats of outputs: rounding, bits, and the payload that marks an element nobody wrote.

use super::{Elem, Saturate};

/// The format of an output tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutType {
    /// IEEE binary32.
    #[default]
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
}

impl OutType {
    /// Every output format.
    pub const ALL: [OutType; 3] = [OutType::F32, OutType::F16, OutType::Bf16];

    /// The same format as a stored element.
    pub const fn elem(self) -> Elem {
        match self {
            OutType::F32 => Elem::F32,
            OutType::F16 => Elem::F16,
            OutType::Bf16 => Elem::Bf16,
        }
    }

    /// The name: `f32`, `f16` or `bf16`.
    pub const fn name(self) -> &'static str {
        self.elem().name()
    }

    /// The format with this [`name`](OutType::name), if there is one.
    pub fn parse(name: &str) -> Option<OutType> {
        OutType::ALL.into_iter().find(|out| out.name() == name)
    }

    /// `x` rounded to nearest even; monotone; overflows to infinity.
    pub fn round(self, x: f64) -> f64 {
        self.decode(self.encode(x))
    }

    /// The exact value of a code.
    pub fn decode(self, bits: u32) -> f64 {
        self.elem().decode(bits)
    }

    /// The code of `x` rounded to nearest even; overflows to infinity.
    pub fn encode(self, x: f64) -> u32 {
        self.elem().encode(x, Saturate::Nonfinite)
    }

    /// The NaN that fills an output before a kernel runs: a payload that no arithmetic produces.
    pub const fn poison(self) -> u32 {
        match self {
            OutType::F32 => 0x7FC0_A77B,
            OutType::F16 | OutType::Bf16 => 0x7FA7,
        }
    }
}
