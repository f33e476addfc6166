//! What an adapter's arithmetic really does, beside what WGSL allows: one dispatch of elementary operations, their exact
//! results in f64, and the precision model that covers them.
//!
//! WGSL, "Floating Point Accuracy", is a table of limits that most GPUs stay far inside. Which of the named models of the
//! oracle an adapter is judged by is decided here by measurement; anything outside WGSL's table is reported.

mod points;

use attnproof_oracle::Model;
use attnproof_oracle::bound::TanhError;
use wgpu::util::DeviceExt as _;

use crate::device::Device;
use crate::dispatch::{RunError, words};
use points::{Op, Question, questions};

/// Measured errors are those of some hundred thousand points: what is between them may be worse, up to this factor.
const SAFETY: f64 = 2.0;
const EPS: f64 = f32::EPSILON as f64;

/// How sums and products are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even, wherever it was looked at.
    Nearest,
    /// To one of the two neighbours, which WGSL allows.
    Neighbour,
    /// Beyond the neighbours: outside WGSL's table.
    Beyond,
}

/// What was measured. Errors of functions are shares of what WGSL allows, 1 being the limit, unless a unit is named.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Calibration {
    /// `+` and `*`.
    pub rounding: Rounding,
    /// Whether subnormal operands and results survive.
    pub keeps_subnormals: bool,
    /// Whether subnormal binary16 values survive `unpack2x16float`.
    pub keeps_f16_subnormals: bool,
    /// Whether `exp(0)` and `exp2(0)` are exactly 1.
    pub exp_of_zero_is_one: bool,
    /// `fma` rounds once.
    pub fma_is_fused: bool,
    /// `a * b + c` is contracted to one rounding.
    pub contracts: bool,
    /// `exp` on [-100, 0], of `3 + 2 |x|` ulps.
    pub exp: f64,
    /// `exp2` on [-140, 0], of `3 + 2 |x|` ulps.
    pub exp2: f64,
    /// `log` on [1, 2^17], of 2^-21 absolute up to 2 and 3 ulps beyond.
    pub log: f64,
    /// Division, in ulps; WGSL allows 2.5.
    pub division_ulp: f64,
    /// `tanh` on [-10, 10], absolute; WGSL allows 1e-5.
    pub tanh_absolute: f64,
    /// The same, relative.
    pub tanh_relative: f64,
    /// `tanh` of 50, 100, 1e4 and their negatives is finite and as close.
    pub tanh_saturates: bool,
}

/// Measures `device`.
///
/// # Errors
/// [`RunError`]: the shader or the dispatch failed.
pub fn calibrate(device: &Device) -> Result<Calibration, RunError> {
    let questions = questions();
    let answers = ask(device, &questions)?;
    Ok(Calibration::of(&questions, &answers))
}

impl Calibration {
    /// The narrowest named model that covers the adapter.
    pub fn model(&self) -> Model {
        let fits = |model: &Model| {
            let nearest = self.rounding == Rounding::Nearest || !model.nearest;
            let subnormals = self.keeps_subnormals || model.ftz_in > 0.0;
            let tanh = match model.tanh {
                TanhError::Relative(allowed) => SAFETY * self.tanh_relative <= allowed,
                TanhError::Wgsl => true,
            };
            // a share of `exp_const + exp_slope |z|` that the model has room for, in terms of WGSL's `3 + 2 |x|`
            let exp = SAFETY * self.exp.max(self.exp2) <= model.exp_const / 3.0;
            nearest
                && subnormals
                && tanh
                && exp
                && SAFETY * self.division_ulp <= model.div_ulp
                && SAFETY * self.log <= 1.0
        };
        Model::all().into_iter().find(fits).unwrap_or(Model::wgsl_letter())
    }

    /// What is outside WGSL's own table: a fault of the adapter or its driver.
    pub fn outside_wgsl(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.rounding == Rounding::Beyond {
            found.push("a sum or product is not one of the two numbers next to the exact one".to_owned());
        }
        // NaN is within nothing
        for (name, share) in [("exp", self.exp), ("exp2", self.exp2), ("log", self.log)] {
            let within = share <= 1.0;
            if !within {
                found.push(format!("{name} errs by {share:.2} times what WGSL allows"));
            }
        }
        let (division, tanh) = (self.division_ulp <= 2.5, self.tanh_absolute <= 1e-5);
        if !division {
            found.push(format!("division errs by {:.2} ulps, WGSL allows 2.5", self.division_ulp));
        }
        if !tanh {
            found.push(format!("tanh errs by {:.2e}, WGSL allows 1e-5", self.tanh_absolute));
        }
        if !self.tanh_saturates {
            found.push("tanh of a large argument is not 1".to_owned());
        }
        found
    }

    fn of(questions: &[Question], answers: &[f32]) -> Self {
        let of = |op: Op| questions.iter().zip(answers).filter(move |(q, _)| q.op == op);
        let worst = |op: Op, error: &dyn Fn(&Question, f64) -> f64| {
            // NaN is the worst error there is
            of(op)
                .map(|(q, &got)| error(q, f64::from(got)))
                .fold(0.0, |top: f64, e| if e.is_nan() || top.is_nan() { f64::INFINITY } else { top.max(e) })
        };
        let power = |q: &Question, got: f64| {
            let exact = q.exact();
            // results below the smallest normal number may be flushed
            if exact < f64::from(f32::MIN_POSITIVE) {
                return if got >= 0.0 && got <= 2.0 * f64::from(f32::MIN_POSITIVE) { 0.0 } else { f64::NAN };
            }
            (got - exact).abs() / ulp(exact) / (3.0 + 2.0 * f64::from(q.a).abs())
        };
        let log = |q: &Question, got: f64| {
            let exact = q.exact();
            let allowed = if q.a <= 2.0 { 4.0 * EPS } else { 3.0 * ulp(exact) };
            (got - exact).abs() / allowed
        };
        let arithmetic = || of(Op::Add).chain(of(Op::Mul));
        let exact = |(q, got): &(&Question, &f32)| (q.exact(), f64::from(**got));
        let neighbour =
            |(want, got): (f64, f64)| (got - want).abs() < ulp(want).max(f64::from(f32::MIN_POSITIVE));
        let nearest = |(want, got): (f64, f64)| {
            f64::from(want as f32) == got || want.abs() < f64::from(f32::MIN_POSITIVE)
        };
        let rounding = if arithmetic().all(|pair| nearest(exact(&pair))) {
            Rounding::Nearest
        } else if arithmetic().all(|pair| neighbour(exact(&pair))) {
            Rounding::Neighbour
        } else {
            Rounding::Beyond
        };
        let survives =
            |op: Op| of(op).filter(|(q, _)| q.is_subnormal()).all(|(q, &got)| f64::from(got) == q.exact());
        let saturated = of(Op::Tanh).filter(|(q, _)| q.a.abs() > 20.0);
        Self {
            rounding,
            keeps_subnormals: survives(Op::Add) && survives(Op::Mul),
            keeps_f16_subnormals: survives(Op::Unpack),
            exp_of_zero_is_one: of(Op::Exp)
                .chain(of(Op::Exp2))
                .filter(|(q, _)| q.a == 0.0)
                .all(|(_, &got)| got == 1.0),
            fma_is_fused: of(Op::Fma).all(|(q, &got)| f64::from(got) == q.exact()),
            contracts: of(Op::MulAdd).all(|(q, &got)| f64::from(got) == q.exact()),
            exp: worst(Op::Exp, &power),
            exp2: worst(Op::Exp2, &power),
            log: worst(Op::Log, &log),
            division_ulp: worst(Op::Div, &|q, got| (got - q.exact()).abs() / ulp(q.exact())),
            tanh_absolute: worst(Op::Tanh, &|q, got| (got - q.exact()).abs()),
            tanh_relative: worst(Op::Tanh, &|q, got| {
                if q.a == 0.0 { got.abs() } else { ((got - q.exact()) / q.exact()).abs() }
            }),
            tanh_saturates: saturated.into_iter().all(|(q, &got)| (f64::from(got) - q.exact()).abs() <= 1e-5),
        }
    }
}

/// The distance between the f32 numbers around `x`, at least that at the smallest normal number.
fn ulp(x: f64) -> f64 {
    let exponent = libm::ilogb(x.abs().max(f64::from(f32::MIN_POSITIVE)));
    libm::scalbn(EPS, exponent)
}

fn ask(device: &Device, questions: &[Question]) -> Result<Vec<f32>, RunError> {
    let wgpu = &device.wgpu;
    let scope = wgpu.push_error_scope(wgpu::ErrorFilter::Validation);
    let module = wgpu.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("calibrate"),
        source: wgpu::ShaderSource::Wgsl(include_str!("../wgsl/calibrate.wgsl").into()),
    });
    let pipeline = wgpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("calibrate"),
        layout: None,
        module: &module,
        entry_point: Some("calibrate"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let asked: Vec<u32> = questions.iter().flat_map(Question::words).collect();
    let buffer = |contents: &[u32], usage| {
        let contents = bytemuck::cast_slice(contents);
        wgpu.create_buffer_init(&wgpu::util::BufferInitDescriptor { label: None, contents, usage })
    };
    let input = buffer(&asked, wgpu::BufferUsages::STORAGE);
    let output =
        buffer(&vec![u32::MAX; questions.len()], wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
    let staging = wgpu.create_buffer(&wgpu::BufferDescriptor {
        label: Some("staging"),
        size: output.size(),
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let bound = |binding, buffer: &wgpu::Buffer| (binding, buffer.clone());
    let bindings = [bound(0, &input), bound(1, &output)];
    let entries = bindings.each_ref().map(|(binding, buffer)| wgpu::BindGroupEntry {
        binding: *binding,
        resource: buffer.as_entire_binding(),
    });
    let group = wgpu.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &entries,
    });
    let mut encoder = wgpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(questions.len().div_ceil(64) as u32, 1, 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&output, 0, &staging, 0, output.size());
    let submission = device.queue.submit([encoder.finish()]);
    if let Some(error) = pollster::block_on(scope.pop()) {
        return Err(RunError::Validation(error.to_string()));
    }
    let bytes = device.read(&staging, submission)?;
    Ok(words(&bytes).into_iter().map(f32::from_bits).collect())
}

#[cfg(test)]
mod tests;
