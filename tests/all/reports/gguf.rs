//! GGUF files: in parts, and of types that are not read.
