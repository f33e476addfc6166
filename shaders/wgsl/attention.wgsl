// The attention core: one workgroup computes, for up to MAX_PAIRS (query token, query head) pairs that share a KV
// head, a partial output over one split of the keys. Online softmax over tiles of at most TILE keys: one lane per
// key for the scores, one lane per pair for the softmax, one lane per word column of V for the output.
// Masked keys are left out, never weighted by a small number; "no key yet" is `run_sum == 0`, never an infinity.
const LANES: u32 = 64u;
const TILE: u32 = 64u;
const MAX_PAIRS: u32 = 16u;

struct Pair {
    valid: bool,
    len: u32,      // keys of the pair's row
    q_begin: u32,  // first query token of the row in the packed batch
    q_len: u32,
    local: u32,    // query token * heads_per_unit + head, within the row
}

// A row of the grid: a row of the batch, or a group of rows. What a layout does not have stays 0.
struct RowRef {
    len: u32,
    q_begin: u32,
    q_len: u32,
    bounds: vec2<u32>,   // the positions that are this row's to read here
    part: u32,           // first part of its partial results
    entries: u32,        // first word of its block entries or span records
    entries_end: u32,
    hot_start: u32,      // first position of the contiguous tail, and its slot
    hot_slot: u32,
    members: u32,        // first word of a group's members
    members_end: u32,
}

fn row_of(len: u32, q_begin: u32, q_len: u32) -> RowRef {
    return RowRef(len, q_begin, q_len, vec2<u32>(0u, len), 0u, 0u, 0u, 0u, 0u, 0u, 0u);
}

// `count` keys from position `start`; `place` means what the address file says it means, `cursor` is where the next
// tile's search for its entry begins.
struct Tile {
    start: u32,
    count: u32,
    place: u32,
    cursor: u32,
}

var<workgroup> q_tile: array<f32, 1024>;   // [pair][dim]
var<workgroup> acc: array<f32, 1024>;      // [pair][dim]
var<workgroup> weight: array<f32, 1024>;   // [pair][key of the tile]
var<workgroup> slot_of: array<u32, 64>;
var<workgroup> v_scale_of: array<f32, 64>;
var<workgroup> pair_q: array<u32, 16>;     // query token * q_heads + head
var<workgroup> pair_lo: array<u32, 16>;    // visible keys: [lo, hi)
var<workgroup> pair_hi: array<u32, 16>;
var<workgroup> pair_pos: array<i32, 16>;   // absolute position of the query
var<workgroup> pair_slope: array<f32, 16>;
var<workgroup> pair_valid: array<u32, 16>;
var<workgroup> run_max: array<f32, 16>;
var<workgroup> run_sum: array<f32, 16>;
var<workgroup> rescale: array<f32, 16>;
var<workgroup> range: vec3<u32>;           // first key, end of keys, pairs

fn pair_set_up(lane: u32, unit: u32, pair: Pair) {
    var lo = 0u;
    var hi = 0u;
    pair_valid[lane] = select(0u, 1u, pair.valid);
    if (pair.valid) {
        let token = pair.local / P.heads_per_unit;
        let head = unit * P.heads_per_unit + pair.local % P.heads_per_unit;
        var position = i32(token);
        if ((P.flags & FLAG_TOP_LEFT) == 0u) {
            position += i32(pair.len) - i32(pair.q_len);
        }
        let len = i32(pair.len);
        var end = min(len, position + i32(P.right) + 1);
        if ((P.flags & FLAG_CAUSAL) != 0u) {
            end = min(end, position + 1);
        }
        hi = u32(max(end, 0));
        lo = min(u32(max(position - i32(P.left), 0)), hi);
        pair_q[lane] = (pair.q_begin + token) * P.q_heads + head;
        pair_pos[lane] = position;
        if ((P.flags & FLAG_ALIBI) != 0u) {
            pair_slope[lane] = side[P.slopes_at + head];
        }
    }
    pair_lo[lane] = lo;
    pair_hi[lane] = hi;
    run_max[lane] = 0.0;
    run_sum[lane] = 0.0;
}

// The keys this workgroup reads: the union of what its pairs see, cut to its split and to `bounds`.
fn key_range(split: u32, bounds: vec2<u32>) -> vec3<u32> {
    var lo = 0xffffffffu;
    var hi = 0u;
    var pairs = 0u;
    for (var i = 0u; i < P.pair_tile; i++) {
        pairs += pair_valid[i];
        if (pair_lo[i] < pair_hi[i]) {
            lo = min(lo, pair_lo[i]);
            hi = max(hi, pair_hi[i]);
        }
    }
    if (lo >= hi) {
        return vec3<u32>(0u, 0u, pairs);
    }
    lo = max(max(lo, split * P.split_tokens), bounds.x);
    hi = min(min(hi, (split + 1u) * P.split_tokens), bounds.y);
    if (lo >= hi) {
        return vec3<u32>(0u, 0u, pairs);
    }
    return vec3<u32>(widen(vec2<u32>(lo, hi)), pairs);
}

fn row_scale(granularity: u32, at: u32, slot: u32, kv_head: u32) -> f32 {
    if (granularity == 3u) {
        return scale_load(at + (slot / P.block_size) * P.kv_heads + kv_head);
    }
    return scale_load(at + slot * P.kv_heads + kv_head);
}

fn whole_scale(granularity: u32, at: u32, kv_head: u32, lane: u32) -> f32 {
    if (granularity == 1u) {
        return scale_load_uniform(at, lane);
    }
    if (granularity == 2u) {
        return scale_load_uniform(at + kv_head, lane);
    }
    return 1.0;
}

fn capped(x: f32) -> f32 {
    if (P.softcap > 0.0) {
        // tanh is 1 to the last bit of f32 from 10 on; the clamp keeps exp-based implementations from overflowing
        return P.softcap * tanh(clamp(x / P.softcap, -15.0, 15.0));
    }
    return x;
}

fn score(x: f32, pair: u32, key: u32) -> f32 {
    var bias = 0.0;
    if ((P.flags & FLAG_ALIBI) != 0u) {
        var distance = i32(key) - pair_pos[pair];
        if ((P.flags & FLAG_CAUSAL) == 0u) {
            distance = -abs(distance);
        }
        bias = pair_slope[pair] * f32(distance);
    }
    let inside = (P.flags & FLAG_ALIBI_THEN_CAP) != 0u;
    return capped(x + select(0.0, bias, inside)) + select(bias, 0.0, inside);
}

// Scores of one key against all pairs; each word of K is loaded once.
fn score_key(key: u32, slot: u32, lane: u32, kv_head: u32, pairs: u32, k_scale: f32) {
    for (var i = 0u; i < pairs; i++) {
        weight[i * TILE + lane] = 0.0;
    }
    for (var w = 0u; w < P.d / WORD_ELEMENTS; w++) {
        let word = k_load(k_word(slot, kv_head, w));
        for (var l = 0u; l < WORD_ELEMENTS; l++) {
            let element = decode(word, l);
            for (var i = 0u; i < pairs; i++) {
                weight[i * TILE + lane] += q_tile[i * P.d + w * WORD_ELEMENTS + l] * element;
            }
        }
    }
    for (var i = 0u; i < pairs; i++) {
        weight[i * TILE + lane] = score(weight[i * TILE + lane] * k_scale * P.scale, i, key);
    }
}

// Whether key `j` of the tile is counted.
fn sees(pair: u32, tile: Tile, j: u32) -> bool {
    let key = tile.start + j;
    return key >= pair_lo[pair] && key < pair_hi[pair];
}

// Turns the scores of one pair over the tile into weights against the running maximum.
fn softmax_pair(pair: u32, tile: Tile) {
    let at = pair * TILE;
    var sum = run_sum[pair];
    var top = run_max[pair];
    var empty = sum == 0.0;
    for (var j = 0u; j < tile.count; j++) {
        if (sees(pair, tile, j)) {
            top = select(max(top, weight[at + j]), weight[at + j], empty);
            empty = false;
        }
    }
    var old = 1.0;
    if (sum != 0.0) {
        old = exp(run_max[pair] - top);
    }
    sum *= old;
    for (var j = 0u; j < tile.count; j++) {
        var w = 0.0;
        if (sees(pair, tile, j)) {
            w = exp(weight[at + j] - top);
        }
        weight[at + j] = w;
        sum += w;
    }
    run_max[pair] = top;
    run_sum[pair] = sum;
    rescale[pair] = old;
}

// Adds one word column of V over the tile to the accumulators of all pairs; each word is loaded once.
fn accumulate(unit: u32, tile: Tile, kv_head: u32, pairs: u32) {
    for (var i = 0u; i < pairs; i++) {
        for (var c = 0u; c < UNIT_DIMS; c++) {
            acc[i * P.dv + unit * UNIT_DIMS + c] *= rescale[i];
        }
    }
    for (var step = 0u; step < tile.count / STEP_KEYS; step++) {
        let word = v_load(v_word(slot_of[step * STEP_KEYS], kv_head, unit));
        for (var l = 0u; l < WORD_ELEMENTS; l++) {
            let key = step * STEP_KEYS + l % STEP_KEYS;
            let at = unit * UNIT_DIMS + l % UNIT_DIMS;
            let element = decode(word, l) * v_scale_of[key];
            for (var i = 0u; i < pairs; i++) {
                let w = weight[i * TILE + key];
                if (w != 0.0) {
                    acc[i * P.dv + at] += w * element;
                }
            }
        }
    }
}

@compute @workgroup_size(64)
fn attention(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let units = P.q_heads / P.heads_per_unit;
    let unit = wg.x % units;
    let first_pair = (wg.x / units) * P.pair_tile;
    let kv_head = unit * P.heads_per_unit / P.group;

    var row = row_open(wg.y, lane);
    if (lane < P.pair_tile) {
        pair_set_up(lane, unit, pair_find(row, first_pair + lane));
    }
    workgroupBarrier();
    if (lane == 0u) {
        range = key_range(wg.z, row.bounds);
    }
    let keys = workgroupUniformLoad(&range);
    let pairs = keys.z;
    for (var i = lane; i < pairs * P.d; i += LANES) {
        q_tile[i] = queries[pair_q[i / P.d] * P.d + i % P.d];
    }
    for (var i = lane; i < pairs * P.dv; i += LANES) {
        acc[i] = 0.0;
    }

    var k_scale = 1.0;
    var v_scale = 1.0;
    if (keys.x < keys.y) {
        k_scale = whole_scale(P.k_scale, P.k_scales_at, kv_head, lane);
        v_scale = whole_scale(P.v_scale, P.v_scales_at, kv_head, lane);
        row = row_range(row, wg.y, keys.xy, lane);
    }
    workgroupBarrier();

    var cursor = row.entries;
    var t = keys.x;
    while (t < keys.y) {
        let tile = tile_open(row, cursor, t, keys.y, lane);
        if (tile.count == 0u) {
            break;
        }
        if (lane < tile.count) {
            let slot = tile_slot(row, tile, lane);
            slot_of[lane] = slot;
            var scale = k_scale;
            if (P.k_scale > 2u) {
                scale = row_scale(P.k_scale, P.k_scales_at, slot, kv_head);
            }
            v_scale_of[lane] = v_scale;
            if (P.v_scale > 2u) {
                v_scale_of[lane] = row_scale(P.v_scale, P.v_scales_at, slot, kv_head);
            }
            score_key(tile.start + lane, slot, lane, kv_head, pairs, scale);
        }
        workgroupBarrier();
        if (lane < pairs) {
            softmax_pair(lane, tile);
        }
        workgroupBarrier();
        for (var u = lane; u < P.dv / UNIT_DIMS; u += LANES) {
            accumulate(u, tile, kv_head, pairs);
        }
        workgroupBarrier();
        t = tile.start + tile.count;
        cursor = tile.cursor;
    }

    let part = row.part + wg.z;
    for (var i = lane; i < pairs * P.dv; i += LANES) {
        let pair = i / P.dv;
        if (run_sum[pair] != 0.0) {
            partials[partial_at(part, pair_q[pair]) + 2u + i % P.dv] = bitcast<u32>(acc[i] / run_sum[pair]);
        }
    }
    if (lane < pairs) {
        let at = partial_at(part, pair_q[lane]);
        let seen = run_sum[lane] != 0.0;
        partials[at] = select(0u, 1u, seen);
        if (seen) {
            partials[at + 1u] = bitcast<u32>(run_max[lane] + log(run_sum[lane]));
        }
    }
}
