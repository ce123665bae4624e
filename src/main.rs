//! The `tribunal` command. Everything it does lives in the library.

fn main() -> std::process::ExitCode {
    // First of all: what comes after may already be made of instructions that this processor lacks.
    tribunal::console::start::too_new().unwrap_or_else(tribunal::cli::main)
}
