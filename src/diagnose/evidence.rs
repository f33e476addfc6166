//! One check as the oracle's fault library wants it: dense rows with their codes and scales, and outputs by row.

use attnproof_cases::replay::{CheckRow, Walk};
use attnproof_layouts::tables;
use attnproof_oracle::fault::{Piece, Scene, SceneRow};
use attnproof_oracle::{Answer, Row, Spec};
use attnproof_shaders::results::Outputs;
use ndarray::{Array2, Array3};

use super::{DiagnoseError, Failed};
use crate::runner::prepare::Prepared;

/// Keys of one tile of the built-in kernels.
const TILE: usize = 64;

/// The rows of one check.
pub(super) struct Evidence {
    rows: Vec<Dense>,
}

struct Dense {
    row: CheckRow,
    q: Array3<f64>,
    k_codes: Array3<u32>,
    v_codes: Array3<u32>,
    k_scales: Array2<f64>,
    v_scales: Array2<f64>,
}

impl Dense {
    fn row(&self) -> Row<'_> {
        Row { q: self.q.view(), k: self.row.k.view(), v: self.row.v.view(), mask: None }
    }
}

impl Evidence {
    /// The rows of check `index`; none if there is no such check.
    pub(super) fn of(
        prepared: &Prepared<'_>,
        seed: u64,
        index: usize,
    ) -> Result<Option<Self>, DiagnoseError> {
        let check = Walk::new(prepared.case, seed)?.with_stored(true).nth(index).transpose()?;
        let shape = *prepared.spec.shape();
        let dense = |row: CheckRow| {
            let stored = &row.stored;
            let codes = |dims: usize, part: fn(&attnproof_cases::fill::TokenRow) -> &Vec<u32>| {
                Array3::from_shape_fn((row.len, shape.kv_heads, dims), |(j, h, c)| {
                    part(&stored[j])[h * dims + c]
                })
            };
            let scales = |part: fn(&attnproof_cases::fill::TokenRow) -> &Vec<f32>| {
                Array2::from_shape_fn((row.len, shape.kv_heads), |(j, h)| match part(&stored[j]).as_slice() {
                    [] => 1.0,
                    &[whole] => f64::from(whole),
                    by_head => f64::from(by_head[h]),
                })
            };
            Dense {
                q: row.q.mapv(f64::from),
                k_codes: codes(shape.d, |token| &token.k),
                v_codes: codes(shape.dv, |token| &token.v),
                k_scales: scales(|token| &token.k_scale),
                v_scales: scales(|token| &token.v_scale),
                row,
            }
        };
        Ok(check.map(|check| Self { rows: check.rows.into_iter().map(dense).collect() }))
    }

    /// The rows as the reference takes them.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        self.rows.iter().map(Dense::row).collect()
    }

    /// The batch with the schedule it ran under.
    pub(super) fn scene<'a>(&'a self, prepared: &'a Prepared<'_>, failed: &Failed) -> Scene<'a> {
        let (case, schedule) = (prepared.case, &failed.schedule);
        let piece = |piece: &tables::Piece| Piece { start: piece.start as usize, part: piece.part as usize };
        Scene {
            spec: &prepared.spec,
            rows: self
                .rows
                .iter()
                .zip(&failed.pieces)
                .map(|(d, pieces)| SceneRow {
                    q: d.q.view(),
                    k: d.row.k.view(),
                    v: d.row.v.view(),
                    k_codes: Some(d.k_codes.view()),
                    v_codes: Some(d.v_codes.view()),
                    k_scales: Some(d.k_scales.view()),
                    v_scales: Some(d.v_scales.view()),
                    pieces: pieces.iter().map(piece).collect(),
                })
                .collect(),
            elem: case.kv,
            block_size: case.block_size as usize,
            tile: TILE,
            split_tokens: schedule.split_tokens as usize,
            splits: schedule.splits as usize,
            pairs_per_workgroup: schedule.pair_tile as usize,
            heads_per_workgroup: schedule.heads_per_group as usize,
            whole_blocks: schedule.whole_blocks,
            k_granularity: case.k_scale,
            v_granularity: case.v_scale,
        }
    }

    /// A kernel's outputs by row.
    pub(super) fn answers(&self, spec: &Spec, outputs: &Outputs) -> Vec<Answer> {
        let shape = spec.shape();
        let value = |bits: u32| f64::from(f32::from_bits(bits));
        let mut first = 0;
        self.rows
            .iter()
            .map(|d| {
                let mut answer = Answer::empty(spec, d.row.q_len);
                for ((i, h, c), o) in answer.o.indexed_iter_mut() {
                    *o = value(outputs.o()[((first + i) * shape.q_heads + h) * shape.dv + c]);
                }
                for ((i, h), lse) in answer.lse.indexed_iter_mut() {
                    *lse = value(outputs.lse()[(first + i) * shape.q_heads + h]);
                }
                first += d.row.q_len;
                answer
            })
            .collect()
    }
}
