//! The `#[kernel]` attribute of `cuda_std`.

use proc_macro::TokenStream;
use quote::quote;
use syn::{
    Error, FnArg, Ident, ItemFn, LitInt, LitStr, Token,
    parse::{Parse, ParseStream},
    parse_macro_input,
    punctuated::Punctuated,
};

/// Declares a kernel: `#[kernel(launch_bounds(threads, blocks_per_sm))]`, and optionally
/// `arch = "sm_90"` after it for the one architecture that the kernel is compiled for (else the
/// lowest, `sm_70`).
///
/// On the device the function becomes an entry of the PTX module, under its own name, and a
/// comment beside it tells `cuda_builder` the launch bounds, for which rustc has no attribute. On
/// the host that name is a `static` of type `Kernel<(A, B, ..)>`, the handle that launchers take.
///
/// The function must be an `unsafe fn` without generic parameters and without `self`; a generic
/// kernel is an `#[inline(always)]` body with one thin kernel for each instance.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let kernel = parse_macro_input!(item as ItemFn);
    expand(&options, &kernel).unwrap_or_else(Error::into_compile_error).into()
}

/// What stands in the attribute's parentheses.
struct Options {
    threads: LitInt,
    blocks_per_sm: LitInt,
    arch: String,
}

impl Parse for Options {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let word: Ident = input.parse()?;
        if word != "launch_bounds" {
            return Err(Error::new(
                word.span(),
                "expected `launch_bounds(threads, blocks_per_sm)`",
            ));
        }
        let bounds;
        syn::parenthesized!(bounds in input);
        let numbers = Punctuated::<LitInt, Token![,]>::parse_terminated(&bounds)?;
        let [threads, blocks_per_sm] = &numbers.iter().collect::<Vec<_>>()[..] else {
            return Err(Error::new(word.span(), "launch bounds are two numbers"));
        };
        let count = threads.base10_parse::<u32>()?;
        if !(1..=1024).contains(&count) {
            return Err(Error::new(threads.span(), "a block has 1 to 1024 threads"));
        }
        let mut arch = "sm_70".to_owned();
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let word: Ident = input.parse()?;
            if word != "arch" {
                return Err(Error::new(word.span(), "expected `arch = \"sm_..\"`"));
            }
            input.parse::<Token![=]>()?;
            arch = input.parse::<LitStr>()?.value();
        }
        Ok(Options { threads: (*threads).clone(), blocks_per_sm: (*blocks_per_sm).clone(), arch })
    }
}

fn expand(options: &Options, kernel: &ItemFn) -> syn::Result<proc_macro2::TokenStream> {
    let ItemFn { attrs, vis, sig, block } = kernel;
    let (name, inputs) = (&sig.ident, &sig.inputs);
    if sig.unsafety.is_none() || !sig.generics.params.is_empty() {
        let message = "a kernel is an `unsafe fn` without generic parameters";
        return Err(Error::new_spanned(sig, message));
    }
    let types = inputs.iter().map(|input| match input {
        FnArg::Typed(input) => Ok(&input.ty),
        FnArg::Receiver(_) => Err(Error::new_spanned(input, "a kernel has no `self`")),
    });
    let types: Vec<_> = types.collect::<syn::Result<_>>()?;
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
