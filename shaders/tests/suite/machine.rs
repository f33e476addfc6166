//! The one device that all tests share, and a generator with a fixed seed.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use attnproof_shaders::device::{self, Adapter};
use attnproof_shaders::dispatch::Gpu;

/// The best adapter of this machine.
pub(crate) fn adapter() -> Adapter {
    let candidates = device::candidates();
    device::best(&candidates).cloned().expect("no adapter: run tests/run.sh, which installs lavapipe")
}

/// The shared device. A test that failed while it held it has left it usable.
pub(crate) fn gpu() -> MutexGuard<'static, Gpu> {
    static GPU: OnceLock<Mutex<Gpu>> = OnceLock::new();
    let open = || Mutex::new(Gpu::new(adapter().open().expect("the adapter opens")));
    GPU.get_or_init(open).lock().unwrap_or_else(PoisonError::into_inner)
}

/// `SplitMix64` (Steele, Lea, Flood, 2014).
#[derive(Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1), exact in f32.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 40) as f64 / f64::from(1 << 24)
    }

    /// Bell-shaped, mean 0, variance 1, exact in f32.
    pub(crate) fn normal(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        f64::from((sum - 6.0) as f32)
    }
}
