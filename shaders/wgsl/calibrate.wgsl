// Elementary operations, one an invocation: the arithmetic of an adapter. Operands come from a buffer, so that no compiler
// folds them.
struct Question {
    op: u32,
    a: u32,   // operands, f32 bits
    b: u32,
    c: u32,
}

@group(0) @binding(0) var<storage, read> questions: array<Question>;
@group(0) @binding(1) var<storage, read_write> answers: array<u32>;

@compute @workgroup_size(64)
fn calibrate(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= arrayLength(&questions)) {
        return;
    }
    let question = questions[id.x];
    let a = bitcast<f32>(question.a);
    let b = bitcast<f32>(question.b);
    let c = bitcast<f32>(question.c);
    var answer = 0.0;
    switch question.op {
        case 0u: { answer = a + b; }
        case 1u: { answer = a * b; }
        case 2u: { answer = a / b; }
        case 3u: { answer = fma(a, b, c); }
        case 4u: { answer = a * b + c; }
        case 5u: { answer = exp(a); }
        case 6u: { answer = exp2(a); }
        case 7u: { answer = log(a); }
        case 8u: { answer = tanh(a); }
        case 9u: { answer = unpack2x16float(question.a).x; }
        default: {}
    }
    answers[id.x] = bitcast<u32>(answer);
}
