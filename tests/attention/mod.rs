//! Flash attention.

mod definition;
mod dropout;
mod errors;
mod graphs;
mod hopper;
mod hopper_sequences;
mod large;
mod layouts;
mod masked_rows;
mod masks;
mod not_finite;
mod omitted_synchronisation;
mod plans;
mod properties;
mod ranges;
mod schedule;
mod scores;
mod sequences;
mod shapes;
mod unread;
