// The same loads, counted: words 0 to 3 of `probe` count the words requested of K, V, tables and scales; a bitmap per
// binding marks the words touched. A load that every lane makes of one address counts once a workgroup.
fn touch(counter: u32, bitmap: u32, word: u32) {
    atomicAdd(&probe[counter], 1u);
    atomicOr(&probe[bitmap + word / 32u], 1u << (word % 32u));
}

fn k_load(word: u32) -> u32 {
    touch(0u, P.probe_k_at, word);
    return k_pool[word];
}

fn v_load(word: u32) -> u32 {
    touch(1u, P.probe_v_at, word);
    return v_pool[word];
}

fn table_load(word: u32) -> u32 {
    touch(2u, P.probe_tables_at, word);
    return tables[word];
}

fn table_load_uniform(word: u32, lane: u32) -> u32 {
    if (lane == 0u) {
        touch(2u, P.probe_tables_at, word);
    }
    return tables[word];
}

fn scale_load(word: u32) -> f32 {
    touch(3u, P.probe_side_at, word);
    return side[word];
}

fn scale_load_uniform(word: u32, lane: u32) -> f32 {
    if (lane == 0u) {
        touch(3u, P.probe_side_at, word);
    }
    return side[word];
}
