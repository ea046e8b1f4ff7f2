//! Reading and writing safetensors.

use fused_attention::Scalar;
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },

    /// The file cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },

    /// The file is not in the format.
    #[error("{file} is not a safetensors file: {error}")]
    Format {
        /// The file.
        file: String,
        /// What is wrong with it.
        error: SafeTensorError,
    },

    /// The scale in the file's metadata is not a number.
    #[error("{file} has the scale {text:?} in its metadata, which is not a number")]
    Scale {
        /// The file.
        file: String,
        /// What it has there.
        text: String,
    },

    /// The file has no tensor of this name.
    #[error("{file} has no tensor {name:?}; it has {present}")]
    NoTensor {
        /// The file.
        file: String,
        /// The name asked for.
        name: String,
        /// The names there are.
        present: String,
    },
}

/// A safetensors file in memory.
#[derive(Debug)]
pub struct TensorFile {
    name: String,
    bytes: Vec<u8>,
}

/// A tensor of a file.
#[derive(Debug, Clone)]
pub struct StoredTensor<'a> {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its elements in row-major order, little-endian.
    bytes: &'a [u8],
}

impl TensorFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError::Read`] or [`FileError::Format`].
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let read = std::fs::read(path);
        let bytes = read.map_err(|error| FileError::Read { path: path.to_owned(), error })?;
        Self::from_bytes(&path.display().to_string(), bytes)
    }

    /// The file with these bytes; `name` is for messages.
    ///
    /// # Errors
    /// [`FileError::Format`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, FileError> {
        let file = TensorFile { name: name.to_owned(), bytes };
        file.parse()?;
        Ok(file)
    }

    /// What the file is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A value of the file's own metadata.
    ///
    /// # Errors
    /// [`FileError::Format`].
    pub fn metadata(&self, key: &str) -> Result<Option<String>, FileError> {
        let header = SafeTensors::read_metadata(&self.bytes);
        let (_, header) = header.map_err(|error| self.format(error))?;
        Ok(header.metadata().as_ref().and_then(|metadata| metadata.get(key)).cloned())
    }

    /// The scale in the file's metadata, if there is one.
    ///
    /// # Errors
    /// [`FileError::Scale`] or [`FileError::Format`].
    pub fn scale(&self) -> Result<Option<f64>, FileError> {
        let Some(text) = self.metadata("scale")? else { return Ok(None) };
        let number = text.trim().parse();
        number.map(Some).map_err(|_| FileError::Scale { file: self.name.clone(), text })
    }

    /// Whether the file has a tensor of this name.
    ///
    /// # Errors
    /// [`FileError::Format`].
    pub fn contains(&self, name: &str) -> Result<bool, FileError> {
        Ok(self.parse()?.names().contains(&name))
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// [`FileError::NoTensor`].
    pub fn tensor(&self, name: &str) -> Result<StoredTensor<'_>, FileError> {
        let parsed = self.parse()?;
        let Ok(view) = parsed.tensor(name) else {
            let mut names = parsed.names();
            names.sort_unstable();
            let (file, name) = (self.name.clone(), name.to_owned());
            return Err(FileError::NoTensor { file, name, present: names.join(", ") });
        };
        let (dtype, shape) = (view.dtype(), view.shape().to_vec());
        Ok(StoredTensor { dtype, shape, bytes: view.data() })
    }

    fn parse(&self) -> Result<SafeTensors<'_>, FileError> {
        SafeTensors::deserialize(&self.bytes).map_err(|error| self.format(error))
    }

    fn format(&self, error: SafeTensorError) -> FileError {
        FileError::Format { file: self.name.clone(), error }
    }
}

impl fmt::Display for StoredTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

impl StoredTensor<'_> {
    /// The elements, which must be of the type that the file says.
    ///
    /// # Panics
    /// They are not.
    pub fn elements<T: Stored>(&self) -> Vec<T> {
        // A byte for each bool, which is 0 or 1.
        let known = self.dtype == T::STORED || (self.dtype, T::STORED) == (Dtype::BOOL, Dtype::U8);
        assert!(known, "{} read as {}", self.dtype, T::STORED);
        self.bytes.chunks_exact(size_of::<T>()).map(T::from_little_endian).collect()
    }
}

impl StoredTensor<'_> {
    /// The elements, as the numbers they are.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        fn widen<T: Stored>(tensor: &StoredTensor<'_>, to_f64: fn(T) -> f64) -> Vec<f64> {
            tensor.elements().into_iter().map(to_f64).collect()
        }
        match self.dtype {
            Dtype::F16 => widen(self, f16::to_f64),
            Dtype::BF16 => widen(self, bf16::to_f64),
            Dtype::F32 => widen::<f32>(self, f64::from),
            Dtype::F64 => self.elements(),
            Dtype::I32 => widen::<i32>(self, f64::from),
            _ => widen::<u8>(self, f64::from),
        }
    }
}

/// A type that a file can hold.
pub trait Stored: Scalar {
    /// The type as a value.
    const STORED: Dtype;

    /// An element from its bytes.
    ///
    /// # Panics
    /// They are not as many as the element has.
    fn from_little_endian(bytes: &[u8]) -> Self;

    /// Appends the bytes of an element.
    fn append_little_endian(self, bytes: &mut Vec<u8>);
}

macro_rules! stored {
    ($($T:ident $dtype:ident)*) => {$(
        impl Stored for $T {
            const STORED: Dtype = Dtype::$dtype;

            fn from_little_endian(bytes: &[u8]) -> Self {
                $T::from_le_bytes(bytes.try_into().expect("the bytes of one element"))
            }

            fn append_little_endian(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )*};
}

stored!(f16 F16 bf16 BF16 f32 F32 f64 F64 u8 U8 i32 I32);

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedTensor {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its sizes.
    pub shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl OwnedTensor {
    /// A tensor of these elements, in row-major order.
    pub fn new<T: Stored>(elements: &[T], shape: &[usize]) -> Self {
        let mut bytes = Vec::with_capacity(size_of_val(elements));
        elements.iter().for_each(|&element| element.append_little_endian(&mut bytes));
        OwnedTensor { dtype: T::STORED, shape: shape.to_vec(), bytes }
    }
}

impl fmt::Display for OwnedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

/// A file of these tensors, as bytes.
///
/// # Errors
/// A tensor has not as many elements as its shape says.
pub fn to_bytes(tensors: &[(&str, &OwnedTensor)]) -> Result<Vec<u8>, SafeTensorError> {
    let mut views = Vec::new();
    for (name, tensor) in tensors {
        views.push((name, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes)?));
    }
    safetensors::serialize(views, None)
}

/// Writes a file of these tensors.
///
/// # Errors
/// [`FileError::Write`], or a tensor has not as many elements as its shape says.
pub fn write(path: &Path, tensors: &[(&str, &OwnedTensor)]) -> Result<(), FileError> {
    let bytes = to_bytes(tensors)
        .map_err(|error| FileError::Format { file: path.display().to_string(), error })?;
    std::fs::write(path, bytes).map_err(|error| FileError::Write { path: path.to_owned(), error })
}
