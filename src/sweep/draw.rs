//! Random and hostile cases: a pure function of the sweep's seed and an index.

use attnproof_cases::case::{Case, Family, FillKind, default_scale};
use attnproof_cases::script::parse_script;
use attnproof_layouts::kind::LayoutKind;
use attnproof_oracle::simulate::Rng;
use attnproof_oracle::{BiasOrder, Causal, Elem, Granularity, Model, Shape};

use super::sim::{ALGORITHMS, Precision, Sim};

/// Rows longer than this are put to fewer kernels.
pub const LONG: usize = 1000;
const LONGER: usize = LONG + 1;
/// Rows of this length and longer have fewer heads.
const MIDDLE: usize = 201;
/// Draws of the rest of a case for one kind of content, before that is given up for plain content.
const ATTEMPTS: u64 = 64;
/// Largest number of keys of any sweep.
pub const MOST_KEYS: usize = 65_536;

/// A generator whose stream is a function of `parts`, in this order.
pub fn stream(parts: &[u64]) -> Rng {
    Rng(parts.iter().fold(0, |state, &part| Rng(state ^ Rng(part).bits()).bits()))
}

/// What happens to the cache before the one check of all rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Prompt of row A in tokens.
    pub prompt: usize,
    /// Decode steps of row A, after the fork if there is one.
    pub steps: usize,
    /// Whether row B is forked from A's prompt; it takes one decode step.
    pub fork: bool,
    /// Row C: so many tokens of A's prompt, then so many of its own.
    pub second: Option<(usize, usize)>,
    /// Query tokens of every row.
    pub q_len: usize,
}

impl Story {
    /// The script, one operation a line.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("prefill A {}", self.prompt)];
        if self.fork {
            lines.push("fork A B".to_owned());
        }
        if self.steps > 0 {
            lines.push(format!("append A {}", self.steps));
        }
        if self.fork {
            lines.push("append B 1".to_owned());
        }
        match self.second {
            Some((0, own)) => lines.push(format!("prefill C {own}")),
            Some((shared, 0)) => lines.push(format!("prefill C A:{shared}")),
            Some((shared, own)) => lines.push(format!("prefill C A:{shared}+{own}")),
            None => {}
        }
        lines.push(format!("check q={}", self.q_len));
        lines.join("\n") + "\n"
    }

    /// Tokens of each row.
    pub fn lengths(&self) -> Vec<usize> {
        let a = Some(self.prompt + self.steps);
        let b = self.fork.then_some(self.prompt + 1);
        [a, b, self.second.map(|(shared, own)| shared + own)].into_iter().flatten().collect()
    }

    fn longest(&self) -> usize {
        self.lengths().into_iter().max().unwrap_or(0)
    }

    fn query_tokens(&self) -> usize {
        self.lengths().into_iter().map(|len| self.q_len.min(len).max(1)).sum()
    }
}

/// A drawn case, and the kernels it is put to.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Index in the sweep.
    pub index: u64,
    /// The case.
    pub case: Case,
    /// What its script says.
    pub story: Story,
    /// What chance is drawn from in the simulated kernels.
    pub chance: u64,
    /// Simulated kernels; neighbours share model and precision.
    pub sims: Vec<Sim>,
    /// Layouts that the built-in kernels run in.
    pub layouts: Vec<LayoutKind>,
}

impl Drawn {
    /// Output rows of the case on one kernel, each one query token and head.
    pub fn rows_per_kernel(&self) -> u64 {
        (self.story.query_tokens() * self.case.shape.q_heads) as u64
    }

    /// Output rows of the case on all kernels, `built_in` of them in each layout.
    pub fn rows(&self, built_in: usize) -> u64 {
        self.rows_per_kernel() * (self.sims.len() + built_in * self.layouts.len()) as u64
    }
}

/// Case number `index` of the sweep with `seed`: rows of up to `max_keys` keys, and with `control` a kernel that is wrong.
///
/// # Panics
/// Never: plain content fits every case.
pub fn draw(seed: u64, index: u64, max_keys: usize, control: bool) -> Drawn {
    let mut rng = stream(&[seed, index]);
    let fill = FillKind::ALL[rng.below(FillKind::ALL.len())];
    let chance = rng.bits();
    let mut valid = (0..=ATTEMPTS).filter_map(|attempt| {
        let mut rng = stream(&[seed, index, attempt]);
        let fill = if attempt == ATTEMPTS { FillKind::Plain } else { fill };
        let (case, story) = case(&mut rng, seed, index, max_keys, fill);
        case.validate().is_ok().then_some((case, story, rng))
    });
    let (case, story, mut rng) = valid.next().expect("plain content needs nothing of a case");
    let long = story.longest() > LONG;
    let layouts =
        if long { vec![LayoutKind::ALL[rng.below(LayoutKind::ALL.len())]] } else { LayoutKind::ALL.to_vec() };
    Drawn { index, chance, sims: sims(&mut rng, long, control), layouts, case, story }
}

/// Two algorithms under each model, in one precision each; for a long row two algorithms in all.
fn sims(rng: &mut Rng, long: bool, control: bool) -> Vec<Sim> {
    let mut models = Model::all();
    rng.shuffle(&mut models);
    let mut sims = Vec::new();
    for model in models.into_iter().take(if long { 1 } else { 3 }) {
        let precision =
            if rng.below(3) == 0 { Precision::F32 } else { Precision::ALL[rng.below(Precision::ALL.len())] };
        let first = rng.below(ALGORITHMS.len());
        let second = (first + 1 + rng.below(ALGORITHMS.len() - 1)) % ALGORITHMS.len();
        sims.extend([first, second].map(|algorithm| Sim { model, precision, algorithm, control: false }));
    }
    if control {
        sims.push(Sim::control(rng.below(ALGORITHMS.len())));
    }
    sims
}

/// One of `list`.
fn any<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[rng.below(list.len())]
}

/// True once in `n`.
fn once_in(rng: &mut Rng, n: usize) -> bool {
    rng.below(n) == 0
}

/// A length, even on a log scale, and often one at an edge of a block or of 64.
fn length(rng: &mut Rng, block: usize, most: usize) -> usize {
    let edges = [1, block - 1, block, block + 1, 2 * block, 2 * block + 1, 63, 64, 65, most];
    let len = if once_in(rng, 4) {
        any(rng, &edges)
    } else {
        let octaves = most.next_power_of_two().ilog2().max(1);
        let octave = 1 << rng.below(octaves as usize);
        octave + rng.below(octave)
    };
    len.clamp(1, most)
}

fn story(rng: &mut Rng, block: usize, max_keys: usize) -> Story {
    let len = length(rng, block, max_keys);
    let is_long = len > LONG;
    let steps = if once_in(rng, 3) { rng.below(len.min(9)) } else { 0 };
    let kind = if is_long || len < 2 { 0 } else { rng.below(8) };
    let shared = rng.below(len - steps + 1);
    Story {
        prompt: len - steps,
        steps,
        fork: kind == 1 && len < max_keys,
        second: (kind == 2).then(|| (shared, rng.below(len - shared + 1).max(usize::from(shared == 0)))),
        q_len: if once_in(rng, 2) { 1 } else { 1 + rng.below(if is_long { 2 } else { 5 }) },
    }
}

fn shape(rng: &mut Rng, elem: Elem, longest: usize) -> Shape {
    let most_heads = match longest {
        LONGER.. => 2,
        MIDDLE.. => 4,
        _ => 8,
    };
    let kv_heads = 1 + rng.below(most_heads.min(4));
    let group = 1 + rng.below(most_heads / kv_heads);
    let step = 16 / elem.bytes();
    let usual = [64, 64, 128, 32, 80, 16, 256];
    let dims =
        |rng: &mut Rng| if once_in(rng, 4) { step * (1 + rng.below(160 / step)) } else { any(rng, &usual) };
    let d = dims(rng);
    let dv = if once_in(rng, 4) { dims(rng) } else { d };
    Shape { q_heads: kv_heads * group, kv_heads, d, dv }
}

/// Granularities of K and V. In f32 and bf16 scales per block and per token would bring codes near the largest f32, where
/// a kernel that scales after its sum overflows; so these formats only have coarser ones.
fn granularities(rng: &mut Rng, elem: Elem) -> [Granularity; 2] {
    let scaled = match elem {
        Elem::F32 | Elem::Bf16 => &Granularity::ALL[1..3],
        _ => &Granularity::ALL[1..],
    };
    if elem == Elem::Int8 || elem.bytes() == 1 && !once_in(rng, 3) || once_in(rng, 8) {
        [any(rng, scaled), any(rng, scaled)]
    } else {
        [Granularity::None; 2]
    }
}

/// One attempt at a case; it may be invalid.
fn case(rng: &mut Rng, seed: u64, index: u64, max_keys: usize, fill: FillKind) -> (Case, Story) {
    let usual = [Elem::F32, Elem::F16, Elem::Bf16];
    let kv = if once_in(rng, 2) { any(rng, &usual) } else { any(rng, &Elem::ALL) };
    let block_size = any(rng, &[16, 16, 16, 32, 64, 8, 4, 2, 1, 128]);
    let story = story(rng, block_size as usize, max_keys);
    let longest = story.longest();
    let shape = shape(rng, kv, longest);
    let [k_scale, v_scale] = granularities(rng, kv);
    let script = parse_script(&story.text()).expect("a story is a script");
    let name = format!("sweep-{index}");
    let why = format!("Number {index} of the sweep with seed {seed:#x}: {} inputs.", fill.name());
    let base = Case::new(Family::User, &name, &why, shape, script);
    let causal =
        if once_in(rng, 4) { any(rng, &[Causal::None, Causal::TopLeft]) } else { Causal::BottomRight };
    let window = (causal != Causal::None && once_in(rng, 3)).then(|| 1 + rng.below(longest + 2) as u32);
    let splits = once_in(rng, 4).then(|| 1 + rng.below(8) as u32);
    let most_scale = rng.unit() + 0.5;
    let case = Case {
        block_size,
        blocks: 0,
        first_block: if once_in(rng, 8) { rng.below(40) as u32 } else { 0 },
        splits,
        split_tokens: (splits.is_none() && once_in(rng, 4)).then(|| block_size * (1 + rng.below(8) as u32)),
        kv,
        k_scale,
        v_scale,
        scale: match rng.below(8) {
            0 => any(rng, &[0.125, 0.25, 0.5]),
            1 => (f64::from(default_scale(shape.d)) * most_scale) as f32,
            2 => -default_scale(shape.d),
            _ => default_scale(shape.d),
        },
        window,
        release: window.is_some() && causal == Causal::BottomRight && story.q_len == 1 && once_in(rng, 2),
        alibi: once_in(rng, 4),
        softcap: once_in(rng, 4).then(|| any(rng, &[0.5, 1.0, 5.0, 20.0, 30.0, 50.0])),
        bias_order: any(rng, &[BiasOrder::CapThenAlibi, BiasOrder::AlibiThenCap]),
        sinks: once_in(rng, 4),
        causal,
        slot_pad: if once_in(rng, 8) { 16 } else { 0 },
        fill,
        ..base
    };
    (with_blocks(case, &story), story)
}

/// The case with a pool that holds its rows, with room for growth in extents.
pub(super) fn with_blocks(case: Case, story: &Story) -> Case {
    let block = case.block_size as usize;
    let rows = story.lengths();
    let full: usize = rows.iter().map(|len| len.div_ceil(block)).sum();
    let growth = rows.len() * (64_usize.div_ceil(block) + 2);
    Case { blocks: case.first_block + (full + growth) as u32, ..case }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn draws_are_valid_and_reach_everything() {
        let mut fills = BTreeSet::new();
        let (mut elems, mut long, mut sims) = (BTreeSet::new(), 0, BTreeSet::new());
        for index in 0..400 {
            let drawn = draw(5, index, 8192, false);
            drawn.case.validate().expect("a drawn case is valid");
            let lengths = drawn.story.lengths();
            assert_eq!(lengths.iter().max(), Some(&drawn.case.script.longest_row()));
            assert!(lengths.iter().all(|len| (1..=8192).contains(len)), "{lengths:?}");
            assert!((1..=5).contains(&drawn.story.q_len));
            fills.insert(drawn.case.fill);
            elems.insert(drawn.case.kv);
            long += usize::from(drawn.story.longest() > LONG);
            sims.extend(drawn.sims.iter().map(Sim::name));
        }
        assert_eq!(fills.len(), FillKind::ALL.len(), "{fills:?}");
        assert_eq!(elems.len(), Elem::ALL.len());
        assert!((40..160).contains(&long), "{long}");
        assert!(sims.len() > 150, "{}", sims.len());
    }

    #[test]
    fn draws_depend_on_seed_and_index_alone() {
        assert_eq!(draw(1, 2, 512, false), draw(1, 2, 512, false));
        assert_ne!(draw(1, 2, 512, false).chance, draw(2, 1, 512, false).chance);
        let (plain, control) = (draw(1, 2, 512, false), draw(1, 2, 512, true));
        assert_eq!(plain.case, control.case);
        assert_eq!(control.sims.len(), plain.sims.len() + 1);
    }
}
