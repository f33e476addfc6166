//! What can be judged: the built-in WGSL kernels on an adapter, and their CPU twin.

use std::collections::BTreeMap;

use attnproof_layouts::pack::Poison;
use attnproof_oracle::bound::Model;
use attnproof_report::model::Adapter as AdapterRow;
use attnproof_shaders::abi::Problem;
use attnproof_shaders::cpu;
use attnproof_shaders::device::{Adapter, DeviceError};
use attnproof_shaders::dispatch::{Gpu, Run, RunError, RunResult};
use attnproof_shaders::fault::KernelFault;

/// A kernel under judgement. Each worker of a run has its own.
pub trait Kernel: Send {
    /// Name in result rows.
    fn name(&self) -> &str;
    /// The adapter it runs on.
    fn adapter(&self) -> &AdapterRow;
    /// The precision model it is judged by.
    fn model(&self) -> Model;
    /// The poisons that must leave no trace in its output, beside [`Poison::A`].
    fn poisons(&self) -> &'static [Poison];
    /// Limits of its device that bear on a case.
    fn limits(&self) -> Option<BTreeMap<String, u64>> {
        None
    }
    /// Runs `problem` once per entry of `runs`.
    ///
    /// # Errors
    /// [`RunError`]: a status of the case, not the end of the run.
    fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError>;
}

/// The kernels that one worker runs side by side.
pub type Kernels = Vec<Box<dyn Kernel>>;

/// The WGSL kernels on one adapter.
pub struct Wgsl {
    adapter: Adapter,
    row: AdapterRow,
    model: Model,
    gpu: Option<Gpu>,
}

impl Wgsl {
    /// Opens `adapter`, to be judged by `model`: by the letter of WGSL, unless the adapter was calibrated.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver refuses.
    pub fn open(adapter: &Adapter, model: Model) -> Result<Self, DeviceError> {
        let info = &adapter.info;
        let row = AdapterRow {
            name: info.name.clone(),
            backend: info.backend.clone(),
            driver: info.driver.clone(),
        };
        let gpu = Some(Gpu::new(adapter.open()?));
        Ok(Self { adapter: adapter.clone(), row, model, gpu })
    }

    /// Runs kernels with `fault` in them.
    ///
    /// # Errors
    /// [`RunError`], as [`Kernel::run`].
    pub fn run_faulty(
        &mut self,
        problem: &Problem,
        runs: &[Run<'_>],
        fault: &KernelFault,
    ) -> Result<Vec<RunResult>, RunError> {
        self.on_gpu(|gpu| gpu.run_faulty(problem, runs, fault))
    }

    /// Opens the device again if it was lost.
    fn on_gpu(
        &mut self,
        run: impl FnOnce(&mut Gpu) -> Result<Vec<RunResult>, RunError>,
    ) -> Result<Vec<RunResult>, RunError> {
        let gpu = match &mut self.gpu {
            Some(gpu) => gpu,
            gone => gone.insert(Gpu::new(self.adapter.open().map_err(|e| RunError::Lost(e.to_string()))?)),
        };
        let ran = run(gpu);
        if let Err(RunError::Lost(_) | RunError::Timeout) = ran {
            self.gpu = None;
        }
        ran
    }
}

impl Kernel for Wgsl {
    fn name(&self) -> &'static str {
        "wgsl"
    }

    fn adapter(&self) -> &AdapterRow {
        &self.row
    }

    fn model(&self) -> Model {
        self.model
    }

    fn poisons(&self) -> &'static [Poison] {
        &[Poison::B]
    }

    fn limits(&self) -> Option<BTreeMap<String, u64>> {
        let info = &self.adapter.info;
        Some(BTreeMap::from([
            ("max_binding_bytes".to_owned(), info.max_binding_bytes),
            ("storage_buffers".to_owned(), u64::from(info.storage_buffers)),
            ("workgroup_bytes".to_owned(), u64::from(info.workgroup_bytes)),
        ]))
    }

    fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
        self.on_gpu(|gpu| gpu.run(problem, runs))
    }
}

/// The CPU twin.
pub struct Twin {
    row: AdapterRow,
}

impl Twin {
    /// The twin of this build.
    pub fn new() -> Self {
        let driver = format!("attnproof {}", env!("CARGO_PKG_VERSION"));
        Self { row: AdapterRow { name: "cpu".to_owned(), backend: "rust".to_owned(), driver } }
    }
}

impl Default for Twin {
    fn default() -> Self {
        Self::new()
    }
}

impl Kernel for Twin {
    fn name(&self) -> &'static str {
        "cpu-twin"
    }

    fn adapter(&self) -> &AdapterRow {
        &self.row
    }

    fn model(&self) -> Model {
        Model::strict()
    }

    fn poisons(&self) -> &'static [Poison] {
        &[Poison::B, Poison::NanK, Poison::NanV, Poison::Infinite]
    }

    fn run(&mut self, problem: &Problem, runs: &[Run<'_>]) -> Result<Vec<RunResult>, RunError> {
        cpu::run(problem, runs)
    }
}
