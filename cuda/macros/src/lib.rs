//! The `#[kernel]` attribute of `cuda_std`.

use proc_macro::TokenStream;
use quote::quote;
use std::ops::RangeInclusive;
use syn::{
    Error, FnArg, Ident, ItemFn, LitInt, LitStr, ReturnType, Signature, Token,
    parse::{Parse, ParseStream},
    parse_macro_input,
    punctuated::Punctuated,
};

/// Declares a kernel: `#[kernel(launch_bounds(threads, blocks_per_sm))]`, and optionally
/// `arch = "sm_90"` after it for the one architecture that the kernel is compiled for (else the
/// lowest, `sm_70`).
///
/// ```ignore
/// #[kernel(launch_bounds(256, 2))]
/// pub unsafe fn double(values: *mut f32, count: u32) { .. }
///
/// // On the host:
/// unsafe { stream.launch(&double, LaunchConfig::new(count.div_ceil(256), 256), (values, count)) }
/// ```
///
/// On the device the function becomes an entry of the PTX module, under its own name, and a
/// comment beside it tells `cuda_builder` the launch bounds, for which rustc has no attribute. On
/// the host that name is a `static` of type `Kernel<(A, B, ..)>`, the handle that launchers take.
///
/// The function must be an `unsafe fn` without generic parameters and without `self`; a generic
/// kernel is an `#[inline(always)]` body with one thin kernel for each instance, which a
/// `macro_rules!` can write. It takes up to 12 arguments by value: numbers, pointers and
/// `#[repr(C)]` structs of them. Its crate must enable the features `abi_ptx` and
/// `asm_experimental_arch` on the device.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let kernel = parse_macro_input!(item as ItemFn);
    expand(&options, &kernel).unwrap_or_else(Error::into_compile_error).into()
}

/// The architectures that kernels are compiled for.
const ARCHS: [&str; 4] = ["sm_70", "sm_80", "sm_90", "sm_90a"];

/// As many arguments as `KernelArgs` is implemented for.
const MAX_ARGUMENTS: usize = 12;

/// What stands in the attribute's parentheses.
struct Options {
    threads: u32,
    blocks_per_sm: u32,
    arch: String,
}

impl Parse for Options {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        keyword(input, "launch_bounds", "expected `launch_bounds(threads, blocks_per_sm)`")?;
        let bounds;
        let parentheses = syn::parenthesized!(bounds in input);
        let numbers = Punctuated::<LitInt, Token![,]>::parse_terminated(&bounds)?;
        let [threads, blocks_per_sm] = &numbers.iter().collect::<Vec<_>>()[..] else {
            return Err(Error::new(parentheses.span.join(), "launch bounds are two numbers"));
        };
        let options = Options {
            threads: within(threads, 1..=1024, "a block has 1 to 1024 threads")?,
            blocks_per_sm: within(blocks_per_sm, 1..=32, "1 to 32 blocks fit on an SM")?,
            arch: ARCHS[0].to_owned(),
        };
        if input.parse::<Option<Token![,]>>()?.is_none() || input.is_empty() {
            return Ok(options);
        }
        keyword(input, "arch", "expected `arch = \"sm_..\"`")?;
        input.parse::<Token![=]>()?;
        let arch = input.parse::<LitStr>()?;
        if !ARCHS.contains(&arch.value().as_str()) {
            let message = format!("kernels are compiled for {}", ARCHS.join(", "));
            return Err(Error::new(arch.span(), message));
        }
        input.parse::<Option<Token![,]>>()?;
        Ok(Options { arch: arch.value(), ..options })
    }
}

fn keyword(input: ParseStream, word: &str, message: &str) -> syn::Result<()> {
    match input.parse::<Ident>() {
        Ok(found) if found == word => Ok(()),
        Ok(found) => Err(Error::new(found.span(), message)),
        Err(error) => Err(Error::new(error.span(), message)),
    }
}

fn within(number: &LitInt, range: RangeInclusive<u32>, message: &str) -> syn::Result<u32> {
    let value = number.base10_parse()?;
    if range.contains(&value) { Ok(value) } else { Err(Error::new(number.span(), message)) }
}

/// Refuses a signature that no entry can have.
fn check(signature: &Signature) -> syn::Result<()> {
    let Signature { constness, asyncness, abi, generics, inputs, output, .. } = signature;
    if signature.unsafety.is_none() {
        return Err(Error::new_spanned(signature, "a kernel is an `unsafe fn`"));
    }
    if constness.is_some() || asyncness.is_some() || abi.is_some() {
        return Err(Error::new_spanned(signature, "a kernel is an `unsafe fn` and nothing more"));
    }
    if !generics.params.is_empty() {
        let message = "a kernel has no generic parameters: write one for each instance, and have \
                       them call a generic `#[inline(always)]` function";
        return Err(Error::new_spanned(generics, message));
    }
    if let ReturnType::Type(..) = output {
        return Err(Error::new_spanned(output, "a kernel returns nothing"));
    }
    if let Some(receiver) = signature.receiver() {
        return Err(Error::new_spanned(receiver, "a kernel has no `self`"));
    }
    if inputs.len() > MAX_ARGUMENTS {
        let message = "a kernel has at most 12 arguments: pass a `#[repr(C)]` struct";
        return Err(Error::new_spanned(inputs, message));
    }
    Ok(())
}

fn expand(options: &Options, kernel: &ItemFn) -> syn::Result<proc_macro2::TokenStream> {
    let ItemFn { attrs, vis, sig, block } = kernel;
    check(sig)?;
    let (name, inputs) = (&sig.ident, &sig.inputs);
    let types = inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(&input.ty),
        FnArg::Receiver(_) => None,
    });
    let types: Vec<_> = types.collect();
    let index = 0..types.len();
    let Options { threads, blocks_per_sm, arch } = options;
    // Read by cuda_builder, which knows the same words.
    let marker = format!("// kernel {name} threads={threads} blocks_per_sm={blocks_per_sm}");
    Ok(quote! {
        #[cfg(all(target_arch = "nvptx64", cuda_arch = #arch))]
        ::core::arch::global_asm!(#marker);

        #[cfg(all(target_arch = "nvptx64", cuda_arch = #arch))]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #name(#inputs) #block

        #[cfg(not(target_arch = "nvptx64"))]
        #(#attrs)*
        #[allow(non_upper_case_globals)]
        #vis static #name: ::cuda_std::host::Kernel<(#(#types,)*)> = {
            #sig #block
            unsafe fn entry(args: *const *const ::core::ffi::c_void) {
                let _ = args;
                // SAFETY: the launcher passes pointers to the arguments that the handle's type names.
                unsafe { #name(#((*args.add(#index)).cast::<#types>().read()),*) }
            }
            let bounds = ::cuda_std::host::LaunchBounds {
                threads: #threads,
                blocks_per_sm: #blocks_per_sm,
            };
            // SAFETY: `entry` reads the types in the tuple, in order.
            unsafe { ::cuda_std::host::Kernel::new(stringify!(#name), entry, bounds, #arch) }
        };
    })
}
