//! What the examples share.
//!
//! | file | holds |
//! |---|---|
//! | [`tensor_file`] | reading and writing safetensors |
//! | [`command_line`] | options and exit codes |
//! | [`device`] | the choice between a GPU and the emulator |
//! | [`softmax`] | a softmax of tensors from a file, compared with the reference, and its time |
//! | [`attention`] | attention of tensors from a file, likewise |
//! | [`timing`] | the time that a run takes |
//! | [`shipped`] | the inputs that ship with the examples |

pub mod attention;
pub mod command_line;
pub mod device;
pub mod shipped;
pub mod softmax;
pub mod tensor_file;
pub mod timing;
