// Uniforms and bindings, the same for every kernel. Offsets into `tables`, `side`, `outputs` and `probe` are in
// 4-byte words; pool bases and strides are in elements of the KV format.
struct Params {
    q_heads: u32,
    kv_heads: u32,
    group: u32,              // query heads per KV head
    heads_per_unit: u32,     // query heads one workgroup serves

    d: u32,
    dv: u32,
    block_size: u32,
    pair_tile: u32,          // (query token, head) pairs one workgroup serves, at most MAX_PAIRS

    k_base: u32,
    k_slot: u32,
    k_head: u32,
    k_block: u32,

    v_base: u32,
    v_slot: u32,
    v_head: u32,
    v_block: u32,

    scale: f32,
    softcap: f32,            // 0: none
    flags: u32,              // the FLAG_ bits below
    phase: u32,              // 0: rows, 1: groups of rows that share a prefix

    left: u32,               // keys visible before the query, excluding itself; at most 2^30
    right: u32,              // keys visible after it; at most 2^30
    split_tokens: u32,
    splits: u32,

    k_scale: u32,            // scale granularity: 0 none, 1 tensor, 2 KV head, 3 block x head, 4 token x head
    v_scale: u32,
    k_scales_at: u32,
    v_scales_at: u32,

    slopes_at: u32,
    sinks_at: u32,
    cu_q_at: u32,
    rows_at: u32,            // seq_lens, last_len, tail or seq_desc

    indptr_at: u32,
    entries_at: u32,         // block_table, indices or spans
    entries_stride: u32,     // block_table: entries a row
    groups_at: u32,

    members_at: u32,
    merge_mask_at: u32,
    q_tokens: u32,
    o_at: u32,

    lse_at: u32,
    probe_k_at: u32,
    probe_v_at: u32,
    probe_tables_at: u32,

    probe_side_at: u32,
    rows: u32,               // the last three are for wrong kernels only: rows of the batch,
    longest: u32,            // keys of the longest row,
    run: u32,                // number of the run in its submission
}

const FLAG_CAUSAL: u32 = 1u;
const FLAG_TOP_LEFT: u32 = 2u;
const FLAG_ALIBI: u32 = 4u;
const FLAG_ALIBI_THEN_CAP: u32 = 8u;
const FLAG_SINKS: u32 = 16u;

@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> queries: array<f32>;
@group(0) @binding(2) var<storage, read> k_pool: array<u32>;
@group(0) @binding(3) var<storage, read> v_pool: array<u32>;
@group(0) @binding(4) var<storage, read> side: array<f32>;
@group(0) @binding(5) var<storage, read> tables: array<u32>;
@group(0) @binding(6) var<storage, read_write> outputs: array<u32>;
@group(0) @binding(7) var<storage, read_write> partials: array<u32>;
@group(0) @binding(8) var<storage, read_write> probe: array<atomic<u32>>;

// A partial result: one word that is 1 if any key was seen, the LSE, then dv output elements.
fn partial_at(part: u32, q_row: u32) -> u32 {
    return (part * P.q_tokens * P.q_heads + q_row) * (P.dv + 2u);
}
