//! The operations and operands of a calibration.

/// Points of each function: evenly spread arguments.
const POINTS: u32 = 1 << 17;
/// Pairs of operands of sums, products and quotients.
const PAIRS: u32 = 1 << 14;

/// An elementary operation, numbered as in `wgsl/calibrate.wgsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// a + b.
    Add,
    /// a b.
    Mul,
    /// a / b.
    Div,
    /// fma(a, b, c).
    Fma,
    /// a b + c, written so.
    MulAdd,
    /// e^a.
    Exp,
    /// 2^a.
    Exp2,
    /// ln a.
    Log,
    /// tanh a.
    Tanh,
    /// The lower binary16 of a's bits.
    Unpack,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) op: Op,
    pub(super) a: f32,
    pub(super) b: f32,
    pub(super) c: f32,
}

impl Question {
    const fn new(op: Op, a: f32, b: f32, c: f32) -> Self {
        Self { op, a, b, c }
    }

    /// As the shader reads it.
    pub(super) fn words(&self) -> [u32; 4] {
        [self.op as u32, self.a.to_bits(), self.b.to_bits(), self.c.to_bits()]
    }

    /// The exact result, or its f64 rounding where there is none. Sums are exact: operands of one sum are within 2^28 of each
    /// other. An `fma` is rounded to f32 once.
    pub(super) fn exact(&self) -> f64 {
        let [a, b, c] = [self.a, self.b, self.c].map(f64::from);
        match self.op {
            Op::Add => a + b,
            Op::Mul => a * b,
            Op::Div => a / b,
            Op::Fma | Op::MulAdd => f64::from((a * b + c) as f32),
            Op::Exp => libm::exp(a),
            Op::Exp2 => libm::exp2(a),
            Op::Log => libm::log(a),
            Op::Tanh => libm::tanh(a),
            Op::Unpack => attnproof_oracle::Elem::F16.decode(self.a.to_bits() & 0xffff),
        }
    }

    /// Whether the operation is about subnormal numbers.
    pub(super) fn is_subnormal(&self) -> bool {
        let smallest = f64::from(f32::MIN_POSITIVE);
        let (exact, normal) =
            (self.exact().abs(), if self.op == Op::Unpack { 1.0 / 16384.0 } else { smallest });
        exact > 0.0 && exact < normal
    }
}

/// Every question: hand-picked ones first, then regular ones.
pub(super) fn questions() -> Vec<Question> {
    let (half, tiny) = (f32::EPSILON / 2.0, f32::MIN_POSITIVE);
    let mut all = Vec::new();
    // ties, and what is just off a tie, on either side of zero
    for (a, b) in
        [(1.0, half), (1.0 + f32::EPSILON, half), (1.0, half * 1.5), (1.0, half / 2.0), (1.0, -half / 2.0)]
    {
        all.extend([Question::new(Op::Add, a, b, 0.0), Question::new(Op::Add, -a, -b, 0.0)]);
    }
    // subnormal operands and results
    for (op, a, b) in [(Op::Add, tiny / 4.0, tiny / 8.0), (Op::Mul, tiny, 0.25), (Op::Mul, tiny / 4.0, 1.0)] {
        all.push(Question::new(op, a, b, 0.0));
    }
    for bits in [1u32, 0x01ff, 0x03ff] {
        all.push(Question::new(Op::Unpack, f32::from_bits(bits), 0.0, 0.0));
    }
    // (1 + e)^2 - (1 + 2 e) = e^2: lost by two roundings
    let near = 1.0 + f32::EPSILON;
    for op in [Op::Fma, Op::MulAdd] {
        all.push(Question::new(op, near, near, -(1.0 + 2.0 * f32::EPSILON)));
    }
    for a in [50.0, 100.0, 1e4, -50.0, -100.0, -1e4, 0.0] {
        all.push(Question::new(Op::Tanh, a, 0.0, 0.0));
    }
    all.extend([Op::Exp, Op::Exp2].map(|op| Question::new(op, 0.0, 0.0, 0.0)));
    for i in 0..PAIRS {
        let [a, b] = [spread(i, 0x9E37_79B1), spread(i, 0x85EB_CA6B)];
        all.extend([Op::Add, Op::Mul, Op::Div].map(|op| Question::new(op, a, b, 0.0)));
    }
    for i in 0..POINTS {
        let t = (i as f32 + 0.5) / POINTS as f32;
        all.push(Question::new(Op::Exp, -100.0 * t, 0.0, 0.0));
        all.push(Question::new(Op::Exp2, -140.0 * t, 0.0, 0.0));
        // as many points up to 2 as beyond, where the limit has another form
        let log = if i % 2 == 0 { 1.0 + t } else { 2.0 + 131_070.0 * t * t };
        all.push(Question::new(Op::Log, log, 0.0, 0.0));
        all.push(Question::new(Op::Tanh, 20.0 * t - 10.0, 0.0, 0.0));
    }
    all
}

/// A number of magnitude 1/16 to 16 and either sign, full of bits: a multiplicative hash of `i`.
fn spread(i: u32, factor: u32) -> f32 {
    let bits = i.wrapping_add(1).wrapping_mul(factor);
    let exponent = 123 + (bits >> 13) % 8;
    f32::from_bits((bits & 0x8000_0000) | (exponent << 23) | (bits.wrapping_mul(factor) >> 9))
}
