//! The checks of one case in one layout: the script through the KV manager, and at every `check` a problem to put to
//! kernels.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use attnproof_cases::case::Case;
use attnproof_cases::script::Op;
use attnproof_layouts::launch::{Attention, CausalKind, Launch, Split, UNLIMITED};
use attnproof_layouts::pack::{Poison, Pools, Store};
use attnproof_layouts::tables::{LowerError, RowQuery};
use attnproof_oracle::{BiasOrder, Causal, Spec};
use attnproof_report::model::Counts;
use attnproof_shaders::abi::Problem;

use super::drive::{Drive, DriveError};
use super::prepare::{Prepared, PreparedCheck};

/// Why a check could not be put to the kernels.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The script could not go on.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The tables could not be made.
    #[error("script line {line}: {source}")]
    Lower {
        /// Script line.
        line: usize,
        /// The reason.
        source: LowerError,
    },
}

/// One check, ready for a kernel.
pub struct Asked<'a> {
    /// Its index among the case's checks.
    pub index: usize,
    /// Queries and the oracle's answers.
    pub check: &'a PreparedCheck,
    /// What a kernel receives.
    pub problem: &'a Problem,
    /// The pools under each poison.
    pub images: &'a Images<'a>,
}

/// Takes `drive` through the script of `prepared` and puts every check to `ask`; what the manager did in all.
///
/// # Errors
/// [`CheckError`]: the manager, the store or the lowering failed; checks before that were asked.
pub fn walk(
    prepared: &Prepared<'_>,
    mut drive: Drive<'_>,
    ask: &mut dyn FnMut(&Asked<'_>),
) -> Result<Counts, CheckError> {
    let case = prepared.case;
    let mut checks = prepared.checks.iter().enumerate();
    for (op, &line) in case.script.ops.iter().zip(&case.script.lines) {
        drive.step(op, line)?;
        if let Op::Check { .. } = op
            && let Some((index, check)) = checks.next()
        {
            let images = Images::new(&drive);
            let problem = problem(prepared, check, &drive, &images.get(Poison::A))
                .map_err(|source| CheckError::Lower { line, source })?;
            ask(&Asked { index, check, problem: &problem, images: &images });
        }
    }
    let stats = drive.manager.stats();
    Ok(Counts {
        prompt_tokens: stats.prompt_tokens,
        hit_tokens: stats.hit_tokens,
        hit_blocks: stats.hit_blocks,
        mid_block_tokens: stats.mid_block_tokens,
        copies: stats.copies,
        evictions: stats.evictions,
        reused_blocks: stats.reused_blocks,
        released_blocks: stats.released_blocks,
        checks: 0,
    })
}

/// The pools of a check under each poison, made when first asked for.
pub struct Images<'d> {
    store: &'d Store,
    made: RefCell<BTreeMap<Poison, Rc<Pools>>>,
}

impl<'d> Images<'d> {
    fn new(drive: &'d Drive<'_>) -> Self {
        Self { store: &drive.store, made: RefCell::default() }
    }

    /// The pools with `poison` in every slot never written.
    pub fn get(&self, poison: Poison) -> Rc<Pools> {
        let mut made = self.made.borrow_mut();
        Rc::clone(made.entry(poison).or_insert_with(|| Rc::new(self.store.pools(poison))))
    }
}

fn problem(
    prepared: &Prepared<'_>,
    check: &PreparedCheck,
    drive: &Drive<'_>,
    pools: &Pools,
) -> Result<Problem, LowerError> {
    let case = prepared.case;
    let profile = prepared.spec.profile();
    let rows: Vec<_> = check.rows.iter().map(|r| RowQuery { name: &r.name, q_len: r.q_len as u32 }).collect();
    let attention = attention(case, &prepared.spec);
    let split = match (case.splits, case.split_tokens) {
        (Some(count), _) => Split::Count(count),
        (None, Some(tokens)) => Split::Tokens(tokens),
        (None, None) => Split::Own,
    };
    let q_heads = case.shape.q_heads as u32;
    let launch = Launch::build(&drive.manager, &drive.store, q_heads, &rows, attention, split)?;
    let slopes = prepared.spec.slopes().unwrap_or_default();
    let sinks = profile.sinks.as_deref().unwrap_or_default();
    Ok(Problem::new(launch, &check.q, pools, slopes, sinks))
}

fn attention(case: &Case, spec: &Spec) -> Attention {
    let profile = spec.profile();
    let side = |keys: Option<u32>| keys.unwrap_or(UNLIMITED);
    Attention {
        scale: case.scale,
        causal: match profile.causal {
            Causal::BottomRight => CausalKind::BottomRight,
            Causal::TopLeft => CausalKind::TopLeft,
            Causal::None => CausalKind::None,
        },
        left: side(profile.window.left),
        right: side(profile.window.right),
        softcap: profile.softcap.unwrap_or(0.0),
        alibi_then_cap: profile.bias_order == BiasOrder::AlibiThenCap,
        alibi: spec.slopes().is_some(),
        sinks: profile.sinks.is_some(),
    }
}
