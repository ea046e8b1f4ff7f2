/*
 * fused-attention: scaled masked softmax and attention on NVIDIA GPUs.
 *
 * Every function that can fail returns an fa_status, and fa_last_error_message() says what was
 * wrong, with the values. Whatever violates a precondition is refused before anything is launched.
 * Functions may be called from any thread.
 *
 * Structs with a struct_size grow at their end in later versions: set the struct to zero, then
 * struct_size to its sizeof, then the fields. A field of zero is not given.
 *
 * Enumerations are passed as uint32_t, so that a wrong number is refused and not undefined.
 */

#ifndef FUSED_ATTENTION_H
#define FUSED_ATTENTION_H

/* Generated from c/src by `cargo xtask header`. */

#include <stddef.h>
#include <stdint.h>

// The most dimensions of a tensor.
#define FA_MAX_RANK 8

// The version of this header.
#define FA_VERSION_MAJOR 0

// The version of this header.
#define FA_VERSION_MINOR 1

// The version of this header.
#define FA_VERSION_PATCH 0

// What came of a call. The numbers are stable; further ones may be added.
enum fa_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done, or enqueued.
    FA_STATUS_SUCCESS = 0,
    // A pointer that the call needs is null.
    FA_STATUS_NULL_ARGUMENT = 1,
    // A number that is not one of its enumeration's, or a reserved field that is not 0.
    FA_STATUS_UNKNOWN_VALUE = 2,
    // A struct_size that is no size of the struct, or fields set that this library does not know.
    FA_STATUS_STRUCT_SIZE = 3,
    // Arguments that exclude each other.
    FA_STATUS_CONFLICTING_ARGUMENTS = 4,
    // A dimension has a negative size.
    FA_STATUS_NEGATIVE_SIZE = 10,
    // A tensor has another shape than the call asks for, or does not broadcast to it.
    FA_STATUS_SHAPE_MISMATCH = 11,
    // A tensor has another number of dimensions than the call asks for.
    FA_STATUS_RANK_MISMATCH = 12,
    // A tensor has more than FA_MAX_RANK dimensions.
    FA_STATUS_RANK_TOO_LARGE = 13,
    // A size does not fit 64 bits.
    FA_STATUS_SIZE_OVERFLOW = 14,
    // A stride that the call cannot work with.
    FA_STATUS_UNSUPPORTED_STRIDE = 15,
    // A tensor has another element type than the call asks for.
    FA_STATUS_DTYPE_MISMATCH = 16,
    // The operation does not compute on this element type.
    FA_STATUS_UNSUPPORTED_DTYPE = 17,
    // A tensor's address is not a multiple of its element's size.
    FA_STATUS_BELOW_ELEMENT_ALIGNMENT = 18,
    // A tensor has elements, but no address.
    FA_STATUS_NULL_TENSOR = 19,
    // An output shares memory with another tensor.
    FA_STATUS_OVERLAPPING_OUTPUT = 20,
    // Several elements of an output are the same memory.
    FA_STATUS_SELF_OVERLAPPING_OUTPUT = 21,
    // A bank index without a mask.
    FA_STATUS_MISSING_MASK_BANK = 22,
    // No kernel can run the problem.
    FA_STATUS_NO_ELIGIBLE_TILE = 23,
    // A head dimension that is not a multiple of 8 up to the largest that there is a kernel for.
    FA_STATUS_UNSUPPORTED_HEAD_DIM = 24,
    // The K/V heads do not divide the query heads.
    FA_STATUS_UNEVEN_HEADS = 25,
    // More of something than a kernel counts.
    FA_STATUS_TOO_MANY = 26,
    // Lengths for each row, where only those for each batch entry have a meaning.
    FA_STATUS_LENGTHS_PER_ROW = 27,
    // A softcap that is not from 2^-100 to 2^100.
    FA_STATUS_BAD_SOFTCAP = 28,
    // A dropout probability that is not from 0 to less than 1.
    FA_STATUS_BAD_DROPOUT = 29,
    // Dropout without a seed.
    FA_STATUS_MISSING_DROPOUT_SEED = 30,
    // The CUDA driver is not installed, or cannot be loaded.
    FA_STATUS_NO_DRIVER = 40,
    // The library is built without this device.
    FA_STATUS_FEATURE_DISABLED = 41,
    // The CUDA driver is too old.
    FA_STATUS_DRIVER_TOO_OLD = 42,
    // There is no GPU of this number.
    FA_STATUS_NO_SUCH_DEVICE = 43,
    // The stream is not of the device's primary context.
    FA_STATUS_FOREIGN_STREAM = 44,
    // The library holds no kernel for this GPU.
    FA_STATUS_KERNEL_NOT_FOUND = 45,
    // The kernels in the library are damaged.
    FA_STATUS_DAMAGED_KERNELS = 46,
    // The driver refused a kernel's code.
    FA_STATUS_MODULE_LOAD = 47,
    // A kernel would have to be loaded while a graph is captured: plan the call before.
    FA_STATUS_LOAD_DURING_CAPTURE = 48,
    // No device could carry out the launch.
    FA_STATUS_INVALID_LAUNCH = 49,
    // The driver refused a launch.
    FA_STATUS_LAUNCH_FAILED = 50,
    // A kernel did something wrong on the emulator.
    FA_STATUS_EMULATOR_FAULT = 51,
    // The device has not enough memory.
    FA_STATUS_OUT_OF_MEMORY = 52,
    // Another driver call failed.
    FA_STATUS_DRIVER = 53,
    // A NaN, found because the environment has FUSED_ATTENTION_DEBUG=nan.
    FA_STATUS_NAN_FOUND = 54,
    // The library panicked; a fault of its own.
    FA_STATUS_PANIC = 98,
    // None of the above.
    FA_STATUS_OTHER = 99,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum fa_status fa_status;
#else
typedef int32_t fa_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The type of a tensor's elements.
enum fa_dtype
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // IEEE 754 binary16.
    FA_DTYPE_F16 = 1,
    // 16 bits with the range of f32.
    FA_DTYPE_BF16 = 2,
    // 32-bit float.
    FA_DTYPE_F32 = 3,
    // 64-bit float.
    FA_DTYPE_F64 = 4,
    // Unsigned byte: masks.
    FA_DTYPE_U8 = 5,
    // Signed 32-bit integer: lengths and indices.
    FA_DTYPE_I32 = 6,
    // 64-bit integer: seeds of random numbers.
    FA_DTYPE_I64 = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum fa_dtype fa_dtype;
#else
typedef uint32_t fa_dtype;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a nonzero byte of a mask means.
enum fa_polarity
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Nonzero hides the element (Megatron's convention).
    FA_POLARITY_EXCLUDE = 1,
    // Nonzero shows the element (PyTorch's convention).
    FA_POLARITY_KEEP = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum fa_polarity fa_polarity;
#else
typedef uint32_t fa_polarity;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What there is one length for.
enum fa_per
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Each index of x's first dimension: shape [batch].
    FA_PER_BATCH = 1,
    // Each row: a shape that broadcasts to x's without the last dimension.
    FA_PER_ROW = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum fa_per fa_per;
#else
typedef uint32_t fa_per;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The corner of the scores that the diagonal of causal masks and windows goes through.
enum fa_diagonal
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The last query's diagonal key is the last key.
    FA_DIAGONAL_BOTTOM_RIGHT = 0,
    // The first query's diagonal key is the first key.
    FA_DIAGONAL_TOP_LEFT = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum fa_diagonal fa_diagonal;
#else
typedef uint32_t fa_diagonal;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A GPU, or the emulator. Made by `fa_device_create_..`, destroyed by `fa_device_destroy`; may
// be used from any thread, by several at once.
typedef struct fa_device fa_device;

// The options of attention: o_i = sum_j softmax_j(s_ij) v_j, with the scores s_ij =
// softcap(scale * q_i . k_j) + bias_ij - slope * |i + Sk - Sq - j|, softcap(x) = c tanh(x / c).
typedef struct {
    // sizeof(fa_attention_options).
    size_t struct_size;
    // The number that products of queries and keys are multiplied by; read with `has_scale`.
    double scale;
    // 0: the scale is one over the square root of the head dimension.
    uint32_t has_scale;
    // Nonzero: hide the keys to the right of the diagonal.
    uint32_t is_causal;
    // An fa_diagonal.
    uint32_t diagonal;
    // Nonzero: show only the keys of the window.
    uint32_t has_window;
    // How many keys before the diagonal the window shows; negative: all.
    int64_t window_left;
    // How many keys after the diagonal the window shows; negative: all.
    int64_t window_right;
    // What scaled products stay below in magnitude; 0: no cap.
    double softcap;
    // The probability of dropout, rounded to 256ths; 0: none.
    double dropout;
} fa_attention_options;

// A tensor in device memory, which stays the caller's. This struct does not grow.
typedef struct {
    // The address of the element at index 0, on the device.
    void *pointer;
    // An fa_dtype.
    uint32_t dtype;
    // The number of dimensions, at most FA_MAX_RANK.
    uint32_t rank;
    // The size of each dimension; only the first `rank` are read.
    int64_t shape[FA_MAX_RANK];
    // The distance of neighbours in each dimension, in elements, 0 included; only the first
    // `rank` are read.
    int64_t strides[FA_MAX_RANK];
} fa_tensor;

// What hides parts of rows, beside the options. Null: not given. All that is given applies
// together. Masks broadcast to x's shape: sizes of 1, and missing dimensions in front, repeat.
typedef struct {
    // sizeof(fa_mask).
    size_t struct_size;
    // A byte for each element.
    const fa_tensor *bytes;
    // A number for each element that is added to the scaled x, of x's type, or f32 for f16 and
    // bf16; -inf hides.
    const fa_tensor *additive;
    // i32: how many columns a row sees at most. Values below 0 count as 0, values beyond the row
    // as the row's length.
    const fa_tensor *lengths;
    // i32, shape [batch]: which mask of a bank each index of x's first dimension takes; bytes and
    // additive have a further dimension in front then. A row whose index is outside of the bank
    // becomes NaN.
    const fa_tensor *bank_index;
    // An fa_polarity; read if there are bytes.
    uint32_t polarity;
    // An fa_per; read if there are lengths.
    uint32_t lengths_per;
} fa_mask;

// Packed sequences: sequence b has the rows from its offset to the next one.
typedef struct {
    // sizeof(fa_sequences).
    size_t struct_size;
    // i32, contiguous: the first row of each sequence, and the last one's end. They ascend, within
    // the rows of the tensors.
    const fa_tensor *offsets;
    // The length of the longest, or more. Queries beyond it are not computed.
    int64_t longest;
} fa_sequences;

// The tensors of attention's forward. Dimensions are batch, heads, rows, elements, without the
// first where sequences are packed; all strides are free but those of the elements, which are 1.
typedef struct {
    // sizeof(fa_attention_forward_tensors).
    size_t struct_size;
    // Queries: f16, bf16 or f32.
    const fa_tensor *q;
    // Keys, of the same type. Their heads divide the number of those of the queries.
    const fa_tensor *k;
    // Values, of the same type; their elements may be of another number.
    const fa_tensor *v;
    // The output: q's shape with v's elements, and q's type. No other tensor lies between its first
    // byte and its last.
    const fa_tensor *o;
    // Null, or the natural log-sum-exp of each row, before dropout: f32, q's shape without the
    // elements.
    const fa_tensor *lse;
    // Null, or the scale in device memory, in place of the options': one f32.
    const fa_tensor *scale;
    // Null, or what hides scores, and what is added to them: masks in a shape that broadcasts to
    // batch, query heads, queries, keys. Lengths are those of the keys, for each batch entry.
    const fa_mask *mask;
    // Null, or how many queries of each batch entry count: i32, shape [batch]. The others give 0.
    const fa_tensor *query_lengths;
    // Null, or q, o and lse are packed sequences.
    const fa_sequences *query_sequences;
    // Null, or k and v are packed sequences.
    const fa_sequences *key_sequences;
    // Null, or ALiBi's slopes: f32, in a shape that broadcasts to batch, query heads.
    const fa_tensor *slopes;
    // Null, or the seed of dropout in device memory, in place of `seed`: one i64.
    const fa_tensor *seed_tensor;
    // Given with `seed_tensor`, in place of `offset`: one i64, of which the lower half counts.
    const fa_tensor *offset_tensor;
    // The seed of dropout: the key of its random numbers. Read with `has_seed`.
    uint64_t seed;
    // Which of the random numbers that belong to the seed. Read with `has_seed`.
    uint32_t offset;
    // Nonzero: `seed` and `offset` are given.
    uint32_t has_seed;
} fa_attention_forward_tensors;

// The options of a softmax over the last dimension: y = softmax(scale * x + mask). The last
// dimension holds the keys, the one before it the queries.
typedef struct {
    // sizeof(fa_softmax_options).
    size_t struct_size;
    // The number that x is multiplied by.
    double scale;
    // Nonzero: hide the keys to the right of the diagonal.
    uint32_t is_causal;
    // An fa_diagonal.
    uint32_t diagonal;
    // Nonzero: show only the keys of the window.
    uint32_t has_window;
    // Must be 0.
    uint32_t reserved;
    // How many keys before the diagonal the window shows; negative: all.
    int64_t window_left;
    // How many keys after the diagonal the window shows; negative: all.
    int64_t window_right;
} fa_softmax_options;

// The tensors of a softmax's forward.
typedef struct {
    // sizeof(fa_softmax_forward_tensors).
    size_t struct_size;
    // The input, with a stride of 1 in the last dimension.
    const fa_tensor *x;
    // The output: x's shape and type. No other tensor lies between its first byte and its last.
    const fa_tensor *y;
    // Null, or the log-sum-exp of each row: x's shape without the last dimension, contiguous,
    // f32, or f64 for f64.
    const fa_tensor *lse;
    // Null, or the scale in device memory, in place of the options': one element, f32, or f64
    // for f64.
    const fa_tensor *scale;
    // Null, or what hides parts of rows.
    const fa_mask *mask;
} fa_softmax_forward_tensors;

// The tensors of a softmax's backward: either p or x is given, and the other null.
typedef struct {
    // sizeof(fa_softmax_backward_tensors).
    size_t struct_size;
    // The probabilities, which the forward wrote, with a stride of 1 in the last dimension.
    const fa_tensor *p;
    // The forward's input, with a stride of 1 in the last dimension: the probabilities are computed
    // again.
    const fa_tensor *x;
    // The gradient of the probabilities, of the same shape and type.
    const fa_tensor *dp;
    // The output, the gradient of x, of the same shape and type. It may be p, x or dp, with the
    // same strides; else no other tensor lies between its first byte and its last.
    const fa_tensor *dx;
    // Null, or the forward's scale in device memory, in place of the options'.
    const fa_tensor *scale;
    // Null, or the forward's mask. From p, masks with a value for each element are not read.
    const fa_mask *mask;
} fa_softmax_backward_tensors;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Enqueues attention's forward on `stream`: a CUstream or cudaStream_t of the device's primary
// context, null for the default stream. Allocates no device memory, does not wait, and can be
// captured in a CUDA graph once the call has been planned.
//
// # Safety
// Pointers are null or valid; the tensors are memory of the device, valid until the work is done
// and not written by other work meanwhile; offsets of sequences ascend within the tensors' rows.
fa_status fa_attention_forward(const fa_device *device,
                               const fa_attention_options *options,
                               const fa_attention_forward_tensors *tensors,
                               void *stream);

// As `fa_softmax_forward_plan`, for attention's forward.
//
// # Safety
// As for `fa_softmax_forward_plan`.
fa_status fa_attention_forward_plan(const fa_device *device,
                                    const fa_attention_options *options,
                                    const fa_attention_forward_tensors *tensors,
                                    char *text,
                                    size_t capacity,
                                    size_t *length);

// Writes to `bytes` how much device memory attention's forward needs beside its tensors: none, of
// the kernels there are.
//
// # Safety
// Pointers are null or valid.
fa_status fa_attention_forward_workspace(const fa_device *device,
                                         const fa_attention_options *options,
                                         const fa_attention_forward_tensors *tensors,
                                         size_t *bytes);

// Opens the GPU of this number, of the CUDA driver's numbering, by its primary context, which
// CUDA's runtime uses too.
//
// # Safety
// `device` is null (an error) or may be written.
fa_status fa_device_create_cuda(uint32_t ordinal, fa_device **device);

// Opens the emulator, which runs kernels on the CPU before a call returns; tensors are in memory
// of `fa_emulator_allocate`. Only in a library that is built with it.
//
// # Safety
// `device` is null (an error) or may be written.
fa_status fa_device_create_emulator(fa_device **device);

// Gives a handle back; null is nothing to do. Work that is enqueued goes on, and loaded kernels
// stay for the next handle.
//
// # Safety
// `device` is null or a handle that is not used again.
void fa_device_destroy(fa_device *device);

// Writes which device this is, such as "cuda:0 (NVIDIA H200)": at most `capacity` bytes with a
// NUL to `text` unless that is null, and the whole length without it to `length` unless that is.
//
// # Safety
// `device` is null (an error) or a handle; `text` has room for `capacity` bytes.
fa_status fa_device_describe(const fa_device *device, char *text, size_t capacity, size_t *length);

// What the last call that failed on this thread was refused for, or failed of; empty if none
// has. Valid until the next call on this thread that fails.
const char *fa_last_error_message(void);

// The name of an fa_status; that of FA_STATUS_OTHER for a number that is none.
const char *fa_status_name(int32_t status);

// Writes to `pointer` the address of as many bytes of the host's memory, for tensors on the
// emulator, whose kernels may touch no other. On a GPU, tensors are in memory of the caller's.
//
// # Safety
// `device` is null (an error) or a handle; `pointer` is null (an error) or may be written.
fa_status fa_emulator_allocate(const fa_device *device, size_t bytes, void **pointer);

// Frees what `fa_emulator_allocate` gave. Null, and what is not from there, is nothing to do.
//
// # Safety
// Nothing uses the memory any more.
void fa_emulator_free(void *pointer);

// Enqueues the forward on `stream`: a CUstream or cudaStream_t of the device's primary context,
// null for the default stream. Allocates no device memory, does not wait, and can be captured in
// a CUDA graph once the call has been planned.
//
// # Safety
// Pointers are null or valid; the tensors are memory of the device, valid until the work is done
// and not written by other work meanwhile.
fa_status fa_softmax_forward(const fa_device *device,
                             const fa_softmax_options *options,
                             const fa_softmax_forward_tensors *tensors,
                             void *stream);

// Checks a forward call, chooses its kernel, and loads it, ahead of the call: before a graph is
// captured, or to keep the driver's compiler out of a measurement. Of the tensors only types,
// shapes, strides and the low bits of the pointers count.
//
// Writes which kernel that is, and why: at most `capacity` bytes with a NUL to `text` unless that
// is null, and the whole length without it to `length` unless that is.
//
// # Safety
// Pointers are null or valid; `text` has room for `capacity` bytes.
fa_status fa_softmax_forward_plan(const fa_device *device,
                                  const fa_softmax_options *options,
                                  const fa_softmax_forward_tensors *tensors,
                                  char *text,
                                  size_t capacity,
                                  size_t *length);

// Enqueues the backward on `stream`: the gradient of x from that of the probabilities. All else is
// as for `fa_softmax_forward`.
//
// # Safety
// As for `fa_softmax_forward`.
fa_status fa_softmax_backward(const fa_device *device,
                              const fa_softmax_options *options,
                              const fa_softmax_backward_tensors *tensors,
                              void *stream);

// As `fa_softmax_forward_plan`, for the backward.
//
// # Safety
// As for `fa_softmax_forward_plan`.
fa_status fa_softmax_backward_plan(const fa_device *device,
                                   const fa_softmax_options *options,
                                   const fa_softmax_backward_tensors *tensors,
                                   char *text,
                                   size_t capacity,
                                   size_t *length);

// The version of the library, such as "0.1.0"; that of the header may differ.
const char *fa_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FUSED_ATTENTION_H */
