// Merges the partial results of a (query token, head) by their LSE: o = sum w o_part / sum w, w = exp(lse_part - max).
// Empty parts are skipped; the sink joins the denominator here, once. The mask of a query token says which parts
// exist: bit 0 the row's own splits, bit 1 + level the splits of a shared-prefix group of that level.
const NEGATIVE_INFINITY: u32 = 0xff800000u;

fn part_seen(mask: u32, part: u32, q_row: u32) -> bool {
    return ((mask >> (part / P.splits)) & 1u) != 0u && partials[partial_at(part, q_row)] != 0u;
}

fn part_lse(part: u32, q_row: u32) -> f32 {
    return bitcast<f32>(partials[partial_at(part, q_row) + 1u]);
}

// The query row to which the outputs of `q_row` are written.
fn out_row(q_row: u32) -> u32 {
    return q_row;
}

fn store_o(q_row: u32, c: u32, bits: u32) {
    outputs[P.o_at + out_row(q_row) * P.dv + c] = bits;
}

fn store_lse(q_row: u32, bits: u32) {
    outputs[P.lse_at + out_row(q_row)] = bits;
}

@compute @workgroup_size(64)
fn merge(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let q_row = wg.x;
    let mask = tables[P.merge_mask_at + q_row / P.q_heads];
    let parts = (32u - countLeadingZeros(mask)) * P.splits;
    let sinks = (P.flags & FLAG_SINKS) != 0u;
    var sink = 0.0;
    if (sinks) {
        sink = side[P.sinks_at + q_row % P.q_heads];
    }

    var seen = false;
    var top = sink;
    for (var part = 0u; part < parts; part++) {
        if (part_seen(mask, part, q_row)) {
            let lse = part_lse(part, q_row);
            top = select(lse, max(top, lse), seen || sinks);
            seen = true;
        }
    }
    if (!seen) {
        for (var c = lane; c < P.dv; c += 64u) {
            store_o(q_row, c, 0u);
        }
        if (lane == 0u) {
            store_lse(q_row, select(NEGATIVE_INFINITY, bitcast<u32>(sink), sinks));
        }
        return;
    }

    var sum = 0.0;
    if (sinks) {
        sum = exp(sink - top);
    }
    for (var part = 0u; part < parts; part++) {
        if (part_seen(mask, part, q_row)) {
            sum += exp(part_lse(part, q_row) - top);
        }
    }
    for (var c = lane; c < P.dv; c += 64u) {
        var o = 0.0;
        for (var part = 0u; part < parts; part++) {
            if (part_seen(mask, part, q_row)) {
                o += exp(part_lse(part, q_row) - top) * bitcast<f32>(partials[partial_at(part, q_row) + 2u + c]);
            }
        }
        store_o(q_row, c, bitcast<u32>(o / sum));
    }
    if (lane == 0u) {
        store_lse(q_row, bitcast<u32>(top + log(sum)));
    }
}
