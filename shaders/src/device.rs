//! Adapters: what wgpu lists, how one is named, and how one is opened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, mpsc};

use crate::dispatch::{DEADLINE, RunError};

/// What an adapter says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Position in the list, stable within one driver set-up; `--adapter N`.
    pub index: usize,
    /// Name as the driver gives it.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`, `gl` or `noop`.
    pub backend: String,
    /// Driver name and version.
    pub driver: String,
    /// discrete, integrated, virtual, cpu (a software adapter) or other.
    pub kind: AdapterKind,
    /// Largest storage binding in bytes.
    pub max_binding_bytes: u64,
    /// Storage buffers a stage may bind.
    pub storage_buffers: u32,
    /// Workgroup memory in bytes.
    pub workgroup_bytes: u32,
    /// Smallest and largest subgroup.
    pub subgroup: (u32, u32),
    /// Optional features that matter to attention kernels, by name, and whether the adapter has them.
    pub features: [(&'static str, bool); 3],
}

/// The kind of hardware behind an adapter, best choice first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU lent by a hypervisor.
    Virtual,
    /// Unknown.
    Other,
    /// A software adapter: in-order, one subgroup size. It cannot show races.
    Cpu,
}

impl AdapterKind {
    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Other => "other",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.backend, self.driver)
    }
}

/// An adapter that could be opened.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// What it says of itself.
    pub info: AdapterInfo,
    inner: wgpu::Adapter,
}

/// Why an adapter cannot be chosen or opened.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No adapter has that name or index.
    #[error("no adapter matches '{wanted}'; there {}", in_words(.present))]
    NoMatch {
        /// What was asked for.
        wanted: String,
        /// What there is.
        present: Vec<String>,
    },
    /// The adapter refuses a device.
    #[error("adapter {adapter}: {reason}")]
    Refused {
        /// The adapter.
        adapter: String,
        /// The driver's reason.
        reason: String,
    },
}

fn in_words(present: &[String]) -> String {
    if present.is_empty() { "is no adapter at all".to_owned() } else { format!("is: {}", present.join("; ")) }
}

fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    descriptor.backend_options.noop = wgpu::NoopBackendOptions {
        enable: backends.contains(wgpu::Backends::NOOP),
        ..wgpu::NoopBackendOptions::default()
    };
    wgpu::Instance::new(descriptor)
}

fn describe(index: usize, adapter: &wgpu::Adapter) -> AdapterInfo {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    AdapterInfo {
        index,
        name: info.name,
        backend: info.backend.to_str().to_owned(),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Cpu,
            wgpu::DeviceType::Other => AdapterKind::Other,
        },
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        storage_buffers: limits.max_storage_buffers_per_shader_stage,
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        subgroup: (info.subgroup_min_size, info.subgroup_max_size),
        features: [
            ("shader-f16", features.contains(wgpu::Features::SHADER_F16)),
            ("subgroups", features.contains(wgpu::Features::SUBGROUP)),
            ("timestamps", features.contains(wgpu::Features::TIMESTAMP_QUERY)),
        ],
    }
}

/// Every adapter of this machine: Vulkan, Metal and DX12 first, then GL. Never the noop backend.
pub fn adapters() -> Vec<Adapter> {
    listed(&[wgpu::Backends::PRIMARY, wgpu::Backends::GL])
}

/// The adapters among which [`best`] finds its choice: the head of [`adapters`], without waking GL if there is any other.
pub fn candidates() -> Vec<Adapter> {
    let primary = listed(&[wgpu::Backends::PRIMARY]);
    if primary.is_empty() { adapters() } else { primary }
}

fn listed(backends: &[wgpu::Backends]) -> Vec<Adapter> {
    let found = backends.iter().flat_map(|&b| pollster::block_on(instance(b).enumerate_adapters(b)));
    let numbered = found.enumerate();
    let mut adapters: Vec<_> =
        numbered.map(|(index, inner)| Adapter { info: describe(index, &inner), inner }).collect();
    tell_apart(adapters.iter_mut().map(|adapter| &mut adapter.info));
    adapters
}

/// Numbers the adapters that say the same of themselves, such as two equal GPUs: rows must not be confused.
fn tell_apart<'a>(adapters: impl Iterator<Item = &'a mut AdapterInfo>) {
    let mut seen = BTreeMap::new();
    for info in adapters {
        let equals = seen.entry((info.name.clone(), info.backend.clone(), info.driver.clone())).or_insert(0);
        *equals += 1;
        if *equals > 1 {
            info.name = format!("{} #{equals}", info.name);
        }
    }
}

/// The best adapter: hardware before software, then in list order, so Vulkan, Metal and DX12 before GL.
pub fn best(adapters: &[Adapter]) -> Option<&Adapter> {
    adapters.iter().min_by_key(|a| (a.info.kind, a.info.index))
}

/// The adapters that `wanted` names: an index of the list, or a part of name, backend or driver in any case.
///
/// # Errors
/// [`DeviceError::NoMatch`] when there is none.
pub fn matching<'a>(adapters: &'a [Adapter], wanted: &str) -> Result<Vec<&'a Adapter>, DeviceError> {
    let needle = wanted.to_lowercase();
    // "4090" is an index only where there are so many adapters
    let index = wanted.parse::<usize>().ok().filter(|index| *index < adapters.len());
    let fits = |a: &&Adapter| match index {
        Some(index) => a.info.index == index,
        None => a.info.to_string().to_lowercase().contains(&needle),
    };
    let found: Vec<_> = adapters.iter().filter(fits).collect();
    if found.is_empty() || needle.is_empty() {
        let present = adapters.iter().map(|a| a.info.to_string()).collect();
        return Err(DeviceError::NoMatch { wanted: wanted.to_owned(), present });
    }
    Ok(found)
}

/// wgpu's noop backend: it runs no shader, so every case must fail on it. The control of the whole harness.
///
/// # Errors
/// [`DeviceError::NoMatch`] if wgpu was built without it.
pub fn noop() -> Result<Adapter, DeviceError> {
    let found = pollster::block_on(instance(wgpu::Backends::NOOP).enumerate_adapters(wgpu::Backends::NOOP));
    let inner = found.into_iter().next();
    inner
        .map(|inner| Adapter { info: describe(0, &inner), inner })
        .ok_or_else(|| DeviceError::NoMatch { wanted: "noop".to_owned(), present: Vec::new() })
}

/// An open device.
#[derive(Debug)]
pub struct Device {
    pub(crate) wgpu: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) lost: Arc<Mutex<Option<String>>>,
}

impl Adapter {
    /// Opens a device with WebGPU's default limits, but for the sizes of buffers and bindings, which are the adapter's.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] with the driver's reason.
    pub fn open(&self) -> Result<Device, DeviceError> {
        let own = self.inner.limits();
        let mut limits = wgpu::Limits::default().or_worse_values_from(&own);
        limits.max_buffer_size = own.max_buffer_size;
        limits.max_storage_buffer_binding_size = own.max_storage_buffer_binding_size;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("attnproof"),
            required_limits: limits,
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) = pollster::block_on(self.inner.request_device(&descriptor))
            .map_err(|e| DeviceError::Refused { adapter: self.info.to_string(), reason: e.to_string() })?;
        let lost = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&lost);
        device.set_device_lost_callback(move |reason, message| {
            if let Ok(mut lost) = heard.lock() {
                *lost = Some(format!("{reason:?}: {message}"));
            }
        });
        Ok(Device { wgpu: device, queue, lost })
    }
}

impl Device {
    /// Waits for `submission` and maps `staging`.
    ///
    /// # Errors
    /// [`RunError::Timeout`], [`RunError::Lost`] or [`RunError::Validation`].
    pub(crate) fn read(
        &self,
        staging: &wgpu::Buffer,
        submission: wgpu::SubmissionIndex,
    ) -> Result<Vec<u8>, RunError> {
        let (sender, receiver) = mpsc::channel();
        staging.map_async(wgpu::MapMode::Read, .., move |mapped| {
            // a receiver that gave up needs no answer
            let _ = sender.send(mapped);
        });
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: Some(DEADLINE) };
        match self.wgpu.poll(wait) {
            Ok(_) => {}
            Err(wgpu::PollError::Timeout) => return Err(RunError::Timeout),
            Err(other) => return Err(RunError::Validation(other.to_string())),
        }
        match receiver.try_recv() {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(RunError::Lost(e.to_string())),
            Err(_) => return Err(RunError::Timeout),
        }
        let range = staging.get_mapped_range(..).map_err(|e| RunError::Validation(e.to_string()))?;
        Ok(range.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_adapters_get_numbers() {
        let info = |name: &str| AdapterInfo {
            index: 0,
            name: name.to_owned(),
            backend: "vulkan".to_owned(),
            driver: "1".to_owned(),
            kind: AdapterKind::Discrete,
            max_binding_bytes: 0,
            storage_buffers: 8,
            workgroup_bytes: 0,
            subgroup: (32, 32),
            features: [("a", false), ("b", false), ("c", false)],
        };
        let mut list = ["L4", "T4", "L4", "L4"].map(info);
        tell_apart(list.iter_mut());
        assert_eq!(list.map(|info| info.name), ["L4", "T4", "L4 #2", "L4 #3"]);
    }
}
