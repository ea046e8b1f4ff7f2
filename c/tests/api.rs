//! The functions of the shared library, and the structs that they take.

use crate::{
    abi::{
        fa_attention_forward_tensors, fa_attention_options, fa_device, fa_softmax_backward_tensors,
        fa_softmax_forward_tensors, fa_softmax_options,
    },
    build::shared_library,
};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_void},
    ptr::null_mut,
    sync::LazyLock,
};

macro_rules! functions {
    ($($name:ident($($T:ty),*) $(-> $R:ty)?;)*) => {
        /// The functions.
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($T),*) $(-> $R)?,)*
            _library: Library,
        }

        /// Their names.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl Api {
            fn load() -> Self {
                // SAFETY: the library's initialisers are Rust's own, and the signatures those of
                // its source.
                unsafe {
                    let library = Library::new(shared_library()).expect("it loads");
                    Api {
                        $($name: *library.get(stringify!($name).as_bytes()).expect("exported"),)*
                        _library: library,
                    }
                }
            }
        }
    };
}

functions! {
    fa_device_create_cuda(u32, *mut *mut fa_device) -> i32;
    fa_device_create_emulator(*mut *mut fa_device) -> i32;
    fa_device_destroy(*mut fa_device);
    fa_device_describe(*const fa_device, *mut c_char, usize, *mut usize) -> i32;
    fa_emulator_allocate(*const fa_device, usize, *mut *mut c_void) -> i32;
    fa_emulator_free(*mut c_void);
    fa_last_error_message() -> *const c_char;
    fa_status_name(i32) -> *const c_char;
    fa_version() -> *const c_char;
    fa_softmax_forward(
        *const fa_device,
        *const fa_softmax_options,
        *const fa_softmax_forward_tensors,
        *mut c_void
    ) -> i32;
    fa_softmax_forward_plan(
        *const fa_device,
        *const fa_softmax_options,
        *const fa_softmax_forward_tensors,
        *mut c_char,
        usize,
        *mut usize
    ) -> i32;
    fa_softmax_backward(
        *const fa_device,
        *const fa_softmax_options,
        *const fa_softmax_backward_tensors,
        *mut c_void
    ) -> i32;
    fa_softmax_backward_plan(
        *const fa_device,
        *const fa_softmax_options,
        *const fa_softmax_backward_tensors,
        *mut c_char,
        usize,
        *mut usize
    ) -> i32;
    fa_attention_forward(
        *const fa_device,
        *const fa_attention_options,
        *const fa_attention_forward_tensors,
        *mut c_void
    ) -> i32;
    fa_attention_forward_plan(
        *const fa_device,
        *const fa_attention_options,
        *const fa_attention_forward_tensors,
        *mut c_char,
        usize,
        *mut usize
    ) -> i32;
    fa_attention_forward_workspace(
        *const fa_device,
        *const fa_attention_options,
        *const fa_attention_forward_tensors,
        *mut usize
    ) -> i32;
}

/// The library, loaded once.
pub fn api() -> &'static Api {
    static API: LazyLock<Api> = LazyLock::new(Api::load);
    &API
}

impl Api {
    /// A status's name without its prefix.
    pub fn name(&self, status: i32) -> &'static str {
        // SAFETY: a constant of the library, which stays loaded.
        let name = unsafe { CStr::from_ptr((self.fa_status_name)(status)) };
        name.to_str().unwrap().strip_prefix("FA_STATUS_").expect("the prefix")
    }

    /// What the last failure on this thread said.
    pub fn message(&self) -> String {
        // SAFETY: valid until the next failure on this thread.
        let message = unsafe { CStr::from_ptr((self.fa_last_error_message)()) };
        message.to_str().unwrap().to_owned()
    }

    /// Fails with the library's words unless the status is that of success.
    #[track_caller]
    pub fn check(&self, status: i32) {
        assert_eq!(status, 0, "{}: {}", self.name(status), self.message());
    }
}

/// A handle of the emulator.
pub struct Emulator(*mut fa_device);

// SAFETY: the interface says so.
unsafe impl Sync for Emulator {}

impl Emulator {
    /// A new handle.
    pub fn open() -> Self {
        let mut device = null_mut();
        // SAFETY: a handle is written.
        api().check(unsafe { (api().fa_device_create_emulator)(&mut device) });
        Emulator(device)
    }

    /// The handle, for as long as this lives.
    pub fn handle(&self) -> *const fa_device {
        self.0
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // SAFETY: from `open`, and not used again.
        unsafe { (api().fa_device_destroy)(self.0) };
    }
}

/// Options with this scale and nothing else.
pub fn scaled(scale: f64) -> fa_softmax_options {
    fa_softmax_options {
        struct_size: size_of::<fa_softmax_options>(),
        scale,
        is_causal: 0,
        diagonal: 0,
        has_window: 0,
        reserved: 0,
        window_left: 0,
        window_right: 0,
    }
}
