//! Kernels loaded into a context: one entry at a time, when it is first wanted.

use super::{
    status::{check, driver_error},
    streams::RelaxedCapture,
};
use crate::{Error, PtxLibrary, Result};
use cuda_driver::calls;
use cuda_ptx::Arch;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    ffi::{CString, c_void},
    ptr::null_mut,
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// What a block can have without asking for more.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// The largest cluster that every device with clusters can run.
const PORTABLE_CLUSTER: u32 = 8;

/// The kernels of a context, and where to find more.
#[derive(Debug)]
pub(crate) struct Kernels {
    compute_capability: (u32, u32),
    /// The last one registered first.
    libraries: RwLock<Vec<&'static PtxLibrary>>,
    /// Modules are never unloaded: a graph or a launch may still need them.
    loaded: RwLock<HashMap<String, &'static LoadedKernel, RandomState>>,
    /// Held while loading, so that no entry is compiled twice.
    loading: Mutex<()>,
}

/// An entry that can be launched.
#[derive(Debug)]
pub(crate) struct LoadedKernel {
    function: *mut c_void,
    /// The dynamic shared memory that launches may ask for.
    shared_bytes: AtomicU32,
    /// The size of clusters that launches may ask for.
    cluster: AtomicU32,
    /// Held while one of them is raised.
    raising: Mutex<()>,
}

// SAFETY: the driver's functions take a function's handle from any thread.
unsafe impl Send for LoadedKernel {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for LoadedKernel {}

impl Kernels {
    pub fn new(compute_capability: (u32, u32)) -> Self {
        Kernels {
            compute_capability,
            libraries: RwLock::new(vec![&crate::ptx::KERNELS]),
            loaded: RwLock::default(),
            loading: Mutex::default(),
        }
    }

    pub fn register(&self, library: &'static PtxLibrary) {
        let mut libraries = self.libraries.write().unwrap_or_else(PoisonError::into_inner);
        if !libraries.iter().any(|known| std::ptr::eq(*known, library)) {
            // After the library's own, whose calls are safe because it knows what they launch.
            libraries.insert(1, library);
        }
    }

    /// The kernel, if it is loaded.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'static LoadedKernel> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// The kernel, loaded now if it was not. The context must be current.
    pub fn load(&self, name: &str) -> Result<&'static LoadedKernel> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = self.get(name) {
            return Ok(loaded);
        }
        let image = self.find(name)?;
        let loaded: &LoadedKernel = Box::leak(Box::new(LoadedKernel::load(name, &image)?));
        let mut kernels = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        kernels.insert(name.to_owned(), loaded);
        Ok(loaded)
    }

    /// The entry for the newest architecture that the device runs and a library has.
    fn find(&self, name: &str) -> Result<Image> {
        let (major, minor) = self.compute_capability;
        let libraries = self.libraries.read().unwrap_or_else(PoisonError::into_inner);
        let runs = Arch::ALL.into_iter().rev().filter(|arch| arch.runs_on(major, minor));
        for library in libraries.iter() {
            if let Some(arch) = runs.clone().find(|&arch| library.contains(arch, name)) {
                let is_own = arch.compute_capability() == (major, minor);
                return Ok(Image { library, arch, is_own });
            }
        }
        let searched = runs.map(Arch::name).collect();
        Err(Error::KernelNotFound { kernel: name.to_owned(), searched })
    }
}

/// What a module is loaded from.
struct Image {
    library: &'static PtxLibrary,
    arch: Arch,
    /// The device is the very one that machine code for the architecture is for.
    is_own: bool,
}

impl LoadedKernel {
    fn load(name: &str, image: &Image) -> Result<Self> {
        let _relaxed = RelaxedCapture::begin();
        let entry = c_string(name, name)?;
        let Image { library, arch, is_own } = *image;
        let code = if is_own { library.machine_code(arch, name) } else { Ok(None) };
        let code = code.map_err(Error::DamagedPtx)?;
        // A driver older than the assembler refuses its machine code, and compiles the PTX.
        let module = match code.as_deref().and_then(load_machine_code) {
            Some(module) => module,
            None => load_ptx(name, &library.get(arch, name).map_err(Error::DamagedPtx)?)?,
        };
        let mut function = null_mut();
        // SAFETY: a module, and a string that ends in a zero.
        check("cuModuleGetFunction", unsafe {
            calls::cuModuleGetFunction(&mut function, module, entry.as_ptr())
        })?;
        Ok(LoadedKernel {
            function,
            shared_bytes: AtomicU32::new(DEFAULT_SHARED_BYTES),
            cluster: AtomicU32::new(PORTABLE_CLUSTER),
            raising: Mutex::default(),
        })
    }

    /// The function's handle, for a launch with so much shared memory and clusters so large.
    #[inline]
    pub fn function(&self, shared_bytes: u32, cluster: u32) -> Result<*mut c_void> {
        if shared_bytes > self.shared_bytes.load(Ordering::Relaxed)
            || cluster > self.cluster.load(Ordering::Relaxed)
        {
            self.raise(shared_bytes, cluster)?;
        }
        Ok(self.function)
    }

    /// The limits are the function's, whoever launches it: they are only ever raised.
    #[cold]
    fn raise(&self, shared_bytes: u32, cluster: u32) -> Result<()> {
        let _raising = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let set = |attribute, value: u32| {
            // SAFETY: a loaded function.
            let status =
                unsafe { calls::cuFuncSetAttribute(self.function, attribute, value as i32) };
            check("cuFuncSetAttribute", status)
        };
        if shared_bytes > self.shared_bytes.load(Ordering::Relaxed) {
            set(calls::MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)?;
            self.shared_bytes.store(shared_bytes, Ordering::Relaxed);
        }
        if cluster > self.cluster.load(Ordering::Relaxed) {
            set(calls::NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
            self.cluster.store(u32::MAX, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The module of machine code, if the driver takes it.
fn load_machine_code(code: &[u8]) -> Option<*mut c_void> {
    let mut module = null_mut();
    // SAFETY: a whole cubin, which says itself how long it is, and no options.
    let status = unsafe {
        calls::cuModuleLoadDataEx(&mut module, code.as_ptr().cast(), 0, null_mut(), null_mut())
    };
    (status == calls::SUCCESS).then_some(module)
}

/// The module of PTX, which the driver compiles.
fn load_ptx(name: &str, ptx: &str) -> Result<*mut c_void> {
    const LOG_BYTES: usize = 8 << 10;
    let image = c_string(name, ptx)?;
    let mut log = vec![0u8; LOG_BYTES];
    let mut names = [calls::JIT_ERROR_LOG_BUFFER, calls::JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver takes numbers in place of pointers here.
    let mut values = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES)];
    let mut module = null_mut();
    // SAFETY: a string that ends in a zero, and two options with their values.
    let status = unsafe {
        calls::cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            names.len() as u32,
            names.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match status {
        calls::SUCCESS => Ok(module),
        calls::UNSUPPORTED_PTX_VERSION => {
            let needed = super::versions::needed_for_ptx(ptx);
            Err(super::versions::driver_too_old(name, needed))
        }
        status => {
            let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
            let log = String::from_utf8_lossy(text).trim().to_owned();
            let code = driver_error(status);
            Err(Error::ModuleLoad { kernel: name.to_owned(), code, log })
        }
    }
}

/// A text for the driver, of kernel `name`: one with a zero in it is none of a kernel.
fn c_string(name: &str, text: &str) -> Result<CString> {
    let nul = |_| Error::KernelNotFound { kernel: name.to_owned(), searched: Vec::new() };
    CString::new(text).map_err(nul)
}
