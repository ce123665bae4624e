//! The `tribunal` command. Everything it does lives in the library.

fn main() -> std::process::ExitCode {
    // First of all: what comes after may already be made of instructions that this processor lacks.
    if let Some(missing) = tribunal::model::cpu::baseline::missing() {
        return tribunal::cli::too_new(missing);
    }
    tribunal::cli::main()
}
