//! Folders of safetensors whose settings stand where a public file has them.
