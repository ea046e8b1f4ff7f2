//! Flash attention.

mod definition;
mod properties;
