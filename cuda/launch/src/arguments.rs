//! A kernel's arguments, as a tuple.

use core::ffi::c_void;

/// A tuple of plain values that a kernel takes by value.
pub trait KernelArgs {
    /// Calls `f` with a pointer to each argument, in order.
    fn with_pointers<R>(&self, f: impl FnOnce(&[*const c_void]) -> R) -> R;
}

macro_rules! impl_args {
    ($($T:ident $i:tt),*) => {
        impl<$($T: Copy),*> KernelArgs for ($($T,)*) {
            fn with_pointers<R>(&self, f: impl FnOnce(&[*const c_void]) -> R) -> R {
                f(&[$((&raw const self.$i).cast()),*])
            }
        }
    };
}

impl_args!();
impl_args!(A 0);
impl_args!(A 0, B 1);
impl_args!(A 0, B 1, C 2);
impl_args!(A 0, B 1, C 2, D 3);
impl_args!(A 0, B 1, C 2, D 3, E 4);
impl_args!(A 0, B 1, C 2, D 3, E 4, F 5);
impl_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
impl_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
impl_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
impl_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
impl_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
impl_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
