// The loads of K, V, tables and scales, uncounted.
fn k_load(word: u32) -> u32 {
    return k_pool[word];
}

fn v_load(word: u32) -> u32 {
    return v_pool[word];
}

fn table_load(word: u32) -> u32 {
    return tables[word];
}

fn table_load_uniform(word: u32, lane: u32) -> u32 {
    return tables[word];
}

fn scale_load(word: u32) -> f32 {
    return side[word];
}

fn scale_load_uniform(word: u32, lane: u32) -> f32 {
    return side[word];
}
