//! Runs a [`Problem`] on a device: buffers, pipelines, dispatches and the way back, with every wgpu error caught.

use std::collections::BTreeMap;
use std::time::Duration;

use wgpu::util::DeviceExt as _;

use attnproof_layouts::pack::Pools;

use crate::abi::{Params, Problem, STORAGE_BINDINGS, UNWRITTEN};
use crate::compose::{Edit, Shader, compose_faulty, concerns, validate};
use crate::device::Device;
use crate::fault::KernelFault;
use crate::results::{Outputs, ProbeLog};

/// Workgroup memory that the attention core declares, in bytes.
pub const WORKGROUP_BYTES: u32 = 16_384;

/// The longest that one submission may take.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

/// Why a problem could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The adapter's limits do not allow the run.
    #[error("needs {need} {what}, the adapter allows {allowed}")]
    Limit {
        /// What is limited, with its unit.
        what: &'static str,
        /// What the run needs.
        need: u64,
        /// What there is.
        allowed: u64,
    },
    /// wgpu or the driver refuses a shader, a buffer or a dispatch.
    #[error("validation: {0}")]
    Validation(String),
    /// The device has no memory left.
    #[error("out of device memory: {0}")]
    OutOfMemory(String),
    /// The device was lost.
    #[error("device lost: {0}")]
    Lost(String),
    /// The CPU twin read outside a binding.
    #[error("reads word {word} of {binding}, which has {words} words")]
    OutOfBounds {
        /// The binding.
        binding: &'static str,
        /// The word's index.
        word: u32,
        /// Words in the binding.
        words: usize,
    },
    /// No answer within the deadline.
    #[error("no answer within {} s", DEADLINE.as_secs())]
    Timeout,
}

/// One run of a problem over one image of the pools.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The pools and scale tables, with their poison.
    pub pools: &'a Pools,
    /// Whether loads are counted.
    pub probe: bool,
}

/// What came back from one run.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Outputs and their guards.
    pub outputs: Outputs,
    /// What the probe counted, if it was on.
    pub probe: Option<ProbeLog>,
}

/// A device with its pipelines, each compiled at its first use and kept.
#[derive(Debug)]
pub struct Gpu {
    device: Device,
    bind_group_layout: wgpu::BindGroupLayout,
    pipeline_layout: wgpu::PipelineLayout,
    pipelines: BTreeMap<Shader, wgpu::ComputePipeline>,
    /// The pipelines that the edits of the last fault concern.
    faulty: BTreeMap<Shader, wgpu::ComputePipeline>,
    edits: &'static [Edit],
}

/// The words of little-endian bytes.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// The buffers of one run that are read back.
struct Readable {
    outputs: wgpu::Buffer,
    probe: Option<wgpu::Buffer>,
}

impl Gpu {
    /// A runner on `device`.
    pub fn new(device: Device) -> Self {
        let entry = |binding: u32, ty: wgpu::BufferBindingType| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform)];
        for binding in 1..=STORAGE_BINDINGS as u32 {
            entries.push(entry(binding, wgpu::BufferBindingType::Storage { read_only: binding <= 5 }));
        }
        let bind_group_layout = device.wgpu.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("attnproof"),
            entries: &entries,
        });
        let pipeline_layout = device.wgpu.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("attnproof"),
            bind_group_layouts: &[Some(&bind_group_layout)],
            immediate_size: 0,
        });
        Self {
            device,
            bind_group_layout,
            pipeline_layout,
            pipelines: BTreeMap::new(),
            faulty: BTreeMap::new(),
            edits: &[],
        }
    }

    /// Pipelines of the right kernels compiled so far.
    pub fn pipelines(&self) -> usize {
        self.pipelines.len()
    }

    /// Runs `problem` once per entry of `runs`, in that order, in one submission.
    ///
    /// # Errors
    /// [`RunError`]; nothing of the runs is returned then.
    pub fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
        self.run_edited(problem, runs, &[])
    }

    /// As [`Gpu::run`], with the kernels that `fault` breaks. Only the faulty pipelines of one fault are kept.
    ///
    /// # Errors
    /// As [`Gpu::run`]; [`RunError::Validation`] for a fault that has no edits.
    pub fn run_faulty(
        &mut self,
        problem: &Problem,
        runs: &[Run<'_>],
        fault: &KernelFault,
    ) -> Result<Vec<RunResult>, RunError> {
        if fault.wgsl.is_empty() {
            return Err(RunError::Validation(format!("fault {} is one of the CPU twin only", fault.id)));
        }
        self.run_edited(problem, runs, fault.wgsl)
    }

    fn run_edited(
        &mut self,
        problem: &Problem,
        runs: &[Run<'_>],
        edits: &'static [Edit],
    ) -> Result<Vec<RunResult>, RunError> {
        problem.check_size()?;
        self.check_limits(problem)?;
        let scopes =
            [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal]
                .map(|filter| self.device.wgpu.push_error_scope(filter));
        let ran = self.run_in_scopes(problem, runs, edits);
        let errors: Vec<_> = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop())).collect();
        // a loss brings validation errors with it, so it is looked at first
        if let Some(reason) = self.device.lost.lock().ok().and_then(|mut lost| lost.take()) {
            return Err(RunError::Lost(reason));
        }
        match errors.into_iter().flatten().next() {
            None => ran,
            Some(wgpu::Error::OutOfMemory { source }) => Err(RunError::OutOfMemory(source.to_string())),
            Some(other) => Err(RunError::Validation(other.to_string())),
        }
    }

    fn check_limits(&self, problem: &Problem) -> Result<(), RunError> {
        let limits = self.device.wgpu.limits();
        let largest = [problem.output_words(), problem.partial_words(), problem.probe_words()]
            .into_iter()
            .chain(problem.bitmap_words().map(|w| w * 32))
            .chain([problem.q.len() as u32])
            .max()
            .unwrap_or(0);
        let groups =
            problem.phases().iter().flat_map(|p| p.grid).chain([problem.q_rows()]).max().unwrap_or(0);
        for (what, need, allowed) in [
            (
                "storage buffers",
                STORAGE_BINDINGS as u64,
                u64::from(limits.max_storage_buffers_per_shader_stage),
            ),
            (
                "bytes of workgroup memory",
                u64::from(WORKGROUP_BYTES),
                u64::from(limits.max_compute_workgroup_storage_size),
            ),
            ("bytes in one binding", u64::from(largest) * 4, limits.max_storage_buffer_binding_size),
            (
                "workgroups in one dimension",
                u64::from(groups),
                u64::from(limits.max_compute_workgroups_per_dimension),
            ),
        ] {
            if need > allowed {
                return Err(RunError::Limit { what, need, allowed });
            }
        }
        Ok(())
    }

    fn run_in_scopes(
        &mut self,
        problem: &Problem,
        runs: &[Run<'_>],
        edits: &'static [Edit],
    ) -> Result<Vec<RunResult>, RunError> {
        if !edits.is_empty() && edits != self.edits {
            self.faulty.clear();
            self.edits = edits;
        }
        for run in runs {
            self.compile(attention_shader(problem, run.probe), edits)?;
        }
        self.compile(Shader::Merge, edits)?;
        let mut encoder = self.device.wgpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let readable: Vec<Readable> = (0..)
            .zip(runs)
            .map(|(index, run)| self.encode(&mut encoder, problem, run, index, edits))
            .collect();
        let staging = self.stage(&mut encoder, &readable);
        let submission = self.device.queue.submit([encoder.finish()]);
        let bytes = self.device.read(&staging, submission)?;
        let mut rest = words(&bytes);
        let mut results = Vec::with_capacity(runs.len());
        for run in runs {
            let after = rest.split_off(problem.output_words() as usize);
            let outputs = Outputs::new(problem, std::mem::replace(&mut rest, after));
            let probe = run.probe.then(|| {
                let after = rest.split_off(problem.probe_words() as usize);
                ProbeLog::new(problem, &std::mem::replace(&mut rest, after))
            });
            results.push(RunResult { outputs, probe });
        }
        Ok(results)
    }

    /// The cache in which `shader` lies under `edits`.
    fn cache(&self, shader: Shader, edits: &[Edit]) -> &BTreeMap<Shader, wgpu::ComputePipeline> {
        if concerns(shader, edits) { &self.faulty } else { &self.pipelines }
    }

    fn compile(&mut self, shader: Shader, edits: &[Edit]) -> Result<(), RunError> {
        if self.cache(shader, edits).contains_key(&shader) {
            return Ok(());
        }
        let composition =
            compose_faulty(shader, edits).map_err(|no_place| RunError::Validation(no_place.to_string()))?;
        let device = &self.device.wgpu;
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(&shader.label()),
            source: wgpu::ShaderSource::Wgsl(composition.source.as_str().into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&shader.label()),
            layout: Some(&self.pipeline_layout),
            module: &module,
            entry_point: Some(shader.entry_point()),
            // the kernels read no workgroup variable before they write it, and the clearing costs compile time
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..wgpu::PipelineCompilationOptions::default()
            },
            cache: None,
        });
        if let Some(error) = pollster::block_on(scope.pop()) {
            // naga's own words, at the file and line, when it is the WGSL that is wrong
            let reason =
                validate(shader, &composition).map_or_else(|e| e.to_string(), |()| error.to_string());
            return Err(RunError::Validation(reason));
        }
        let cache = if concerns(shader, edits) { &mut self.faulty } else { &mut self.pipelines };
        cache.insert(shader, pipeline);
        Ok(())
    }

    fn storage(&self, contents: &[u32]) -> wgpu::Buffer {
        // a binding may not be empty; the extra word is never addressed
        let contents = if contents.is_empty() { &[UNWRITTEN] } else { contents };
        self.device.wgpu.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: bytemuck::cast_slice(contents),
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        })
    }

    fn uniform(&self, params: &Params) -> wgpu::Buffer {
        self.device.wgpu.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: bytemuck::bytes_of(params),
            usage: wgpu::BufferUsages::UNIFORM,
        })
    }

    fn encode(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        problem: &Problem,
        run: &Run<'_>,
        index: u32,
        edits: &[Edit],
    ) -> Readable {
        let pipeline = |shader| &self.cache(shader, edits)[&shader];
        let params = |right: &Params| Params { run: index, ..*right };
        let probe_words = if run.probe { problem.probe_words() as usize } else { 1 };
        let storage = [
            self.storage(&problem.q),
            self.storage(&run.pools.k),
            self.storage(&run.pools.v),
            self.storage(&problem.side(run.pools)),
            self.storage(&problem.launch.tables.words),
            self.storage(&Outputs::unwritten(problem)),
            self.storage(&vec![UNWRITTEN; problem.partial_words() as usize]),
            self.storage(&vec![0; probe_words]),
        ];
        let phases = problem.phases();
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for phase in &phases {
            pass.set_pipeline(pipeline(attention_shader(problem, run.probe)));
            pass.set_bind_group(0, &self.bind_group(&params(&phase.params), &storage), &[]);
            pass.dispatch_workgroups(phase.grid[0], phase.grid[1], phase.grid[2]);
        }
        if let Some(phase) = phases.first() {
            pass.set_pipeline(pipeline(Shader::Merge));
            pass.set_bind_group(0, &self.bind_group(&params(&phase.params), &storage), &[]);
            pass.dispatch_workgroups(problem.q_rows(), 1, 1);
        }
        drop(pass);
        let [.., outputs, _, probe] = storage;
        Readable { outputs, probe: run.probe.then_some(probe) }
    }

    fn bind_group(&self, params: &Params, storage: &[wgpu::Buffer; STORAGE_BINDINGS]) -> wgpu::BindGroup {
        let uniform = self.uniform(params);
        let entries: Vec<_> = std::iter::once(&uniform)
            .chain(storage)
            .zip(0..)
            .map(|(buffer, binding)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        self.device.wgpu.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.bind_group_layout,
            entries: &entries,
        })
    }

    /// One staging buffer with, run by run, the outputs and then the probe.
    fn stage(&self, encoder: &mut wgpu::CommandEncoder, readable: &[Readable]) -> wgpu::Buffer {
        let sources = || readable.iter().flat_map(|r| std::iter::once(&r.outputs).chain(&r.probe));
        let staging = self.device.wgpu.create_buffer(&wgpu::BufferDescriptor {
            label: Some("staging"),
            size: sources().map(wgpu::Buffer::size).sum(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut at = 0;
        for source in sources() {
            encoder.copy_buffer_to_buffer(source, 0, &staging, at, source.size());
            at += source.size();
        }
        staging
    }
}

fn attention_shader(problem: &Problem, probe: bool) -> Shader {
    Shader::Attention { layout: problem.launch.kind, elem: problem.launch.elem, probe }
}
