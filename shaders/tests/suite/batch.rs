//! A batch from its description: rows through the KV manager into a store, a problem for the kernels, and what the
//! oracle says of it. K and V come from the row's tokens here, never out of the store.

use attnproof_layouts::kind::LayoutKind;
use attnproof_layouts::launch::{Attention, CausalKind, Launch, Split, UNLIMITED};
use attnproof_layouts::manager::{Manager, Placed, PoolConfig};
use attnproof_layouts::pack::{Geometry, Poison, Pools, RowCodes, Store};
use attnproof_layouts::tables::RowQuery;
use attnproof_layouts::traffic::{self, Touched};
use attnproof_oracle::{
    BiasOrder, Causal, Elem, Finding, Granularity, Model, OutType, Profile, Row, Saturate, Shape, Spec,
    Tensor, TensorVerdict, attention, bounds, compare,
};
use attnproof_shaders::abi::{Problem, UNWRITTEN};
use attnproof_shaders::results::{Outputs, ProbeLog};
use ndarray::Array3;

use crate::machine::Rng;

/// One row of a batch.
#[derive(Clone, Debug)]
pub(crate) struct RowPlan {
    /// Keys given at once.
    pub(crate) prompt: u32,
    /// Keys appended one by one.
    pub(crate) appended: u32,
    /// Query tokens.
    pub(crate) q_len: u32,
    /// Whether the row is a copy of the row before it, to which `appended` is added, and not a prompt.
    pub(crate) fork: bool,
}

/// Everything that decides a batch.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: LayoutKind,
    pub(crate) elem: Elem,
    pub(crate) shape: Shape,
    pub(crate) block_size: u32,
    pub(crate) slot_pad: u32,
    /// The block that is given out first.
    pub(crate) first_block: u32,
    /// How many times larger than usual K and V are.
    pub(crate) gain: f64,
    pub(crate) k_scale: Granularity,
    pub(crate) v_scale: Granularity,
    pub(crate) profile: Profile,
    pub(crate) split: Split,
    /// Prompt tokens that all rows have in common.
    pub(crate) shared: u32,
    pub(crate) rows: Vec<RowPlan>,
    pub(crate) seed: u64,
}

impl Plan {
    /// Two rows over f32 without scales, and nothing but the causal mask.
    pub(crate) fn plain(kind: LayoutKind) -> Self {
        let row = |prompt, q_len| RowPlan { prompt, appended: 1, q_len, fork: false };
        Self {
            kind,
            elem: Elem::F32,
            shape: Shape { q_heads: 4, kv_heads: 2, d: 16, dv: 16 },
            block_size: 16,
            slot_pad: 0,
            first_block: 1,
            gain: 1.0,
            k_scale: Granularity::None,
            v_scale: Granularity::None,
            profile: Profile::default(),
            split: Split::Own,
            shared: 20,
            rows: vec![row(70, 1), row(40, 2)],
            seed: 1,
        }
    }

    pub(crate) fn geometry(&self, blocks: u32) -> Geometry {
        Geometry {
            kind: self.kind,
            elem: self.elem,
            kv_heads: self.shape.kv_heads as u32,
            d: self.shape.d as u32,
            dv: self.shape.dv as u32,
            block_size: self.block_size,
            blocks,
            slot_pad: self.slot_pad,
            k_scale: self.k_scale,
            v_scale: self.v_scale,
        }
    }

    fn rng(&self, stream: u64, token: u64) -> Rng {
        let mut rng = Rng(self.seed ^ (stream << 56) ^ token);
        Rng(rng.bits())
    }

    /// A scale per KV head; nothing in them is equal between heads, K and V, or tokens.
    fn scales(&self, stream: u64, token: u64) -> Vec<f32> {
        let small = if self.elem == Elem::Int8 { 0.02 } else { 1.0 };
        let mut rng = self.rng(stream, token);
        (0..self.shape.kv_heads).map(|_| ((0.5 + rng.unit()) * small) as f32).collect()
    }

    fn granularity(&self, stream: u64) -> Granularity {
        if stream == K { self.k_scale } else { self.v_scale }
    }

    /// The scale of each KV head that applies at position `p` of a row.
    fn scales_at(&self, stream: u64, tokens: &[u64], p: usize) -> Vec<f32> {
        let heads = self.shape.kv_heads;
        match self.granularity(stream) {
            Granularity::None => vec![1.0; heads],
            Granularity::Tensor => vec![self.scales(stream, u64::MAX)[0]; heads],
            Granularity::Head => self.scales(stream, u64::MAX),
            Granularity::Block => self.scales(stream, tokens[p - p % self.block_size as usize]),
            Granularity::Token => self.scales(stream, tokens[p]),
        }
    }

    /// The scales that the store is made with.
    fn fixed_scales(&self, stream: u64) -> Vec<f32> {
        match self.granularity(stream) {
            Granularity::Tensor => self.scales_at(stream, &[], 0)[..1].to_vec(),
            Granularity::Head => self.scales_at(stream, &[], 0),
            _ => Vec::new(),
        }
    }

    /// Codes `[KV head][dim]` at position `p` of a row.
    fn codes(&self, stream: u64, tokens: &[u64], p: usize) -> Vec<u32> {
        let dims = if stream == K { self.shape.d } else { self.shape.dv };
        let mut rng = self.rng(stream + 2, tokens[p]);
        let scales = self.scales_at(stream, tokens, p);
        let of_head = |scale: f32| -> Vec<u32> {
            let code = |_| self.elem.encode(self.gain * rng.normal() / f64::from(scale), Saturate::Finite);
            (0..dims).map(code).collect()
        };
        scales.into_iter().flat_map(of_head).collect()
    }

    /// K or V of a row as the stored bytes stand for it, `[key, KV head, dim]`.
    fn decoded(&self, stream: u64, tokens: &[u64]) -> Array3<f64> {
        let dims = if stream == K { self.shape.d } else { self.shape.dv };
        let value = |(p, codes, scales): (usize, Vec<u32>, Vec<f32>)| -> Vec<f64> {
            assert!(p < tokens.len() && codes.len() == scales.len() * dims);
            let scale = |at: usize| f64::from(scales[at / dims]);
            codes.iter().enumerate().map(|(at, &code)| self.elem.decode(code) * scale(at)).collect()
        };
        let at = |p| (p, self.codes(stream, tokens, p), self.scales_at(stream, tokens, p));
        let values: Vec<f64> = (0..tokens.len()).map(at).flat_map(value).collect();
        Array3::from_shape_vec((tokens.len(), self.shape.kv_heads, dims), values)
            .expect("one value per element")
    }
}

const K: u64 = 0;
const V: u64 = 1;

/// A batch ready to run.
pub(crate) struct Batch {
    pub(crate) problem: Problem,
    pub(crate) spec: Spec,
    store: Store,
    rows: Vec<Sequence>,
}

/// What the oracle sees of one row.
struct Sequence {
    q: Array3<f64>,
    k: Array3<f64>,
    v: Array3<f64>,
}

impl Batch {
    pub(crate) fn new(plan: &Plan) -> Self {
        let spec = Spec::new(plan.shape, plan.profile.clone()).expect("the profile is in range");
        let (manager, store, histories) = fill(plan);
        let names: Vec<String> = (0..plan.rows.len()).map(|row| row.to_string()).collect();
        let mut rng = plan.rng(4, 0);
        let mut batch: Vec<usize> = (0..plan.rows.len()).collect();
        if plan.seed % 2 == 1 {
            batch.reverse();
        }
        let asked: Vec<_> =
            batch.iter().map(|&row| RowQuery { name: &names[row], q_len: plan.rows[row].q_len }).collect();
        let launch = Launch::build(
            &manager,
            &store,
            plan.shape.q_heads as u32,
            &asked,
            attention_of(&spec),
            plan.split,
        )
        .expect("the batch is lowered");
        let sequence = |&row: &usize| {
            let shape = (plan.rows[row].q_len as usize, plan.shape.q_heads, plan.shape.d);
            let tokens = &histories[row];
            Sequence {
                q: Array3::from_shape_simple_fn(shape, || rng.normal()),
                k: plan.decoded(K, tokens),
                v: plan.decoded(V, tokens),
            }
        };
        let rows: Vec<Sequence> = batch.iter().map(sequence).collect();
        let q: Vec<f32> = rows.iter().flat_map(|row| row.q.iter().map(|&x| x as f32)).collect();
        let slopes = spec.slopes().unwrap_or_default();
        let sinks = spec.profile().sinks.as_deref().unwrap_or_default();
        let problem = Problem::new(launch, &q, &store.pools(Poison::A), slopes, sinks);
        Self { problem, spec, store, rows }
    }

    pub(crate) fn pools(&self, poison: Poison) -> Pools {
        self.store.pools(poison)
    }

    /// The verdicts on o and lse under `model`.
    pub(crate) fn judge(&self, outputs: &Outputs, model: &Model) -> [TensorVerdict; 2] {
        let (mut o, mut lse, mut e_o, mut e_lse) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in &self.rows {
            let row = Row { q: row.q.view(), k: row.k.view(), v: row.v.view(), mask: None };
            let answer = attention(&self.spec, &row).expect("the shapes fit");
            let (_, bound) = bounds(&self.spec, &row, model).expect("the shapes fit");
            assert!(bound.ok.iter().all(|&ok| ok), "the bound holds for inputs of this size");
            o.extend(answer.o);
            lse.extend(answer.lse);
            e_o.extend(bound.o);
            e_lse.extend(bound.lse);
        }
        let launch = &self.problem.launch;
        let shape = [launch.q_tokens as usize, launch.q_heads as usize, launch.dv as usize];
        let guards = outputs.guards();
        [("o", &shape[..], outputs.o(), &o, &e_o), ("lse", &shape[..2], outputs.lse(), &lse, &e_lse)].map(
            |(name, shape, got_bits, want, bound)| {
                let guard_pattern = UNWRITTEN;
                let out = OutType::F32;
                let tensor =
                    Tensor { name, shape, got_bits, out, want, bound, guards: &guards, guard_pattern };
                compare(&tensor, 1.0).expect("there is something to compare")
            },
        )
    }

    /// Whether o and lse pass under `model`.
    pub(crate) fn passes(&self, outputs: &Outputs, model: &Model) -> bool {
        self.judge(outputs, model).iter().all(|verdict| verdict.finding == Finding::Pass)
    }

    /// The largest magnitude in V.
    pub(crate) fn loudest(&self) -> f64 {
        self.rows.iter().flat_map(|row| row.v.iter()).fold(0.0, |most: f64, v| most.max(v.abs()))
    }
}

/// What the probe counted in the form of a prediction: K, V, tables, scales.
pub(crate) fn measured(log: &ProbeLog) -> [Touched; 4] {
    let distinct = log.distinct();
    [0, 1, 2, 3].map(|i| {
        let [words, sectors, lines] = distinct[i];
        Touched { loads: log.loads[i], words, sectors, lines }
    })
}

/// The prediction in the same form.
pub(crate) fn predicted(problem: &Problem) -> [Touched; 4] {
    let reads = traffic::predict(&problem.launch);
    [reads.k, reads.v, reads.tables, reads.scales]
}

pub(crate) fn attention_of(spec: &Spec) -> Attention {
    let profile = spec.profile();
    Attention {
        scale: spec.scale() as f32,
        causal: match profile.causal {
            Causal::BottomRight => CausalKind::BottomRight,
            Causal::TopLeft => CausalKind::TopLeft,
            Causal::None => CausalKind::None,
        },
        left: profile.window.left.unwrap_or(UNLIMITED),
        right: profile.window.right.unwrap_or(UNLIMITED),
        softcap: profile.softcap.unwrap_or(0.0),
        alibi_then_cap: profile.bias_order == BiasOrder::AlibiThenCap,
        alibi: spec.slopes().is_some(),
        sinks: profile.sinks.is_some(),
    }
}

/// Puts every row through the manager into a store; also returns each row's tokens.
fn fill(plan: &Plan) -> (Manager, Store, Vec<Vec<u64>>) {
    const EXTENT: u32 = 64;
    let tokens: u32 = plan.rows.iter().map(|row| row.prompt + row.appended).sum();
    let room = plan.rows.len() as u32 * (2 + EXTENT.div_ceil(plan.block_size));
    let config = PoolConfig {
        blocks: plan.first_block + 2 * (tokens.div_ceil(plan.block_size) + room),
        block_size: plan.block_size,
        first_block: plan.first_block,
        window: None,
        release: false,
        extent_tokens: EXTENT,
    };
    let mut manager = Manager::new(plan.kind, config).expect("the pool is in range");
    let fixed = [K, V].map(|stream| plan.fixed_scales(stream));
    let mut store =
        Store::new(plan.geometry(config.blocks), (&fixed[0], &fixed[1])).expect("the store is in range");
    let mut histories: Vec<Vec<u64>> = Vec::new();
    for (index, row) in plan.rows.iter().enumerate() {
        let name = index.to_string();
        let own = |p: u32| (index as u64 + 1) << 32 | u64::from(p);
        let mut history: Vec<u64>;
        let placed = match histories.last() {
            Some(before) if row.fork => {
                history = before.clone();
                manager.fork(&(index - 1).to_string(), &name)
            }
            _ => {
                history =
                    (0..row.prompt).map(|p| if p < plan.shared { u64::from(p) } else { own(p) }).collect();
                manager.prefill(&name, &history, 0)
            }
        };
        place(plan, &mut store, &placed.expect("the pool has room"), &history);
        for _ in 0..row.appended {
            history.push(own(history.len() as u32));
            let placed = manager.append(&name, history[history.len() - 1]).expect("the pool has room");
            place(plan, &mut store, &placed, &history);
        }
        histories.push(history);
    }
    manager.check_invariants().expect("the manager is sound");
    (manager, store, histories)
}

fn place(plan: &Plan, store: &mut Store, placed: &Placed, tokens: &[u64]) {
    for copy in &placed.copies {
        store.copy(copy);
    }
    for write in &placed.writes {
        let p = write.position as usize;
        let [k, v] = [K, V].map(|stream| plan.codes(stream, tokens, p));
        let [k_scale, v_scale] = [K, V].map(|stream| plan.scales_at(stream, tokens, p));
        store.write(write.slot, &RowCodes { k: &k, v: &v, k_scale: &k_scale, v_scale: &v_scale });
    }
}
