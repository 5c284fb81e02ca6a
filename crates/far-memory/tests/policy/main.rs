//! All recall policies through the public interface.

mod allocation;
mod conformance;
mod retriever_file;
